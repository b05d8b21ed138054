/** One watched `tools/call`: accept the config, acknowledge it, run the tool, record the one outcome. */
import type { Call, Ended } from "../call";
import { ClosedError, ConfigError } from "../errors";
import type { Hub } from "../hub";
import { type Context, type Notification, RECORDED_TOKEN, type Request, requestOf, type Round } from "./context";
import { asCurrent } from "./current";
import type { Handler, Message, Params } from "./intercept";
import type { SessionPlace } from "./place";
import { type PrincipalOf, principalOf } from "./principal";
import type { OwnConfig, Routing } from "./routing";
import type { Transport } from "./transports";
import * as wire from "./wire";

/** What one `attach` has for its calls. */
export interface Terms {
  readonly hub: Hub;
  readonly routing: Routing;
  readonly timeoutMs: number | undefined;
  readonly principal: PrincipalOf;
  readonly detachedCalls: number;
  readonly detachedMs: number;
  /** The connection that the request came by. */
  readonly transport: Transport | undefined;
  /** The connection that the server has now. */
  readonly transportNow: () => Transport | undefined;
  /** The connection as a place for deliveries, where it outlives the request. */
  readonly place: SessionPlace | undefined;
}

/** What the adapter does with a call, whether the store knows it yet or not. */
export type CallLike = Pick<Call, "emit" | "fire" | "complete" | "fail" | "cancel" | "detach"> & {
  readonly id: string | undefined;
  ended(options: { background: boolean }): Promise<Ended>;
};

/** A request for a tool, taken apart. */
export interface ToolRequest {
  readonly handler: Handler;
  /** Without the config, unless that means nothing to this server. */
  readonly message: Message;
  readonly tool: string;
  readonly request: Request;
  readonly principal: string;
  readonly countedAs: string;
  /** The client's config. */
  readonly config: unknown;
  /** The server's, where the client brought none. */
  readonly own: OwnConfig | undefined;
}

/** `configured`: it brings a config; else `own` is the server's for it, if there is one. */
export function toolRequest(
  terms: Terms,
  handler: Handler,
  message: Message,
  context: Context,
  configured: boolean,
  own: OwnConfig | undefined,
): ToolRequest {
  const { [wire.CONFIG]: config, ...params } = message.params as Params & { name: string };
  const request = requestOf(context);
  const [principal, countedAs] = principalOf(terms.principal, request, terms.transport);
  const asked = { handler, message: { ...message, params }, tool: params.name, request, principal, countedAs };
  return { ...asked, config: configured ? config : undefined, own };
}

/** Answers the request, or throws the error to answer with. */
export async function watchedCall(terms: Terms, asked: ToolRequest): Promise<unknown> {
  const call = await accept(terms, asked);
  return new Watched(terms, call, asked, acknowledgementOf(call, asked)).run();
}

/** The acknowledgement for a client that asked for something. Of the server's own routes nobody is told. */
export function acknowledgementOf(call: Call, { own }: ToolRequest): Params | undefined {
  return own === undefined ? (JSON.parse(call.acknowledgement()) as Params) : undefined;
}

/** Accepts the config; it is on disk then. Throws the error to answer with. */
export async function accept(terms: Terms, asked: ToolRequest): Promise<Call> {
  const { config, own, principal, tool, request, message } = asked;
  const { routing, place } = terms;
  const session = request.sessionId;
  try {
    const judged = { principal, tool, config: config as Params, session };
    const accepted = own === undefined ? await routing.judge(judged, place) : routing.accept(own, place);
    return await terms.hub.beginCall({
      ...accepted,
      principal,
      session,
      peer: place?.name,
      requestId: request.id,
      tool,
      timeoutMs: terms.timeoutMs,
      traceparent: traceparent(message.params),
    });
  } catch (error) {
    if (error instanceof wire.JsonRpcError) throw error;
    if (error instanceof ConfigError) throw wire.configRejected(error.data);
    wire.warn("a notificationConfig could not be accepted", error);
    throw wire.configNotStored();
  }
}

