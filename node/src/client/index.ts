/**
 * For MCP clients: ask to be told what becomes of a tool call, and read what the server says about it. Works with any client
 * library, as it only makes and reads JSON values:
 *
 * ```ts
 * const capabilities = client.capability();                 // into the client's own capabilities
 * const config = client.config([client.webhook("https://me.example/hook", { secret, triggers: ["completed", "failed"] })]);
 * // tools/call with { notificationConfig: config } in its params, or { _meta: { [client.EXTENSION]: config } }
 * const told = client.acknowledgement(result._meta);
 * ```
 *
 * @packageDocumentation
 */
import { InvalidArgumentError } from "../errors";
import { Hub } from "../hub";

/** The key in the parameters of `tools/call` (SEP-992). */
export const CONFIG = "notificationConfig";
/**
 * The same capability under the key for extensions; and the key of a config in the `_meta` of `tools/call`, where an SDK has no
 * room for it in the parameters.
 */
export const EXTENSION = "io.tidings/notification-config";
/** The notification that acknowledges a config before its tool runs. */
export const ACKNOWLEDGED = "notifications/config/acknowledged";
/** The notification of a route of type `message`; its params are a webhook's body. */
export const TRIGGERED = "notifications/io.tidings/triggered";
/** The notification on a resumed stream that cannot be complete. */
export const GAP = "notifications/io.tidings/gap";

const ROUTE_TYPES = ["webhook", "message", "callback", "signal"];

/** A trigger by its name, or one with conditions, of time or of a group. */
export type Trigger = string | Readonly<Record<string, unknown>>;

/** A route of a `notificationConfig`. */
export interface Route {
  readonly id: string;
  readonly type: string;
  readonly triggers: readonly Trigger[];
  readonly [member: string]: unknown;
}

/** A `notificationConfig`. */
export interface Config {
  readonly routes: readonly Route[];
  readonly timeoutMs?: number;
  readonly [member: string]: unknown;
}

/** What every route may say: its triggers, its id (the type's name without), and members of the draft or a vendor. */
export interface RouteOptions {
  readonly triggers: readonly Trigger[];
  readonly id?: string;
  readonly [member: string]: unknown;
}

export interface WebhookOptions extends RouteOptions {
  /** `whsec_…`: signs the webhooks of this route. */
  readonly secret?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** From the firing: nothing is sent after. */
  readonly deadlineMs?: number;
}

/** What a client adds to its own capabilities: it knows configs, under both names. */
export function capability(): { [CONFIG]: object; extensions: { [EXTENSION]: object } } {
  return { [CONFIG]: {}, extensions: { [EXTENSION]: {} } };
}

/** The route types that a server's capabilities (of `initialize` or `server/discover`) name; none where it has none. */
export function supported(capabilities: unknown): string[] {
  const told = member(member(capabilities, "extensions"), EXTENSION) ?? member(capabilities, CONFIG);
  return texts(told?.["supportedRouteTypes"]);
}

/** A route that posts to `endpoint`. */
export function webhook(endpoint: string, options: WebhookOptions): Route {
  return route("webhook", { endpoint }, options);
}

/** A route into this session, or to a place of that `endpoint` that the server opens to this client. */
export function message(options: RouteOptions & { readonly endpoint?: string }): Route {
  return route("message", {}, options);
}

/** A route to a handler in the server that it opens to this client. */
export function callback(endpoint: string, options: RouteOptions): Route {
  return route("callback", { endpoint }, options);
}

/**
 * A route that rings this process (stdio on Linux only) with `SIGUSR1`, `SIGUSR2` or `SIGRTMIN+n`. Name one that this process
 * has a handler for: else it would be its end, and the server does not send it.
 */
export function signal(name: string, options: RouteOptions): Route {
  return route("signal", { signal: name }, options);
}

function route(type: string, own: Record<string, unknown>, { id = type, triggers, ...more }: RouteOptions): Route {
  if (!Array.isArray(triggers)) throw new TypeError("triggers: must be an array");
  const members = Object.entries({ ...own, ...more }).filter(([, value]) => value !== undefined);
  return { id, type, triggers: [...triggers] as Trigger[], ...Object.fromEntries(members) };
}

export interface ConfigOptions {
  /** May only lower the server's. */
  readonly timeoutMs?: number;
  /** The route types of the server, if they are known (see `supported`). */
  readonly supported?: readonly string[];
  /** More members of the config. */
  readonly more?: Readonly<Record<string, unknown>>;
}

