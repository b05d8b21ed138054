/** One `tools/call` that may become a task (SEP-2663): it runs inline for a while, then the client gets its id. */
import { setTimeout as sleep } from "node:timers/promises";

import type { Call } from "../call";
import type { Params } from "./intercept";
import { InlineCall } from "./inline-call";
import type { TaskMode, Tasks } from "./tasks";
import { accept, acknowledgementOf, type Terms, type ToolRequest, Watched } from "./watched-call";
import * as wire from "./wire";

/** Answers the request of a client that declared the extension, with the result or a task; or throws the error. */
export async function taskCall(terms: Terms, asked: ToolRequest, tasks: Tasks, bound: boolean): Promise<unknown> {
  const mode = tasks.mode(asked.tool);
  if (asked.config !== undefined || asked.own !== undefined) {
    const call = await accept(terms, asked);
    return new TaskCall(terms, call, asked, acknowledgementOf(call, asked), tasks, mode, bound, call).run();
  }
  return new TaskCall(terms, new InlineCall(), asked, undefined, tasks, mode, bound, undefined).run();
}

/**
 * A tool call of a request that declared the extension, with or without a `notificationConfig`.
 *
 * The record of a task is on disk before the client hears of it. Whatever decides what the client is answered, the result or the
 * task, waits for a decision that is under way: a client that got the result has no task, one that got the task finds it.
 */
class TaskCall extends Watched {
  readonly #began = Date.now();
  /** A decision that is under way or made: whether it is a task. */
  #deciding: Promise<boolean> | undefined;
  #task = false;
  #done!: () => void;
  /** Resolves when the tool is done or stopped, so that nothing waits for it any longer. */
  readonly #tool = new Promise<void>((resolve) => (this.#done = resolve));

  constructor(
    terms: Terms,
    call: Call | InlineCall,
    asked: ToolRequest,
    acknowledgement: Params | undefined,
    readonly tasks: Tasks,
    readonly mode: TaskMode,
    readonly bound: boolean,
    readonly watched: Call | undefined,
  ) {
    super(terms, call, asked, acknowledgement);
  }

