/** `durableTransport`: `subscriptions/listen` (2026-07-28) over stdio, or any one connection, served from the hub. */
import { randomUUID } from "node:crypto";

import { InvalidArgumentError } from "../errors";
import type { Hub } from "../hub";
import { changeIn } from "./bus";
import type { Gate, Params, SdkServer } from "./intercept";
import { Listener, type ListenerPlace, Listeners } from "./listen";
import { principalOf } from "./principal";
import { connectionOf, hasListeners, type Transport } from "./transports";
import * as wire from "./wire";

/** A transport of one connection, such as the SDK's `StdioServerTransport`. */
export interface ConnectionTransport extends Transport {
  onmessage?: ((message: any, extra?: any) => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  start(): Promise<void>;
  close(): Promise<void>;
}

/** Options of `durableTransport`. */
export interface DurableTransportOptions {
  /** How many listeners are served at a time. Default: 1,024. */
  maxListeners?: number;
}

interface Message {
  readonly jsonrpc: "2.0";
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: Params;
  readonly result?: unknown;
  readonly error?: unknown;
}

/** A listener that is being opened, or one that is open; `cancelled`: its client wants it no more. */
interface Opening {
  listener?: ConnectionListener;
  cancelled: boolean;
}

class DurableTransport implements ConnectionTransport {
  onmessage: ((message: any, extra?: any) => void) | undefined;
  onerror: ((error: Error) => void) | undefined;
  onclose: (() => void) | undefined;
  setProtocolVersion: ((version: string) => void) | undefined;
  /** The connection itself, as the SDK's own channels name it. */
  readonly _wire: ConnectionTransport;
  readonly #listeners: Listeners;
  readonly #open = new Map<string | number, Opening>();
  /** Requests of our own, by their ids. */
  readonly #asked = new Map<unknown, (answer: Message) => void>();

  constructor(connection: ConnectionTransport, hub: Hub, max: number) {
    this._wire = connection;
    this.#listeners = new Listeners(hub, max);
  }

  async start(): Promise<void> {
    const connection = this._wire;
    connection.onmessage = (message: Message, extra?: unknown) => this.#received(message, extra);
    connection.onerror = (error) => this.onerror?.(error);
    connection.onclose = () => {
      for (const opening of this.#open.values()) {
        opening.cancelled = true;
        opening.listener?.leave();
      }
      this.onclose?.();
    };
    await connection.start();
  }

  async send(message: Message, options?: unknown): Promise<void> {
    const answered = message.method === undefined ? this.#asked.get(message.id) : undefined;
    if (answered === undefined) return this._wire.send(message, options);
    this.#asked.delete(message.id);
    answered(message);
  }

  close(): Promise<void> {
    return this._wire.close();
  }

  #received(message: Message, extra: unknown): void {
    const { id, method, params } = message;
    if (method === wire.LISTEN && id !== undefined && isObject(params?.["_meta"])) {
      void this.#listen(message, id, params["_meta"] as Params, extra);
      return;
    }
    if (method === "notifications/cancelled" && this.#cancelled(params?.["requestId"])) return;
    this.onmessage?.(message, extra);
  }

  #cancelled(id: unknown): boolean {
    const opening = this.#open.get(id as string | number);
    if (opening === undefined) return false;
    opening.cancelled = true;
    opening.listener?.leave();
    return true;
  }