/** The W3C trace context of a request; the core ignores what is none. */
function traceparent(params: Params | undefined): string | undefined {
  const found = (params?.["_meta"] as Params | undefined)?.["traceparent"];
  return typeof found === "string" ? found : undefined;
}

/** The events of a call that are notifications to its client. */
const RECORDED: Readonly<Record<string, string>> = {
  "notifications/progress": "io.tidings.progress",
  "notifications/message": "io.tidings.log",
};

export class Watched {
  /** Stops the tool. */
  protected readonly stop = new AbortController();
  /** The tool is done, or was told to stop: what comes of the request is no news any more. */
  protected over = false;

  /** `acknowledgement`: for a client that asked for something. */
  constructor(
    readonly terms: Terms,
    readonly call: CallLike,
    readonly asked: ToolRequest,
    readonly acknowledgement: Params | undefined,
  ) {}

  async run(): Promise<unknown> {
    const { signal } = this.asked.request;
    const gone = (): void => void this.requestIsGone().catch((error: unknown) => wire.warn("a lost request", error));
    signal.addEventListener("abort", gone, { once: true });
    if (signal.aborted) gone();
    try {
      return await Promise.race(this.answers());
    } finally {
      this.answered();
      signal.removeEventListener("abort", gone);
    }
  }

  /** The first of these answers the request. */
  protected answers(): Promise<unknown>[] {
    return [this.#endedElsewhere(), this.#toolIsDone()];
  }

  /** The request has its answer. */
  protected answered(): void {
    this.over = true;
  }

  async #toolIsDone(): Promise<unknown> {
    if (this.acknowledgement !== undefined) {
      await this.notify({ method: wire.ACKNOWLEDGED_METHOD, params: this.acknowledgement });
    }
    const running = { id: () => this.call.id, emit: this.#quietly("emit"), fire: this.#quietly("fire") };
    let result: unknown;
    try {
      result = await asCurrent(running, () => this.toolResult());
    } catch (error) {
      return this.failed(error);
    }
    return this.returned(result);
  }

  #quietly(how: "emit" | "fire"): (type: string, payload: string) => void {
    return (type, payload) => {
      try {
        this.call[how](type, payload);
      } catch (error) {
        const { code } = error as { code?: unknown };
        // A tool that was stopped and still says something.
        if (code !== "closed" && code !== "ended") wire.warn("an event of a call could not be recorded", error);
      }
    };
  }

  protected toolResult(): Promise<unknown> {
    return this.runTool(undefined);
  }

  /** Calls the tool, which finds a context of the call's own. */
  protected runTool(round: Round | undefined): Promise<unknown> {
    const { handler, message, request } = this.asked;
    const instead = request.with({
      signal: this.stop.signal,
      notify: (notification) => this.notify(notification),
      record: (notification) => this.#record(notification),
      round,
    });
    return handler(message, instead);
  }

  /** What a call says whose client is gone is not lost: it is in its outcome. Never rejects. */
  protected async notify(notification: Notification): Promise<void> {
    this.#record(notification);
    const { request } = this.asked;
    if (request.signal.aborted || notification.params?.["progressToken"] === RECORDED_TOKEN) return;
    try {
      await request.notify(notification);
    } catch {
      // The connection went.
    }
  }

