/** One watched `tools/call`: accept the config, acknowledge it, run the tool, record the one outcome. */
import type { Call, Ended } from "../call";
import { ConfigError } from "../errors";
import type { Hub } from "../hub";
import { type Context, type Notification, type Request, requestOf } from "./context";
import type { Handler, Params } from "./intercept";
import { type PrincipalOf, principalOf } from "./principal";
import type { Transport } from "./transports";
import * as wire from "./wire";

/** What one `attach` has for its calls. */
export interface Terms {
  readonly hub: Hub;
  readonly routes: readonly string[];
  readonly open: readonly string[];
  readonly timeoutMs: number | undefined;
  readonly principal: PrincipalOf;
  readonly detachedCalls: number;
  readonly detachedMs: number;
  /** The connection that the request came by. */
  readonly transport: Transport | undefined;
  /** The connection that the server has now. */
  readonly transportNow: () => Transport | undefined;
}

/** Answers the request, or throws the error to answer with. */
export async function watchedCall(
  terms: Terms,
  handler: Handler,
  message: { params?: Params },
  context: Context,
): Promise<unknown> {
  const { [wire.CONFIG]: config, ...params } = message.params as Params & { name: string };
  const request = requestOf(context);
  const [principal, countedAs] = principalOf(terms.principal, request, terms.transport);
  let call: Call;
  try {
    call = await terms.hub.beginCall({
      config: JSON.stringify(config),
      routeTypes: [...terms.routes],
      open: [...terms.open],
      principal,
      session: request.sessionId,
      requestId: request.id,
      tool: params.name,
      timeoutMs: terms.timeoutMs,
    });
  } catch (error) {
    if (error instanceof ConfigError) {
      const message = "notificationConfig was rejected and nothing ran; data.faults says why";
      throw new wire.JsonRpcError(wire.INVALID_PARAMS, message, error.data);
    }
    warn("a notificationConfig could not be accepted", error);
    throw wire.configNotStored();
  }
  return new Watched(terms, call, request, countedAs).run((signal, notify) =>
    handler({ ...message, params }, request.with(signal, notify)),
  );
}

class Watched {
  /** Stops the tool. */
  readonly #stop = new AbortController();
  readonly #acknowledgement: unknown;
  /** The tool is done, or was told to stop: what comes of the request is no news any more. */
  #over = false;

  constructor(
    readonly terms: Terms,
    readonly call: Call,
    readonly request: Request,
    readonly countedAs: string,
  ) {
    this.#acknowledgement = JSON.parse(call.acknowledgement());
  }

  async run(
    tool: (signal: AbortSignal, notify: (notification: Notification) => Promise<void>) => Promise<unknown>,
  ): Promise<unknown> {
    const { signal } = this.request;
    const gone = (): void => void this.#requestIsGone().catch((error: unknown) => warn("a lost request", error));
    signal.addEventListener("abort", gone, { once: true });
    if (signal.aborted) gone();
    try {
      return await Promise.race([this.#endedElsewhere(), this.#toolIsDone(tool)]);
    } finally {
      this.#over = true;
      signal.removeEventListener("abort", gone);
    }
  }

  async #toolIsDone(
    tool: (signal: AbortSignal, notify: (notification: Notification) => Promise<void>) => Promise<unknown>,
  ): Promise<unknown> {
    await this.#notify({ method: wire.ACKNOWLEDGED_METHOD, params: this.#acknowledgement as Params });
    let result: unknown;
    try {
      result = await tool(this.#stop.signal, (notification) => this.#notify(notification));
    } catch (error) {
      return this.#failed(error);
    }
    return this.#returned(result);
  }

  /** What a call says whose client is gone is not lost: it is in its outcome. Never rejects. */
  async #notify(notification: Notification): Promise<void> {
    this.#record(notification);
    if (this.request.signal.aborted) return;
    try {
      await this.request.notify(notification);
    } catch {
      // The connection went.
    }
  }

  /** Progress and log are events of the call, so that who comes later reads them. */
  #record({ method, params }: Notification): void {
    const type = { "notifications/progress": "io.tidings.progress", "notifications/message": "io.tidings.log" }[method];
    if (type === undefined) return;
    try {
      this.call.emit(type, JSON.stringify(params ?? {}));
    } catch {
      // The call has ended.
    }
  }

