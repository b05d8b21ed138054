/** `attach`: what the adapter brings to a server, in one call; `notify`: telling its peers what has changed. */
import type { Change, Fanout } from "../fanout";
import { InvalidArgumentError } from "../errors";
import { Hub } from "../hub";
import { serveCallMethods } from "./call-methods";
import { configMoved } from "./config-place";
import { requestOf } from "./context";
import { Doorbell } from "./doorbell";
import { SessionEventStore } from "./event-store";
import { gateNotifications } from "./gates";
import { type AnyServer, Handlers, lowLevel, type SdkServer } from "./intercept";
import { publishing } from "./listen-stdio";
import { followPeers } from "./peers";
import { authenticated, type PrincipalOf } from "./principal";
import { SessionPlace } from "./place";
import { holdSession, recordSession } from "./sessions";
import { checkDefaults, type DefaultRoutes, type Policy, Routing } from "./routing";
import { taskCall } from "./task-call";
import { asker, TaskMethods } from "./task-methods";
import { Tasks, type TasksOptions } from "./tasks";
import { overHttp, storeOf, type Transport } from "./transports";
import { type Terms, toolRequest, watchedCall } from "./watched-call";
import * as wire from "./wire";

export interface AttachOptions {
  /**
   * The route types that clients may ask for, such as `["webhook"]`; none without: nothing of the draft is on. `message` is a
   * notification into the calling session; `signal` rings the process at the other end of stdio, on Linux. What a session cannot
   * have is not in its capabilities.
   */
  routes?: readonly string[];
  /** The names that routes of type `callback` and `message` may have. */
  open?: readonly string[];
  /**
   * Judges each client's config before anything else. What throws, or takes longer than ten seconds, refuses the config with
   * -32603.
   */
  policy?: Policy;
  /**
   * The server's own routes, for all tools or by name, for calls whose client brings no config; a client that brings one is told
   * by its own routes only. Nobody has to allow them and nobody is told of them.
   */
  defaultRoutes?: DefaultRoutes;
  /** Offers routes of type `signal` also where this process is root's. */
  signalAsRoot?: boolean;
  /** The time limit of tools, for all or by name, in milliseconds. A client may only lower it. */
  timeoutMs?: number | Readonly<Record<string, number>>;
  /**
   * Serves the Tasks extension (SEP-2663) on `@modelcontextprotocol/server` 2.x, to clients of 2026-07-28 that declare it; off
   * unless it is named. A server that has tasks of its own keeps them: `"auto"` then stays off and says so.
   */
  tasks?: "off" | "auto" | TasksOptions;
  /** Serves `tasks/stream` too (SEP-2694, a draft). */
  tasksStream?: boolean;
  /** Who asks, from what the server's authentication found; `undefined`: the session stands in. */
  principal?: PrincipalOf;
  /**
   * Registers the server's sessions, so that `notify` reaches them, and holds what it says about its requests to the protocol:
   * progress rises and ends with its request, log messages come at the level that was asked for. `false` leaves that be.
   */
  fanout?: boolean;
  /** Progress of a request comes at most once in so many milliseconds, but for the report that reaches its total. Default: 0. */
  progressIntervalMs?: number;
  /** How many calls of one principal may go on without their request, in this process: tasks, and those whose client has gone. */
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
 * `routes`: tool calls that bring a `notificationConfig` (SEP-992), or the same under the extension's name in their `_meta`, are
 * watched. A config is accepted whole or refused whole (-32602, `data.faults`) before the tool runs, acknowledged before it runs and
 * again in the result's `_meta`. The call ends in exactly one outcome, and goes on when its client's connection is lost.
 *
 * `tasks`: a call that takes longer than two seconds is answered with a task, whose record is on disk by then, and which the
 * client asks for by its id, also after a restart. `tasksStream` adds the task's progress, log and what the tool emits by
 * `currentCall`, from any number on, then live.
 */
export function attach(server: AnyServer, hub: Hub, options: AttachOptions = {}): void {
  const sdk = lowLevel(server);
  if (attached.has(sdk)) throw new Error("tidings is attached to this server already");
  const handlers = new Handlers(sdk);
  const { routes = [], open = [], policy, fanout = true, principal = authenticated, tasksStream = false } = options;
  if (policy !== undefined && typeof policy !== "function") throw new TypeError("policy: must be a function");
  const terms = Tasks.checked(options.tasks);
  if (tasksStream && terms === undefined) {
    throw new InvalidArgumentError('tasksStream: needs tasks, whose events it streams; say tasks: "auto"');
  }
  const defaults = checkDefaults(hub, options.defaultRoutes, routes);
  attached.set(sdk, hub);
  const doorbell = routes.includes("signal") ? Doorbell.ofStdio(options.signalAsRoot ?? false) : undefined;
  const routing = new Routing(routes, open, policy, defaults);
  const methods = terms && new TaskMethods(sdk, hub, terms, principal, tasksStream);
  const tasks = methods?.install(handlers, options.tasks === "auto") ? terms : undefined;
  const places = new WeakMap<Transport, SessionPlace>();
  /** The connection as a place for deliveries, where it outlives a request. */
  const placeOf = (transport: Transport | undefined, modern: boolean): SessionPlace | undefined => {
    if (transport === undefined || modern || (overHttp(transport) && transport.sessionId === undefined)) return undefined;
    let place = places.get(transport);
    if (place === undefined) places.set(transport, (place = new SessionPlace(hub, handlers, transport, doorbell)));
    return place;
  };
  if (routing.offers) {
    advertise(sdk, handlers, routing, placeOf);
    serveCallMethods(sdk, handlers, hub, principal);
  }
  const watches = routing.offers || tasks !== undefined || options.defaultRoutes !== undefined;
  if (watches) watchCalls(sdk, handlers, hub, options, routing, tasks, placeOf);
  // Next to last, so that what looks for a config finds it.
  handlers.around("tools/call", (message, context, next) => next(...configMoved(message, context, routing.offers)));
  keepSessions(sdk, handlers, hub, principal);
  if (fanout) {
    followPeers(sdk, handlers, hub, principal);
    // Last, so that it stands outside of what records a call's events.
    gateNotifications(handlers, options.progressIntervalMs ?? 0);
    handlers.gate(publishing(sdk, hub));
  }
}

/** Puts each session on record that our event store keeps, so that other processes may serve its streams. */
function keepSessions(sdk: SdkServer, handlers: Handlers, hub: Hub, principal: PrincipalOf): void {
  handlers.around("initialize", async (request, context, next) => {
    const result = await next(request, context);
    const { transport } = sdk;
    if (transport?.sessionId === undefined) return result;
    holdSession(transport.sessionId, transport);
    if (storeOf(transport) instanceof SessionEventStore) {
      const { authInfo } = requestOf(context);
      // Its client, which knows of it after this, may come back at another process.
      await recordSession(hub, transport.sessionId, transport, authInfo && principal(authInfo));
    }
    return result;
  });
}

type PlaceOf = (transport: Transport | undefined, modern: boolean) => SessionPlace | undefined;

/** Says in each session's capabilities which route types it may use. */
function advertise(sdk: SdkServer, handlers: Handlers, routing: Routing, placeOf: PlaceOf): void {
  const capability = { supportedRouteTypes: [...routing.types] };
  sdk.registerCapabilities({ extensions: { [wire.EXTENSION]: capability }, [wire.CONFIG]: capability });
  for (const method of ["initialize", "server/discover"]) {
    handlers.around(method, async (request, context, next) => {
      const result = (await next(request, context)) as { capabilities?: { extensions?: object } };
      const types = routing.typesOf(placeOf(sdk.transport, method !== "initialize"));
      const own = { supportedRouteTypes: types };
      const extensions = { ...result.capabilities?.extensions, [wire.EXTENSION]: own };
      return { ...result, capabilities: { ...result.capabilities, extensions, [wire.CONFIG]: own } };
    });
  }
}

function watchCalls(
  sdk: SdkServer,
  handlers: Handlers,
  hub: Hub,
  options: AttachOptions,
  routing: Routing,
  tasks: Tasks | undefined,
  placeOf: PlaceOf,
): void {
  const { timeoutMs, detachedCalls = 64, detachedMs = 3_600_000, principal = authenticated } = options;
  const limitOf = (tool: string): number | undefined =>
    typeof timeoutMs === "number" ? timeoutMs : Object.hasOwn(timeoutMs ?? {}, tool) ? timeoutMs?.[tool] : undefined;

  handlers.around("tools/call", async (message, context, next) => {
    const { params } = message;
    const tool = params?.["name"];
    // What is no tools/call, the SDK refuses in its own words; nothing is accepted then.
    if (typeof tool !== "string") return next(message, context);
    const { modern, declared } = requestOf(context);
    const mode = modern && tasks !== undefined ? tasks.mode(tool) : "never";
    const declares = mode !== "never" && wire.declaresTasks(declared);
    if (mode === "required" && !declares) throw wire.undeclared();
    const configured = routing.offers && params?.[wire.CONFIG] !== undefined;
    const { transport } = sdk;
    const place = placeOf(transport, modern);
    const own = configured ? undefined : routing.ownConfig(tool, place);
    if (!configured && own === undefined && !declares) return next(message, context);
    const terms: Terms = {
      hub,
      routing,
      timeoutMs: limitOf(tool),
      principal,
      detachedCalls,
      detachedMs,
      // Now: when the connection closes, the server forgets it.
      transport,
      transportNow: () => sdk.transport,
      place,
    };
    const asked = toolRequest(terms, next, message, context, configured, own);
    if (tasks === undefined || !declares) return watchedCall(terms, asked);
    return taskCall(terms, asked, tasks, asker(principal, asked.request, transport)[1]);
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