  /** Never rejects. */
  async #listen(message: Message, id: string | number, meta: Params, extra: unknown): Promise<void> {
    const opening: Opening = { cancelled: false };
    if (this.#open.has(id)) {
      const error = { code: wire.INVALID_REQUEST, message: "A listener of this id is open" };
      await this.#send({ jsonrpc: "2.0", id, error });
      return;
    }
    this.#open.set(id, opening);
    try {
      // The server says what it can do, and whether this request is one that it would serve.
      const server = await this.#discover(meta);
      if (opening.cancelled || server === undefined) {
        this.#open.delete(id);
        if (!opening.cancelled) this.onmessage?.(message, extra);
        return;
      }
      const asked = {
        id,
        version: String(meta[wire.PROTOCOL_VERSION]),
        filter: message.params?.["notifications"],
        client: (meta[wire.CLIENT_CAPABILITIES] ?? {}) as Params,
        server: server.capabilities,
        serverInfo: server.info,
        principal: principalOf(() => undefined, { authInfo: undefined, sessionId: undefined }, this)[0],
      };
      opening.listener = this.#listeners.serve(asked, (place) => {
        const over = (): void => {
          this.#open.delete(id);
          place.over();
        };
        return new ConnectionListener({ ...place, over }, this._wire);
      });
    } catch (error) {
      this.#open.delete(id);
      const answer = error instanceof wire.JsonRpcError ? error.toJSON() : wire.errorOf(error);
      await this.#send({ jsonrpc: "2.0", id, error: answer });
    }
  }

  async #send(message: Message): Promise<void> {
    await this._wire.send(message).catch((error: Error) => this.onerror?.(error));
  }

  async #discover(meta: Params): Promise<{ capabilities: Params; info: unknown } | undefined> {
    const id = `io.tidings/${randomUUID()}`;
    const answer = await new Promise<Message>((resolve) => {
      this.#asked.set(id, resolve);
      this.onmessage?.({ jsonrpc: "2.0", id, method: wire.DISCOVER, params: { _meta: meta } });
    });
    const { capabilities, _meta } = (answer.result ?? {}) as { capabilities?: Params; _meta?: Params };
    return isObject(capabilities) ? { capabilities, info: _meta?.[wire.SERVER_INFO] } : undefined;
  }

  /** Ends every listener in order. */
  endListeners(): void {
    this.#listeners.end();
  }
}

/** Writes to the connection that it shares with everything else. */
class ConnectionListener extends Listener {
  constructor(
    place: ListenerPlace,
    readonly connection: ConnectionTransport,
  ) {
    super(place);
  }

  async write(method: string, params: string | undefined): Promise<void> {
    if (this.closed) throw new Error("the connection is closed");
    const frame = { jsonrpc: "2.0", method };
    // Done when the client has read enough: a pipe takes no more than it has room for.
    await this.connection.send(params === undefined ? frame : { ...frame, params: JSON.parse(params) as Params });
  }

  failed(): void {
    this.close();
    const message = "The client did not read its notifications";
    this.#answer({ error: { code: wire.INTERNAL_ERROR, message } });
  }

  finished(): void {
    if (this.closed) return;
    this.#answer({ result: JSON.parse(this.result()) as unknown });
    this.gone();
  }

  /** The client wants it no more, or has gone. */
  leave(): void {
    this.gone();
  }

  #answer(answer: object): void {
    this.connection.send({ jsonrpc: "2.0", id: this.place.asked.id, ...answer }).catch(() => {
      // The connection went.
    });
  }
}

/** Has what a server itself says has changed told to the listeners that the hub has, which the SDK does not know of. */
export function publishing(sdk: SdkServer, hub: Hub): Gate {
  return {
    pass: (outgoing) => {
      const { transport } = sdk;
      const isTheirs = transport !== undefined && hasListeners(transport) && connectionOf(transport) instanceof DurableTransport;
      const change = isTheirs ? changeIn(outgoing.notification) : undefined;
      if (change === undefined) return outgoing;
      try {
        hub.notify(change);
      } catch (error) {
        process.emitWarning(`tidings: a change could not be published: ${String(error)}`, { code: "TIDINGS_FANOUT" });
      }
      return undefined;
    },
  };
}

function isObject(value: unknown): value is Params {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A transport whose listeners the hub has; see `durableTransport`. */
export interface DurableConnection extends ConnectionTransport {
  /** Ends every listener in order: each gets what it was promised, then the result of its request. Does not wait. */
  endListeners(): void;
}

/**
 * Puts the hub before the listeners of a connection of 2026-07-28 over stdio, as `durableFetch` does over HTTP: within the filter,
 * for what the server declares, tasks by `taskIds` included; coalesced where a client lags, and told what other processes publish.
 * Everything else goes to the server as it is, sessions of earlier versions too.
 *
 * ```ts
 * serveStdio(factory, { transport: durableTransport(new StdioServerTransport(), hub) });
 * ```
 */
export function durableTransport(
  transport: ConnectionTransport,
  hub: Hub,
  options: DurableTransportOptions = {},
): DurableConnection {
  const { maxListeners = 1_024 } = options;
  if (!Number.isSafeInteger(maxListeners) || maxListeners < 0) {
    throw new InvalidArgumentError("maxListeners: must be a whole number, 0 or more");
  }
  return new DurableTransport(transport, hub, maxListeners);
}