  async #returned(result: unknown): Promise<unknown> {
    const given = (result ?? {}) as { _meta?: Params; resultType?: unknown };
    const meta: Params = { ...given._meta, [wire.ACKNOWLEDGED_META]: this.#acknowledgement };
    const answer = { ...given, _meta: meta };
    if (typeof given.resultType === "string" && given.resultType !== "complete") {
      // An interim answer ("input_required"): the request is over and its tool has not completed.
      await this.#end(() => this.call.cancel());
      return answer;
    }
    let payload: string;
    try {
      payload = JSON.stringify(answer);
    } catch {
      const error = new wire.JsonRpcError(wire.INTERNAL_ERROR, "The tool's result could not be serialised", {
        reason: "unserialisable",
      });
      await this.#end(() => this.call.fail({ error: JSON.stringify(error), reason: "unserialisable" }));
      throw error;
    }
    const ended = await this.#end(() => this.call.complete(payload));
    if (ended === undefined) meta[wire.UNDELIVERED_META] = [{ reason: "store_unavailable" }];
    else if (ended.undelivered !== undefined) meta[wire.UNDELIVERED_META] = JSON.parse(ended.undelivered);
    return answer;
  }

  async #failed(error: unknown): Promise<never> {
    let text: string;
    try {
      text = JSON.stringify(wire.errorOf(error));
    } catch {
      text = JSON.stringify({ code: wire.INTERNAL_ERROR, message: "Internal error" });
    }
    await this.#end(() => this.call.fail({ error: text }));
    throw error;
  }

  /** Records the outcome; throws where another was there first. `undefined`: the store did not take it. */
  async #end(outcome: () => Promise<Ended>): Promise<Ended | undefined> {
    this.#over = true;
    let ended: Ended;
    try {
      ended = await outcome();
    } catch (error) {
      warn("an outcome could not be recorded", error);
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
    if (this.#over) return never; // of our own making
    const error = wire.endedElsewhere(ended, this.call.id);
    this.#over = true;
    this.#stop.abort(error);
    throw error;
  }

  /** The SDK has aborted the request's signal. What it says depends on who did. */
  async #requestIsGone(): Promise<void> {
    // A closing connection forgets its transport within this turn.
    await Promise.resolve();
    if (this.#over) return; // also after the answer, on the modern era
    if (this.#connectionClosed()) {
      const { detachedCalls: calls, detachedMs: timeMs } = this.terms;
      // Without room the hub ends the call, and we hear of that as of any end.
      this.call.detach({ countedAs: this.countedAs, calls, timeMs });
      return;
    }
    this.#over = true;
    this.#stop.abort(this.request.signal.reason);
    const ended = await this.call.cancel();
    // The SDKs answer a cancelled request with nothing and leave its stream open for ever.
    const error = wire.endedElsewhere(ended, this.call.id).toJSON();
    const { id } = this.request;
    await this.terms.transport?.send({ jsonrpc: "2.0", id, error }, { relatedRequestId: id }).catch(() => {});
  }

  /** 2.x says so; in 1.x the server has lost its transport by then. Else the client asked for it. */
  #connectionClosed(): boolean {
    const { reason } = this.request.signal;
    if (!(reason instanceof Error)) return false;
    if ((reason as Error & { code?: unknown }).code === "CONNECTION_CLOSED") return true;
    return reason.name === "AbortError" && this.terms.transportNow() !== this.terms.transport;
  }
}

function warn(what: string, error: unknown): void {
  process.emitWarning(`tidings: ${what}: ${String(error)}`, { code: "TIDINGS_CALL" });
}
