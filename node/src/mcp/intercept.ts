/**
 * Standing around the handlers of a server. A release that has request middleware (`server.use`, typescript-sdk#2820) is asked
 * by that; in others the handlers themselves are wrapped, also those that the SDK installs later, with the first tool or
 * resource. Private in those: `_requestHandlers`, `_notificationHandlers`.
 */
import type { Context } from "./context";
import type { Transport } from "./transports";

export type Params = Record<string, unknown>;
/** A request as it came, so that what the SDK's types leave out is there. */
export interface Message {
  method?: string;
  params?: Params;
}
export type Handler = (request: Message, context: Context) => Promise<unknown>;
export type Around = (request: Message, context: Context, next: Handler) => Promise<unknown>;

/** A notification on its way to the client. */
export interface Outgoing {
  readonly notification: { readonly method: string; readonly params?: Params };
  /** Whose stream it goes on; without, on the session's own. */
  readonly options: { readonly relatedRequestId?: string | number | undefined } | undefined;
}
/** Looks at what is sent. */
export interface Gate {
  /** What is sent instead; `undefined`: nothing. What it throws is the sender's. */
  pass(outgoing: Outgoing): Outgoing | undefined;
}

/** A low-level `Server` of either SDK, as far as the adapter needs it. */
export interface SdkServer {
  registerCapabilities(capabilities: any): void;
  readonly transport?: Transport | undefined;
}
/** An `McpServer` of either SDK, or a low-level `Server`. */
export type AnyServer = SdkServer | { readonly server: SdkServer };

interface Inside extends SdkServer {
  notification(notification: Outgoing["notification"], options?: Outgoing["options"]): Promise<void>;
  getCapabilities?(): Params;
  use?: (method: string, middleware: Around) => unknown;
  _capabilities?: Params;
  _serverInfo?: Params;
  _requestHandlers?: Map<string, Handler>;
  _notificationHandlers?: Map<string, (...given: any[]) => unknown>;
  _customSchemaRequestMethods?: Set<string>;
}

/** The low-level server. */
export function lowLevel(server: AnyServer): SdkServer {
  return "server" in server ? server.server : server;
}

/** The handlers of one server. */
export class Handlers {
  readonly #sdk: Inside;
  readonly #requests: Map<string, Handler>;
  readonly #notifications: Map<string, (...given: any[]) => unknown>;
  readonly #around = new Map<string, Around[]>();
  readonly #appears = new Map<string, () => void>();

  /** Throws for a server that is none, or of an SDK that is not known. */
  constructor(sdk: SdkServer) {
    this.#sdk = sdk as Inside;
    const { _requestHandlers: requests, _notificationHandlers: notifications } = this.#sdk;
    if (!(requests instanceof Map) || !(notifications instanceof Map)) {
      throw new Error("this version of the MCP SDK is not known: its server has no _requestHandlers");
    }
    this.#requests = requests;
    this.#notifications = notifications;
    // The SDK installs some handlers with the first tool or resource, which may come later.
    requests.set = (method, handler) => {
      const all = this.#around.get(method) ?? [];
      Map.prototype.set.call(requests, method, all.reduce(wrapped, handler));
      const appears = this.#appears.get(method);
      this.#appears.delete(method);
      appears?.();
      return requests;
    };
  }

  /** The capabilities that the server declares. */
  get capabilities(): Params {
    return this.#sdk.getCapabilities?.() ?? this.#sdk._capabilities ?? {};
  }

  /** Stands around a method's handler, present or to come, and around who stood there before. */
  around(method: string, around: Around): void {
    if (typeof this.#sdk.use === "function") {
      this.#sdk.use(method, around);
      return;
    }
    this.#around.set(method, [...(this.#around.get(method) ?? []), around]);
    const before = this.#requests.get(method);
    if (before !== undefined) Map.prototype.set.call(this.#requests, method, wrapped(before, around));
  }

  has(method: string): boolean {
    return this.#requests.has(method);
  }

  /** Serves a method; one of the extension's own is served although the protocol's core once had it. */
  serve(method: string, handler: Handler): void {
    Map.prototype.set.call(this.#requests, method, handler);
    this.#sdk._customSchemaRequestMethods?.add(method);
  }

  /** Calls back once the server serves a method; at once if it does. */
  onceServed(method: string, then: () => void): void {
    if (this.#requests.has(method)) then();
    else this.#appears.set(method, then);
  }

  /** Calls back for each notification of a kind, before the server's own handler. */
  heard(method: string, heard: (notification: Message) => void): void {
    const before = this.#notifications.get(method);
    this.#notifications.set(method, (...given) => {
      heard(given[0] as Message);
      return before?.(...given);
    });
  }

  /** Has a gate look at every notification of the server. Those of a request's own context are beside it on 2.x. */
  gate(gate: Gate): void {
    const send = this.#sdk.notification.bind(this.#sdk);
    this.#sdk.notification = async (notification, options) => {
      const passed = gate.pass({ notification, options });
      if (passed !== undefined) await send(passed.notification, passed.options);
    };
  }

  /** Sends a notification that belongs to no request. */
  notify(method: string, params: Params | undefined): Promise<void> {
    return this.#sdk.notification(params === undefined ? { method } : { method, params });
  }
}

function wrapped(handler: Handler, around: Around): Handler {
  return (request, context) => around(request, context, handler);
}