/**
 * A `notificationConfig` of these routes, in order of preference, checked by the rules of the server's own core. What only
 * the server knows (its address rules, what its policy opens) it alone can judge.
 *
 * @throws ConfigError, which lists the broken rules
 */
export function config(routes: readonly Route[], options: ConfigOptions = {}): Config {
  const { timeoutMs, supported, more } = options;
  if (timeoutMs !== undefined && !(timeoutMs > 0)) {
    throw new InvalidArgumentError("timeoutMs: must be a number of milliseconds above 0");
  }
  const time = timeoutMs === undefined ? {} : { timeoutMs: Math.max(Math.round(timeoutMs), 1) };
  const made: Config = { routes: [...routes], ...more, ...time };
  check(made, supported === undefined ? {} : { supported });
  return made;
}

let judge: Hub | undefined;

/**
 * Checks a config. Returns the names of triggers that nothing fires by itself.
 *
 * @throws ConfigError, which lists the broken rules
 */
export function check(config: Config, options: { readonly supported?: readonly string[] } = {}): string[] {
  const routes = Array.isArray(config.routes) ? (config.routes as readonly Route[]) : [];
  const given = (name: string): string[] => texts(routes.map((route) => (route as Partial<Route> | null)?.[name]));
  const routeTypes = options.supported ?? [...ROUTE_TYPES, ...given("type")];
  // Opens nothing: it judges the text. That a server may allow plain http and other ports is not for us to say.
  judge ??= new Hub("memory:", { allowHttp: true, allowNetworks: ["0.0.0.0/0", "::/0"] });
  return judge.checkConfig(JSON.stringify(config), { routeTypes: [...routeTypes], open: given("endpoint") });
}

/** A server's word that it has the config on disk. */
export interface Acknowledgement {
  /** The call, by which it is found again and cancelled (`io.tidings/calls/cancel`). */
  readonly callId: string;
  readonly requestId: string | number;
  /** The ids of the routes: all of them. */
  readonly acceptedRoutes: string[];
  /** Names that nothing there fires by itself. */
  readonly ignoredTriggers: string[];
}

/** Reads it from the params of `ACKNOWLEDGED`, or from a result's `_meta`; `undefined` where there is none. */
export function acknowledgement(value: unknown): Acknowledgement | undefined {
  const { callId, requestId, acceptedRoutes, ignoredTriggers } =
    member(value, "io.tidings/acknowledged") ?? object(value) ?? {};
  if (typeof callId !== "string") return undefined;
  const id = typeof requestId === "number" || typeof requestId === "string" ? requestId : "";
  return { callId, requestId: id, acceptedRoutes: texts(acceptedRoutes), ignoredTriggers: texts(ignoredTriggers) };
}

/** A firing that reached nobody. */
export interface Undelivered {
  readonly trigger: string | undefined;
  /** The ids of the routes that wanted it. */
  readonly routes: string[];
  /** `no_deliverable_route` or `store_unavailable`. */
  readonly reason: string;
}

/** What a result's `_meta` says could not be delivered, where the server's policy is to say it. */
export function undelivered(meta: unknown): Undelivered[] {
  const entries = object(meta)?.["io.tidings/undelivered"];
  return (Array.isArray(entries) ? entries : []).flatMap((entry: unknown) => {
    const found = object(entry);
    if (found === undefined) return [];
    const { trigger, routes, reason } = found;
    return [{ trigger: text(trigger), routes: texts(routes), reason: text(reason) ?? "" }];
  });
}

/** Why a resumed stream is not complete. */
export interface StreamGap {
  /** `evicted`, `regressed`, `lost` or `unknown`. */
  readonly reason: string;
  readonly earliestSeq: number | undefined;
  readonly headSeq: number | undefined;
}

/** Reads the params of `GAP`; `undefined` for what is none. */
export function gap(params: unknown): StreamGap | undefined {
  const { reason, earliestSeq, headSeq } = object(params) ?? {};
  if (typeof reason !== "string") return undefined;
  const seq = (value: unknown): number | undefined => (Number.isSafeInteger(value) ? (value as number) : undefined);
  return { reason, earliestSeq: seq(earliestSeq), headSeq: seq(headSeq) };
}

type Members = Readonly<Record<string, unknown>>;

function object(value: unknown): Members | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Members) : undefined;
}

function member(value: unknown, name: string): Members | undefined {
  return object(object(value)?.[name]);
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : [];
}
