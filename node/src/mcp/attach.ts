/** Routes and triggers on every tool call of a server. */
import type { Hub } from "../hub";
import type { AuthInfo, Context } from "./context";
import { CONFIG, EXTENSION } from "./wire";
import { type Handler, type Params, type Terms, watchedCall } from "./watched-call";

/** A low-level `Server` of either SDK, as far as the adapter needs it. Private: `_requestHandlers`. */
export interface SdkServer {
  registerCapabilities(capabilities: any): void;
  readonly transport?: { send(message: any, options?: any): Promise<void> } | undefined;
}
/** An `McpServer` of either SDK, or a low-level `Server`. */
export type AnyServer = SdkServer | { readonly server: SdkServer };

export interface AttachOptions {
  /** The route types that clients may ask for, such as `["webhook"]`; none without: nothing of the draft is on. */
  routes?: readonly string[];
  /** The names that routes of type `callback` and `message` may have. */
  open?: readonly string[];
  /** The time limit of tools, for all or by name, in milliseconds. A client may only lower it. */
  timeoutMs?: number | Readonly<Record<string, number>>;
  /** Who asks, from what the server's authentication found; `undefined`: the session stands in. */
  principal?: (authInfo: AuthInfo) => string | undefined;
  /** How many calls of one principal may go on without their client. */
  detachedCalls?: number;
  /** For how long each of them may. */
  detachedMs?: number;
}

/** The text that names an authenticated principal; the same in every language. */
function principalOf({ clientId, extra }: AuthInfo): string {
  const text = (value: unknown): string | null => (typeof value === "string" ? value : null);
  return `auth:${JSON.stringify([text(extra?.["iss"]), text(extra?.["sub"]), clientId])}`;
}

const attached = new WeakSet<object>();

/**
 * Watches the tool calls of a server that bring a `notificationConfig` (SEP-992), on `@modelcontextprotocol/server` 2.x and
 * `@modelcontextprotocol/sdk` 1.x, before it is connected. In `createMcpHandler` call it in the factory.
 *
 * A config is accepted whole or refused whole (-32602, `data.faults`) before the tool runs, acknowledged before it runs and
 * again in the result's `_meta`. The call ends in exactly one outcome, and goes on when its client's connection is lost.
 */
export function attach(server: AnyServer, hub: Hub, options: AttachOptions = {}): void {
  const sdk = "server" in server ? server.server : server;
  if (attached.has(sdk)) throw new Error("tidings is attached to this server already");
  const handlers = (sdk as unknown as { _requestHandlers?: Map<string, Handler> })._requestHandlers;
  if (!(handlers instanceof Map)) {
    throw new Error("this version of the MCP SDK is not known: its server has no _requestHandlers");
  }
  const { routes = [], open = [], timeoutMs, detachedCalls = 64, detachedMs = 3_600_000 } = options;
  const { principal = principalOf } = options;
  if (routes.length > 0) {
    const capability = { supportedRouteTypes: [...routes] };
    sdk.registerCapabilities({ extensions: { [EXTENSION]: capability }, [CONFIG]: capability });
  }
  attached.add(sdk);
  const limitOf = (tool: string): number | undefined =>
    typeof timeoutMs === "number" ? timeoutMs : Object.hasOwn(timeoutMs ?? {}, tool) ? timeoutMs?.[tool] : undefined;

  const wrap =
    (handler: Handler): Handler =>
    (request: { params?: Params }, context: Context) => {
      const { params } = request;
      const tool = params?.["name"];
      // What is no tools/call, the SDK refuses in its own words; nothing is accepted then.
      if (typeof tool !== "string" || routes.length === 0 || params?.[CONFIG] === undefined) {
        return handler(request, context);
      }
      const terms: Terms = {
        hub,
        routes,
        open,
        timeoutMs: limitOf(tool),
        principal,
        detachedCalls,
        detachedMs,
        // Now: when the connection closes, the server forgets it.
        transport: sdk.transport,
        transportNow: () => sdk.transport,
      };
      return watchedCall(terms, handler, request, context);
    };

  // The SDK installs its handler with the first tool, which may come later.
  const before = handlers.get("tools/call");
  handlers.set = (method, handler) => Map.prototype.set.call(handlers, method, method === "tools/call" ? wrap(handler) : handler);
  if (before !== undefined) handlers.set("tools/call", before);
}