  protected override answers(): Promise<unknown>[] {
    const task = this.#answerWithTask();
    const [elsewhere, tool] = super.answers() as [Promise<never>, Promise<unknown>];
    const done = tool.finally(() => this.#done());
    // Once it is a task nobody awaits these: they end it, and what they come to is its outcome.
    done.catch(() => {});
    elsewhere.catch(() => this.#done());
    return [task, elsewhere, this.#timeIsOver(), done];
  }

  protected override answered(): void {
    if (!this.#task) super.answered();
  }

  /** The answer of a call that becomes a task; else waits for ever. */
  async #answerWithTask(): Promise<unknown> {
    const never = new Promise<never>(() => {});
    if (this.mode !== "always") {
      const waiting = new AbortController();
      const inline = sleep(this.tasks.inlineMs, undefined, { signal: waiting.signal }).catch(() => {});
      const full = this.call instanceof InlineCall ? [this.call.full] : [];
      await Promise.race([inline, this.#tool, ...full]);
      waiting.abort();
    }
    if (this.over || this.stop.signal.aborted || this.asked.request.signal.aborted) return never;
    this.#deciding = this.#becomeTask();
    if (!(await this.#deciding)) return never;
    const { id } = this.call;
    const task = id === undefined ? undefined : this.terms.hub.task(id, { principal: this.asked.principal });
    if (task === undefined) throw new wire.JsonRpcError(wire.INTERNAL_ERROR, "The task could not be looked up");
    const meta = this.acknowledgement === undefined ? {} : { [wire.ACKNOWLEDGED_META]: this.acknowledgement };
    return { resultType: "task", ...this.tasks.shown(task), _meta: meta };
  }

  /** On disk when this resolves to `true`. Never rejects: what cannot become a task goes on as the call it is. */
  async #becomeTask(): Promise<boolean> {
    const { hub, detachedCalls } = this.terms;
    // Before anything waits, so that two calls do not take the last place.
    const room = hub.room(this.asked.countedAs, { calls: detachedCalls });
    if (room === undefined) return false;
    try {
      this.#task = await this.#record();
    } catch (error) {
      if ((error as { retryable?: unknown }).retryable !== true) wire.warn("a call could not become a task", error);
    }
    if (!this.#task) {
      room.release();
      return false;
    }
    const expired = setTimeout(() => void this.#expire(), this.terms.detachedMs);
    expired.unref();
    void this.#tool.then(() => {
      clearTimeout(expired);
      room.release();
    });
    return true;
  }

  async #record(): Promise<boolean> {
    const { ttlMs } = this.tasks;
    if (this.watched !== undefined) return this.watched.becomeTask(ttlMs, { bound: this.bound });
    const { principal, request, tool } = this.asked;
    const { timeoutMs } = this.terms;
    const call = await this.terms.hub.beginCall({
      principal,
      session: request.sessionId,
      requestId: request.id,
      tool,
      timeoutMs: timeoutMs === undefined ? undefined : Math.max(timeoutMs - (Date.now() - this.#began), 1),
      taskTtlMs: ttlMs,
      taskBound: this.bound,
    });
    (this.call as InlineCall).become(call);
    return true;
  }

  async #expire(): Promise<void> {
    try {
      await this.call.cancel("detach_expired"); // and we hear of it as of any end
    } catch (error) {
      wire.warn("a task could not be ended", error);
    }
  }

  /** Of a call that is not in the store; the store ends the others. */
  async #timeIsOver(): Promise<never> {
    const never = new Promise<never>(() => {});
    const { timeoutMs } = this.terms;
    if (timeoutMs === undefined || this.watched !== undefined) return never;
    const waiting = new AbortController();
    void this.#tool.then(() => waiting.abort());
    try {
      await sleep(timeoutMs, undefined, { signal: waiting.signal });
    } catch {
      return never;
    }
    await this.#deciding;
    if (this.#task || this.over) return never;
    this.over = true;
    const error = wire.timedOut(timeoutMs);
    this.stop.abort(error);
    this.#done();
    throw error;
  }

  protected override async requestIsGone(): Promise<void> {
    await Promise.resolve();
    if (this.over || this.#task) return;
    if (this.watched !== undefined) return super.requestIsGone();
    // Nothing lets this call outlive its request (2026-07-28: to leave is to cancel).
    const reason = this.connectionClosed() ? "disconnected" : undefined;
    this.over = true;
    this.stop.abort(this.asked.request.signal.reason);
    await this.#deciding;
    await this.call.cancel(reason);
    this.#done();
  }

  protected override async returned(result: unknown): Promise<unknown> {
    await this.#deciding;
    // As if we were not there.
    if (this.call instanceof InlineCall && !this.call.begun) {
      this.over = true;
      return result;
    }
    return super.returned(result);
  }

  protected override async failed(error: unknown): Promise<never> {
    await this.#deciding;
    if (this.call instanceof InlineCall && !this.call.begun) {
      this.over = true;
      throw error;
    }
    return super.failed(error);
  }

  protected override async toolResult(): Promise<unknown> {
    // A task is on record before its tool runs, where it is always one.
    if (this.mode === "always") await this.#deciding;
    let result = await this.runTool(undefined);
    while (await this.#asks(result)) {
      const { inputRequests, requestState } = result as { inputRequests?: Params; requestState?: unknown };
      result = await this.runTool({ inputResponses: await this.#ask(inputRequests ?? {}), requestState });
    }
    return result;
  }

  /** Whether the task has to ask for something now. A call that is no task hands the question to its client as ever. */
  async #asks(result: unknown): Promise<boolean> {
    if ((result as { resultType?: unknown } | undefined)?.resultType !== "input_required") return false;
    await this.#deciding;
    if (!this.#task) this.over = true; // from here on it will not become one
    return this.#task;
  }

  async #ask(requests: Params): Promise<Params> {
    if (Object.keys(requests).length === 0) {
      await sleep(this.tasks.pollMs); // nothing but its own state: it wants to be called again
      return {};
    }
    const call = this.watched ?? (this.call as InlineCall).record;
    return JSON.parse(await call.ask(JSON.stringify(requests))) as Params;
  }
}
