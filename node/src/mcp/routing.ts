/** What becomes of the configs of one server: which route types a session may use, and the operator's policy. */
import type { Params } from "./intercept";
import type { SessionPlace } from "./place";
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

/** A config that the policy lets through, for the core to judge. */
export interface Accepted {
  readonly config: string;
  readonly routeTypes: string[];
  readonly open: string[];
}

const MESSAGE = "message";
const CALLBACK = "callback";
const DENIED = "this server does not let you be told there";

/** How long a policy may take. */
const POLICY_MS = 10_000;

/** The routes of one server. */
export class Routing {
  constructor(
    readonly types: readonly string[],
    readonly open: readonly string[],
    readonly policy: Policy | undefined,
  ) {}

  /** Whether clients may bring configs. */
  get offers(): boolean {
    return this.types.length > 0;
  }

  /** The route types that a session may use; `place` is its connection, if that outlives the request. */
  typesOf(place: SessionPlace | undefined): string[] {
    const byName = this.policy !== undefined || this.open.length > 0;
    return this.types.filter((type) => {
      if (type === MESSAGE) return byName || (place?.reachable() ?? false);
      return type !== CALLBACK || byName;
    });
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
    if (place !== undefined && leadsToSession(judged)) place.offer();
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

function isObject(value: unknown): value is Params {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether a config has a route into the calling session. */
function leadsToSession(config: unknown): boolean {
  const routes = isObject(config) ? config["routes"] : undefined;
  return (
    Array.isArray(routes) &&
    routes.some((route) => isObject(route) && route["type"] === MESSAGE && !("endpoint" in route))
  );
}
