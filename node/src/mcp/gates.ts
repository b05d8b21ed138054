/**
 * What a server says about a running request, held to the rules: progress strictly rises and ends with the request, log messages
 * come at the level that was asked for.
 *
 * The SDKs send whatever a tool says. Here the tool is told where it is wrong (a number that is none), and what the protocol does
 * not allow is left out. What a call that is watched says is recorded all the same.
 */
import { InvalidArgumentError, toTidings } from "../errors";
import { native, type NativeProgress } from "../native";
import { idText } from "../request-id";
import { type Request, requestOf } from "./context";
import type { Gate, Handlers, Outgoing, Params } from "./intercept";

const PROGRESS = "notifications/progress";
const MESSAGE = "notifications/message";

/** So many requests that were answered with a task of 2025-11-25 may still report their progress. */
const MAX_TASKS = 1_024;

/** The requests whose handlers report progress and write logs. */
const REPORTING = ["tools/call", "prompts/get", "resources/read", "completion/complete"];

/** One request that runs. */
interface Running {
  readonly token: string | number | undefined;
  readonly progress: NativeProgress;
  /** What the request itself asked for; from 2026-07-28 on there is no other level. */
  readonly level: string | undefined;
  /** It is answered, with a task. */
  answered: boolean;
}

/** Holds the notifications of one server to the rules. `intervalMs`: progress comes no oftener, but for the report of its end. */
export function gateNotifications(handlers: Handlers, intervalMs: number): void {
  if (!Number.isSafeInteger(intervalMs) || intervalMs < 0) {
    throw new InvalidArgumentError("progressIntervalMs: must be a whole number, 0 or more");
  }
  const gates = new Gates(intervalMs);
  for (const method of REPORTING) {
    handlers.around(method, async (message, context, next) => {
      const request = requestOf(context);
      const running = gates.began(request, message.params?.["_meta"] as Params | undefined);
      try {
        const result = await next(message, request.gated(gates));
        // What 2025-11-25 calls a task goes on under its request's token.
        running.answered = !request.modern && typeof (result as { task?: unknown } | undefined)?.task === "object";
        return result;
      } finally {
        if (!running.answered) gates.ended(request.id, running);
      }
    });
  }
  handlers.around("logging/setLevel", async (message, context, next) => {
    const result = await next(message, context);
    // Else the SDK has refused it.
    gates.level = message.params?.["level"] as string;
    return result;
  });
  handlers.gate(gates);
}

class Gates implements Gate {
  readonly #running = new Map<string | number, Running>();
  /** What `logging/setLevel` asked for. */
  level: string | undefined;
  /** The connection's requests each ask for a level, or for no log. */
  #perRequest = false;

  constructor(readonly intervalMs: number) {}

  began(request: Request, meta: Params | undefined): Running {
    this.#perRequest = request.modern;
    const token = tokenOf(meta);
    const running = { token, progress: rules(token, this.intervalMs), level: request.logLevel, answered: false };
    if (this.#running.size >= MAX_TASKS) this.#forgetOldest();
    this.#running.set(request.id, running);
    return running;
  }

  ended(id: string | number, running: Running): void {
    running.progress.end();
    if (this.#running.get(id) === running) this.#running.delete(id);
  }

  #forgetOldest(): void {
    for (const [id, running] of this.#running) {
      if (!running.answered) continue;
      this.#running.delete(id);
      return;
    }
  }

  /** Throws for a report that is no number. */
  pass(outgoing: Outgoing): Outgoing | undefined {
    const { method } = outgoing.notification;
    if (method === PROGRESS) return this.#report(outgoing);
    return method !== MESSAGE || this.#passes(outgoing) ? outgoing : undefined;
  }

  #report({ notification, options }: Outgoing): Outgoing | undefined {
    const params = notification.params ?? {};
    const [id, running] = this.#owner(options?.relatedRequestId, params["progressToken"]) ?? [];
    // Nobody asked for it, or the request has its answer.
    if (running === undefined) return undefined;
    const { progress, total, message } = params;
    const text = typeof message === "string" ? message : undefined;
    const most = total === undefined || total === null ? undefined : Number(total);
    const { params: told, why } = running.progress.report(Number(progress), most, text, Math.floor(performance.now()));
    if (why === "not_finite") throw new InvalidArgumentError("progress: must be a finite number, and so must its total");
    if (told === undefined) return undefined;
    // On the request's own stream and under its own token, whether or not the tool named them.
    return {
      notification: { ...notification, params: { ...params, ...(JSON.parse(told) as Params) } },
      options: { ...options, relatedRequestId: id },
    };
  }

  /** The running request that a report is of: the one it is sent for, or else the one that brought its token. */
  #owner(related: string | number | undefined, token: unknown): [string | number, Running] | undefined {
    if (related !== undefined) {
      const running = this.#running.get(related);
      return running && [related, running];
    }
    for (const [id, running] of this.#running) if (running.token !== undefined && running.token === token) return [id, running];
    return undefined;
  }

  #passes({ notification, options }: Outgoing): boolean {
    const said = notification.params?.["level"];
    if (typeof said !== "string") return true;
    const related = options?.relatedRequestId;
    const asked = this.#perRequest && related !== undefined ? this.#running.get(related)?.level : this.level;
    if (!this.#perRequest && asked === undefined) return true;
    try {
      return native.logPasses(this.#perRequest, this.#perRequest && related === undefined ? undefined : asked, said);
    } catch (error) {
      // A level that there is not is the SDK's to refuse.
      if (toTidings(error) instanceof InvalidArgumentError) return true;
      throw error;
    }
  }
}

/** The token that a request brought; `0` and `""` are good ones. */
function tokenOf(meta: Params | undefined): string | number | undefined {
  const token = meta?.["progressToken"];
  return typeof token === "string" || typeof token === "number" ? token : undefined;
}

/** The rules for a request that brought that token, or none. */
function rules(token: string | number | undefined, intervalMs: number): NativeProgress {
  try {
    return new native.Progress(token === undefined ? undefined : idText(token), intervalMs);
  } catch {
    // Beyond what an id may be: nothing is reported under it.
    return new native.Progress(undefined, intervalMs);
  }
}
