/** What becomes of the configs of one server: which route types a session may use, the policy, the server's own routes. */
import { ConfigError, InvalidArgumentError } from "../errors";
import type { Hub } from "../hub";
import type { Params } from "./intercept";
import { type SessionPlace, TO_SESSION, type ToSession } from "./place";
import * as wire from "./wire";

/** A `notificationConfig` that is to be judged before its tool runs. */
export interface PolicyRequest {
  /** Who asks; a stand-in where nobody is authenticated. */
  readonly principal: string;
  /** The tool that is called. */
  readonly tool: string;
  /** The config as the client sent it; a copy. Not checked yet. */
  readonly config: Params;
  /** The MCP session, where there is one. */
  readonly session: string | undefined;
}

/** The config is good, as far as the rules hold as well. */
export interface Allow {
  /** The names that its routes of type `message` and `callback` may have as `endpoint`. */
  readonly open?: readonly string[];
}
/** Nothing runs, and the client gets -32602 with a fault of rule `denied`. */
export interface Deny {
  /** What the client is told. */
  readonly deny: string;
}
/** Another config takes the place of the client's. The rules hold for it all the same. */
export interface Rewrite {
  readonly rewrite: object;
  readonly open?: readonly string[];
}

/** `true` is `{}`, `false` a `Deny`. */
export type Decision = boolean | Allow | Deny | Rewrite;
export type Policy = (request: PolicyRequest) => Decision | Promise<Decision>;

/** A route of the server's own, as a client would write it in its config. */
export interface OwnRoute {
  readonly type: string;
  readonly [member: string]: unknown;
}
/** For all tools, or by name. */
export type DefaultRoutes = readonly OwnRoute[] | Readonly<Record<string, readonly OwnRoute[]>>;

/** A config that the policy lets through, for the core to judge. */
export interface Accepted {
  readonly config: string;
  readonly routeTypes: string[];
  readonly open: string[];
}

const MESSAGE = "message";
const CALLBACK = "callback";
const WEBHOOK = "webhook";
const DENIED = "this server does not let you be told there";

/** How long a policy may take. */
const POLICY_MS = 10_000;

/** The routes of one server. */
export class Routing {
  constructor(
    readonly types: readonly string[],
    readonly open: readonly string[],
    readonly policy: Policy | undefined,
    readonly defaults: DefaultRoutes,
  ) {}

  /** Whether clients may bring configs. */
  get offers(): boolean {
    return this.types.length > 0;
  }

  /** The route types that a session may use; `place` is its connection, if that outlives the request. */
  typesOf(place: SessionPlace | undefined): string[] {
    const byName = this.policy !== undefined || this.open.length > 0;
    return this.types.filter((type) => {
      if (goesToSession(type)) return (type === MESSAGE && byName) || (place?.takes(type) ?? false);
      return type !== CALLBACK || byName;
    });
  }

  /** The server's own config for a call without one, as far as its routes lead anywhere from this session. */
  ownConfig(tool: string, place: SessionPlace | undefined): OwnConfig | undefined {
    const { defaults } = this;
    const named = defaults as Readonly<Record<string, readonly OwnRoute[]>>;
    const all = Array.isArray(defaults) ? (defaults as readonly OwnRoute[]) : Object.hasOwn(named, tool) ? named[tool] : [];
    const routes = (all ?? []).filter(({ type, endpoint }) => {
      return !goesToSession(type) || endpoint !== undefined || (place?.takes(type) ?? false);
    });
    return routes.length === 0 ? undefined : { routes };
  }

  /** The server's own config, which nobody has to allow. */
  accept(config: OwnConfig, place: SessionPlace | undefined): Accepted {
    offer(place, config);
    const routeTypes = [...new Set(config.routes.map(({ type }) => type))];
    return { config: JSON.stringify(config), routeTypes, open: namesIn(config.routes) };
  }

  /** The client's config after the policy. Throws the error to answer with. */
  async judge(asked: PolicyRequest, place: SessionPlace | undefined): Promise<Accepted> {
    const { config } = asked;
    const names = [...this.open];
    let judged: unknown = config;
    if (this.policy !== undefined && isObject(config)) {
      const said = await this.#ask(this.policy, asked);
      if ("deny" in said) throw wire.configRejected({ faults: [{ path: "", rule: "denied", message: said.deny }], total: 1 });
      if ("rewrite" in said) judged = said.rewrite;
      names.push(...(said.open ?? []));
    }
    offer(place, judged);
    return { config: JSON.stringify(judged), routeTypes: this.typesOf(place), open: names };
  }

  async #ask(policy: Policy, asked: PolicyRequest): Promise<Allow | Deny | Rewrite> {
    let late: NodeJS.Timeout | undefined;
    try {
      const copy = { ...asked, config: JSON.parse(JSON.stringify(asked.config)) as Params };
      const timeout = new Promise<never>((_, reject) => {
        late = setTimeout(() => reject(new Error(`it took longer than ${POLICY_MS} ms`)), POLICY_MS);
      });
      const said = await Promise.race([policy(copy), timeout]);
      if (said === true) return {};
      if (said === false) return { deny: DENIED };
      if (!isObject(said) || ("rewrite" in said && !isObject(said["rewrite"]))) {
        throw new TypeError("a policy answers true, false, { open }, { deny } or { rewrite }");
      }
      return said as Allow | Deny | Rewrite;
    } catch (error) {
      wire.warn("the policy failed, and a notificationConfig was refused", error);
      throw wire.policyFailed();
    } finally {
      clearTimeout(late);
    }
  }
}

/** A config of the server's own. */
export interface OwnConfig {
  readonly routes: readonly OwnRoute[];
}

/** Throws InvalidArgumentError for routes of the server's own that could not be used; the core judges them. */
export function checkDefaults(hub: Hub, defaults: unknown, types: readonly string[]): DefaultRoutes {
  if (defaults === undefined) return [];
  const byTool: [string, unknown][] = isObject(defaults) ? Object.entries(defaults) : [["", defaults]];
  for (const [tool, routes] of byTool) {
    const field = tool === "" ? "defaultRoutes" : `defaultRoutes[${JSON.stringify(tool)}]`;
    if (!Array.isArray(routes)) throw new InvalidArgumentError(`${field}: must be a list of routes`);
    if (routes.length === 0) continue;
    try {
      const routeTypes = [...types, ...TO_SESSION, WEBHOOK, CALLBACK];
      hub.checkConfig(JSON.stringify({ routes }), { routeTypes, open: namesIn(routes as OwnRoute[]) });
    } catch (error) {
      if (error instanceof ConfigError) throw new InvalidArgumentError(`${field}: ${error.message}`);
      throw error;
    }
  }
  return defaults as DefaultRoutes;
}

function isObject(value: unknown): value is Params {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function goesToSession(type: unknown): type is ToSession {
  return (TO_SESSION as readonly unknown[]).includes(type);
}

/** The names of handlers and sinks that routes lead to. */
function namesIn(routes: readonly unknown[]): string[] {
  const named = routes.filter((route) => isObject(route) && route["type"] !== WEBHOOK) as Params[];
  return named.map(({ endpoint }) => endpoint).filter((name) => typeof name === "string");
}

/** Has the calling session take what a config's routes lead to it. */
function offer(place: SessionPlace | undefined, config: unknown): void {
  const routes = isObject(config) ? config["routes"] : undefined;
  if (place === undefined || !Array.isArray(routes)) return;
  for (const route of routes as unknown[]) {
    if (isObject(route) && goesToSession(route["type"]) && !("endpoint" in route)) place.offer(route["type"]);
  }
}