  /** Progress and log are events of the call, so that who comes later reads them. */
  #record({ method, params }: Notification): void {
    const type = RECORDED[method];
    if (type === undefined) return;
    const { progressToken: _, ...payload } = params ?? {};
    try {
      this.call.emit(type, JSON.stringify(payload));
    } catch {
      // The call has ended.
    }
  }

  protected async returned(result: unknown): Promise<unknown> {
    const given = (result ?? {}) as { _meta?: Params; resultType?: unknown };
    const meta: Params = { ...given._meta };
    if (this.acknowledgement !== undefined) meta[wire.ACKNOWLEDGED_META] = this.acknowledgement;
    const answer = { ...given, _meta: meta };
    if (typeof given.resultType === "string" && given.resultType !== "complete") {
      // An interim answer ("input_required"): the request is over and its tool has not completed.
      await this.end(() => this.call.cancel());
      return answer;
    }
    let payload: string;
    try {
      payload = JSON.stringify(answer);
    } catch {
      const error = new wire.JsonRpcError(wire.INTERNAL_ERROR, "The tool's result could not be serialised", {
        reason: "unserialisable",
      });
      await this.end(() => this.call.fail({ error: JSON.stringify(error), reason: "unserialisable" }));
      throw error;
    }
    const ended = await this.end(() => this.call.complete(payload));
    if (ended === undefined) meta[wire.UNDELIVERED_META] = [{ reason: "store_unavailable" }];
    else if (ended.undelivered !== undefined) meta[wire.UNDELIVERED_META] = JSON.parse(ended.undelivered);
    return answer;
  }

  protected async failed(error: unknown): Promise<never> {
    let text: string;
    try {
      text = JSON.stringify(wire.errorOf(error));
    } catch {
      text = JSON.stringify({ code: wire.INTERNAL_ERROR, message: "Internal error" });
    }
    await this.end(() => this.call.fail({ error: text }));
    throw error;
  }

  /** Records the outcome; throws where another was there first. `undefined`: the store did not take it. */
  protected async end(outcome: () => Promise<Ended>): Promise<Ended | undefined> {
    this.over = true;
    let ended: Ended;
    try {
      ended = await outcome();
    } catch (error) {
      // A hub that is closed has ended its calls itself.
      if (!(error instanceof ClosedError)) wire.warn("an outcome could not be recorded", error);
      return undefined;
    }
    if (!ended.ours && (ended.outcome === "timeout" || ended.outcome === "cancelled")) {
      throw wire.endedElsewhere(ended, this.call.id);
    }
    return ended;
  }

  /** Its time is over, or another process or its client ended it: the tool is stopped and the client told at once. */
  async #endedElsewhere(): Promise<never> {
    const never = new Promise<never>(() => {});
    let ended: Ended;
    try {
      ended = await this.call.ended({ background: true });
    } catch {
      return never; // with the hub
    }
    if (this.over) return never; // of our own making
    const error = wire.endedElsewhere(ended, this.call.id);
    this.over = true;
    this.stop.abort(error);
    throw error;
  }

  /** The SDK has aborted the request's signal. What it says depends on who did. */
  protected async requestIsGone(): Promise<void> {
    // A closing connection forgets its transport within this turn.
    await Promise.resolve();
    if (this.over) return; // also after the answer, on the modern era
    if (this.connectionClosed()) {
      const { detachedCalls: calls, detachedMs: timeMs } = this.terms;
      // Without room the hub ends the call, and we hear of that as of any end.
      this.call.detach({ countedAs: this.asked.countedAs, calls, timeMs });
      return;
    }
    this.over = true;
    this.stop.abort(this.asked.request.signal.reason);
    const ended = await this.call.cancel();
    // The SDKs answer a cancelled request with nothing and leave its stream open for ever.
    const error = wire.endedElsewhere(ended, this.call.id).toJSON();
    const { id } = this.asked.request;
    await this.terms.transport?.send({ jsonrpc: "2.0", id, error }, { relatedRequestId: id }).catch(() => {});
  }

  /** 2.x says so; in 1.x the server has lost its transport by then. Else the client asked for it. */
  protected connectionClosed(): boolean {
    const { reason } = this.asked.request.signal;
    if (!(reason instanceof Error)) return false;
    if ((reason as Error & { code?: unknown }).code === "CONNECTION_CLOSED") return true;
    return reason.name === "AbortError" && this.terms.transportNow() !== this.terms.transport;
  }
}
