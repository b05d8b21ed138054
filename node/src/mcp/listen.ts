/** `subscriptions/listen` (2026-07-28), served from the hub: one response is one listener. */
import { Desk, type SinkWriter } from "../fanout";
import { InvalidArgumentError } from "../errors";
import { type Hub, nativeOf } from "../hub";
import { Profile } from "../outbox";
import type { Params } from "./intercept";
import { SSE_HEADERS } from "./sse";
import * as wire from "./wire";

/** What a listener asks for, on whose behalf, of which server. */
export interface Asked {
  readonly id: string | number;
  readonly version: string;
  readonly filter: unknown;
  readonly client: Params;
  readonly server: Params;
  /** How the server names itself, for the end of the listener. */
  readonly serverInfo: unknown;
  readonly principal: string;
  readonly signal: AbortSignal;
}

/** Bytes that may wait for a client before a write waits for it. */
const BUFFER = 16_384;

/** The listeners of one front. */
export class Listeners {
  readonly #open = new Set<Listener>();

  constructor(
    readonly hub: Hub,
    readonly max: number,
    readonly keepAliveMs: number,
  ) {}

  /** Answers with the listener's stream, or throws the error to answer with. */
  serve(asked: Asked): Response {
    const { filter } = asked;
    if (typeof filter !== "object" || filter === null || Array.isArray(filter)) {
      throw new wire.JsonRpcError(wire.INVALID_PARAMS, "notifications: must be an object");
    }
    const taskIds = (filter as Params)["taskIds"];
    if (Array.isArray(taskIds) && taskIds.length > 0 && !wire.declaresTasks(asked.client)) throw wire.undeclared();
    if (this.#open.size >= this.max) throw new wire.JsonRpcError(wire.INTERNAL_ERROR, "Subscription limit reached");
    try {
      const desk = Desk.of(nativeOf(this.hub));
      const profile = new Profile(asked.version, JSON.stringify(asked.server), JSON.stringify(asked.client));
      const honoured = profile.honoured(JSON.stringify(this.#theirs(filter as Params, asked.principal)));
      const listener = new Listener(desk, asked, this.keepAliveMs, () => this.#open.delete(listener));
      this.#open.add(listener);
      listener.begin((sink) => desk.outbox.listen(sink, profile, asked.id, honoured));
      return new Response(listener.readable, { headers: SSE_HEADERS });
    } catch (error) {
      if (error instanceof InvalidArgumentError) {
        throw new wire.JsonRpcError(wire.INVALID_PARAMS, (error as Error).message);
      }
      process.emitWarning(`tidings: a listener could not be served: ${String(error)}`, { code: "TIDINGS_FANOUT" });
      throw new wire.JsonRpcError(wire.INTERNAL_ERROR, "Notifications cannot be served now; try again later");
    }
  }

  /** The filter without the tasks that are not there for who asks. */
  #theirs(filter: Params, principal: string): Params {
    const { taskIds } = filter;
    if (!Array.isArray(taskIds)) return filter;
    // What is no text the core refuses.
    const theirs = taskIds.filter((id) => typeof id !== "string" || this.hub.task(id, { principal }) !== undefined);
    return { ...filter, taskIds: theirs };
  }

  /** Ends every listener in order: each gets what it was promised, then the result of its request. Does not wait. */
  end(): void {
    for (const listener of this.#open) listener.end();
  }
}

/** One response. */
class Listener implements SinkWriter {
  readonly readable: ReadableStream<Uint8Array>;
  readonly #encoder = new TextEncoder();
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  #sink = 0;
  #listener = 0;
  #drained: (() => void) | undefined;
  #closed = false;
  readonly #keepAlive: NodeJS.Timeout;
  readonly #aborted = (): void => this.#gone();

  constructor(
    readonly desk: Desk,
    readonly asked: Asked,
    keepAliveMs: number,
    readonly over: () => void,
  ) {
    this.readable = new ReadableStream<Uint8Array>(
      {
        start: (controller) => void (this.#controller = controller),
        pull: () => this.#drained?.(),
        cancel: () => this.#gone(),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: BUFFER }),
    );
    this.#keepAlive = setInterval(() => {
      // Only for who has read everything: what is not read would be kept.
      if ((this.#controller.desiredSize ?? 0) >= BUFFER) this.#enqueue(": keepalive\n\n");
    }, keepAliveMs).unref();
    asked.signal.addEventListener("abort", this.#aborted, { once: true });
  }

  /** Takes a place; `listen` registers the listener there. May throw. */
  begin(listen: (sink: number) => number): void {
    this.#sink = this.desk.add(this, this.asked.principal);
    try {
      this.#listener = listen(this.#sink);
    } catch (error) {
      this.#close();
      throw error;
    }
    if (this.asked.signal.aborted) this.#gone();
  }

  end(): void {
    if (!this.#closed) this.desk.outbox.end(this.#listener);
  }

  write(method: string, params: string | undefined): void | Promise<void> {
    if (this.#closed) throw new Error("the connection is closed");
    this.#message(params === undefined ? `"method":"${method}"` : `"method":"${method}","params":${params}`);
    if ((this.#controller.desiredSize ?? 0) > 0) return;
    return new Promise((resolve) => {
      this.#drained = () => {
        this.#drained = undefined;
        resolve();
      };
    });
  }

  failed(): void {
    this.#close();
    try {
      this.#controller.error(new Error("the client did not read its notifications"));
    } catch {
      // It is closed.
    }
  }

  finished(): void {
    if (this.#closed) return;
    const { id, serverInfo } = this.asked;
    const meta = { [wire.SUBSCRIPTION_ID]: id, ...(serverInfo === undefined ? {} : { [wire.SERVER_INFO]: serverInfo }) };
    this.#message(`"id":${JSON.stringify(id)},"result":${JSON.stringify({ resultType: "complete", _meta: meta })}`);
    this.#gone();
    this.#controller.close();
  }

  /** Nobody reads any longer. */
  #gone(): void {
    if (this.#closed) return;
    this.#close();
    this.desk.drop(this.#sink);
  }

  #close(): void {
    this.#closed = true;
    clearInterval(this.#keepAlive);
    this.asked.signal.removeEventListener("abort", this.#aborted);
    this.#drained?.();
    this.over();
  }

  #message(members: string): void {
    this.#enqueue(`event: message\ndata: {"jsonrpc":"2.0",${members}}\n\n`);
  }

  #enqueue(text: string): void {
    this.#controller.enqueue(this.#encoder.encode(text));
  }
}
