/** `attach`: what the adapter brings to a server, in one call; `notify`: telling its peers what has changed. */
import type { Change, Fanout } from "../fanout";
import { Hub } from "../hub";
import { type AnyServer, Handlers, lowLevel, type SdkServer } from "./intercept";
import { followPeers } from "./peers";
import { authenticated, type PrincipalOf } from "./principal";
import { type Terms, watchedCall } from "./watched-call";
import { CONFIG, EXTENSION } from "./wire";

export interface AttachOptions {
  /** The route types that clients may ask for, such as `["webhook"]`; none without: nothing of the draft is on. */
  routes?: readonly string[];
  /** The names that routes of type `callback` and `message` may have. */
  open?: readonly string[];
  /** The time limit of tools, for all or by name, in milliseconds. A client may only lower it. */
  timeoutMs?: number | Readonly<Record<string, number>>;
  /** Who asks, from what the server's authentication found; `undefined`: the session stands in. */
  principal?: PrincipalOf;
  /** Registers the server's sessions, so that `notify` reaches them; `false` leaves that be. */
  fanout?: boolean;
  /** How many calls of one principal may go on without their client. */
  detachedCalls?: number;
  /** For how long each of them may. */
  detachedMs?: number;
}

const attached = new WeakMap<object, Hub>();

/**
 * Attaches a hub to a server of `@modelcontextprotocol/server` 2.x or `@modelcontextprotocol/sdk` 1.x, before it is connected. In
 * `createMcpHandler` call it in the factory.
 *
 * With nothing named, its sessions are registered, so that `notify` reaches them: each that completed its handshake, for what
 * the server declares that it tells, and for the resources it subscribed to.
 *
 * `routes`: tool calls that bring a `notificationConfig` (SEP-992) are watched. A config is accepted whole or refused whole
 * (-32602, `data.faults`) before the tool runs, acknowledged before it runs and again in the result's `_meta`. The call ends in
 * exactly one outcome, and goes on when its client's connection is lost.
 */
export function attach(server: AnyServer, hub: Hub, options: AttachOptions = {}): void {
  const sdk = lowLevel(server);
  if (attached.has(sdk)) throw new Error("tidings is attached to this server already");
  const handlers = new Handlers(sdk);
  const { routes = [], fanout = true, principal = authenticated } = options;
  attached.set(sdk, hub);
  if (routes.length > 0) watchCalls(sdk, handlers, hub, options);
  if (fanout) followPeers(sdk, handlers, hub, principal);
}

function watchCalls(sdk: SdkServer, handlers: Handlers, hub: Hub, options: AttachOptions): void {
  const { routes = [], open = [], timeoutMs, detachedCalls = 64, detachedMs = 3_600_000 } = options;
  const { principal = authenticated } = options;
  const capability = { supportedRouteTypes: [...routes] };
  sdk.registerCapabilities({ extensions: { [EXTENSION]: capability }, [CONFIG]: capability });
  const limitOf = (tool: string): number | undefined =>
    typeof timeoutMs === "number" ? timeoutMs : Object.hasOwn(timeoutMs ?? {}, tool) ? timeoutMs?.[tool] : undefined;

  handlers.around("tools/call", (request, context, next) => {
    const { params } = request;
    const tool = params?.["name"];
    // What is no tools/call, the SDK refuses in its own words; nothing is accepted then.
    if (typeof tool !== "string" || params?.[CONFIG] === undefined) return next(request, context);
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
    return watchedCall(terms, next, request, context);
  });
}

/**
 * Tells every peer that asked for it that something has changed: sessions of both SDKs, listeners of 2026-07-28 behind
 * `durableFetch`, in every process on the store. Never waits. `audience`: only peers of that principal.
 *
 * The answer counts this hub's peers: `told`; `skipped` (they did not ask, may not hear it, or cannot be reached: a session
 * without an open GET stream and without an event store of ours); `failed` (they had not taken an earlier one in time).
 *
 * @throws TypeError for a server that is not attached; InvalidArgumentError for a kind that there is not
 */
export function notify(target: Hub | AnyServer, change: Change, options: { audience?: string } = {}): Fanout {
  const hub = target instanceof Hub ? target : attached.get(lowLevel(target));
  if (hub === undefined) throw new TypeError("notify takes a Hub or a server that was attached to one");
  return hub.notify(change, options);
}
