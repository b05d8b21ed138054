/**
 * Where tasks of the 2025-11-25 experiment are kept: `TaskStore`, for `new McpServer(info, { taskStore })` of
 * `@modelcontextprotocol/sdk` 1.x.
 *
 * A task is a call of the hub. Its record is the call's row, so that it ends once, whoever ends it, and that a task whose
 * process died is `failed` and not at work for ever. What the experiment has besides, a status message and
 * `input_required`, stands in a stream beside the call's own events.
 */
import { randomUUID } from "node:crypto";

import type { Call } from "../call";
import { ClosedError, CursorError, EndedError, InvalidArgumentError, TidingsError } from "../errors";
import type { Page } from "../event";
import type { Hub, Task as TaskRecord } from "../hub";
import type { Stream } from "../stream";
import { MESSAGES } from "./task-queue";
import { INTERNAL_ERROR, JsonRpcError } from "./wire";

/** A task as the SDK shows it. */
export interface SdkTask {
  taskId: string;
  status: "working" | "input_required" | "completed" | "failed" | "cancelled";
  /** Milliseconds after its end. */
  ttl: number | null;
  createdAt: string;
  lastUpdatedAt: string;
  pollInterval?: number;
  statusMessage?: string;
}

type Status = SdkTask["status"];
/** A result as the SDK has it; its own type of one is theirs. */
type Result = any;

export interface TaskStoreOptions {
  /** How long a task is kept after its end (default: an hour); a client may ask for less. */
  readonly ttlMs?: number;
  /** How often a client should ask (default 500). */
  readonly pollMs?: number;
  /** How many tasks of one principal may be at work (default 64). */
  readonly maxRunning?: number;
  /** Whose tasks those of a session are; the session's own without. */
  readonly principal?: (sessionId: string) => string | undefined;
}

/** The newest event of this stream is what was said of a task at work. */
const STATUS = "status";
/** The stream of a principal's task ids, newest last. */
const INDEX = "tasks";
const PAGE = 50;
const TERMINAL: readonly string[] = ["completed", "failed", "cancelled"];

/** What was said about a task besides its record. */
interface Said {
  status?: Status;
  statusMessage?: string;
  pollInterval?: number;
  /** Of a task that failed with a result that does not say so itself. */
  result?: Result;
  at: string;
}

/** SEP-2663's `DetailedTask`, as far as it is read here. */
interface Detail {
  readonly createdAt: string;
  readonly lastUpdatedAt: string;
  readonly ttlMs: number;
  readonly result?: Result;
  readonly error?: { code: number; message: string; data?: unknown };
}

interface Found {
  readonly record: TaskRecord;
  readonly detail: Detail;
  readonly said: Said | undefined;
}

/**
 * Keeps tasks in a hub: durable, found in every process on the store, theirs alone who asked for them.
 *
 * A task belongs to its MCP session, or to whom `principal` makes of it. Where there are no sessions, whoever knows its id may
 * ask, and nobody's are listed. What a task's work says after its end changes nothing and is no error.
 */
export class TaskStore {
  readonly #hub: Hub;
  readonly #ttlMs: number;
  readonly #pollMs: number;
  readonly #most: number;
  readonly #principal: (sessionId: string) => string | undefined;
  /** Stands in for the principal where there is no session. */
  readonly #nobody = `connection:${randomUUID()}`;
  /** Tasks at work here, by their ids. */
  readonly #running = new Map<string, Call>();
  readonly #counts = new Map<string, number>();

  /** @throws InvalidArgumentError for a number out of range */
  constructor(hub: Hub, options: TaskStoreOptions = {}) {
    const { ttlMs = 3_600_000, pollMs = 500, maxRunning = 64, principal = () => undefined } = options;
    for (const [name, value] of Object.entries({ ttlMs, pollMs, maxRunning })) {
      if (!Number.isSafeInteger(value) || value < 1) throw new InvalidArgumentError(`${name}: must be a whole number, 1 or more`);
    }
    this.#hub = hub;
    this.#ttlMs = ttlMs;
    this.#pollMs = pollMs;
    this.#most = maxRunning;
    this.#principal = principal;
  }

  // -- the SDK's interface

  /** Begins a task; on disk when this resolves. */
  async createTask(
    options: { ttl?: number | null; pollInterval?: number },
    requestId: string | number,
    _request: unknown,
    sessionId?: string,
  ): Promise<SdkTask> {
    const principal = this.#owner(sessionId);
    const count = this.#counts.get(principal) ?? 0;
    if (count >= this.#most) throw failure(`Too many tasks at work: at most ${this.#most}`, "limit", false);
    this.#counts.set(principal, count + 1);
    let call: Call;
    try {
      const taskTtlMs = Math.min(Math.max(Math.floor(options.ttl ?? this.#ttlMs), 0), this.#ttlMs);
      const begin = { principal, requestId, tool: "tools/call", taskTtlMs, taskBound: sessionId !== undefined };
      call = await answered(this.#hub.beginCall(begin));
    } catch (error) {
      this.#uncount(principal);
      throw error;
    }
    this.#running.set(call.id, call);
    void this.#follow(call, principal);
    if (sessionId !== undefined) await answered(this.#hub.stream(principal, INDEX).append(JSON.stringify(call.id)));
    if (options.pollInterval !== undefined) await this.#say(call.id, undefined, { pollInterval: options.pollInterval });
    return this.#required(call.id, sessionId).then((found) => this.#shown(call.id, found));
  }

  /** The task; `null` for one that never was, is over, or is somebody else's. */
  async getTask(taskId: string, sessionId?: string): Promise<SdkTask | null> {
    const found = await this.#find(taskId, sessionId);
    return found === undefined ? null : this.#shown(taskId, found);
  }

  /** Ends a task with its result, both at once. */
  async storeTaskResult(taskId: string, status: "completed" | "failed", result: Result, sessionId?: string): Promise<void> {
    const found = await this.#required(taskId, sessionId);
    const call = this.#atWorkHere(taskId, found);
    if (call === undefined) return;
    if (status === "completed" || (result as { isError?: unknown }).isError === true) {
      await answered(call.complete(JSON.stringify(result)));
      return;
    }
    await this.#say(taskId, found.said, { result });
    await answered(call.fail({ error: JSON.stringify({ code: INTERNAL_ERROR, message: "The task failed" }) }));
  }

  /** What the task came to; rejects with the error of one that failed without a result. */
  async getTaskResult(taskId: string, sessionId?: string): Promise<Result> {
    const { detail, said } = await this.#required(taskId, sessionId);
    const result = said?.result ?? detail.result;
    if (result !== undefined) return result;
    if (detail.error !== undefined) throw new JsonRpcError(detail.error.code, detail.error.message, detail.error.data);
    throw new Error(`Task ${taskId} has no result`);
  }

  /** Changes a task's status or message, or ends it; `cancelled` in whichever process it runs. */
  async updateTaskStatus(taskId: string, status: Status, statusMessage?: string, sessionId?: string): Promise<void> {
    const found = await this.#required(taskId, sessionId);
    if (status === "cancelled") {
      if (TERMINAL.includes(found.record.status)) {
        if (found.record.status === status) return;
        throw new Error(`Cannot cancel a task in terminal status '${found.record.status}'`);
      }
      if (statusMessage !== undefined) await this.#say(taskId, found.said, { statusMessage });
      await answered(this.#hub.cancelTask(taskId, { principal: this.#owner(sessionId) }));
      return;
    }
    const call = this.#atWorkHere(taskId, found);
    if (call === undefined) return;
    const ends = TERMINAL.includes(status);
    const message = statusMessage === undefined ? {} : { statusMessage };
    if (!ends || statusMessage !== undefined) await this.#say(taskId, found.said, ends ? message : { ...message, status });
    if (status === "completed") await answered(call.complete("{}"));
    if (status === "failed") {
      const error = { code: INTERNAL_ERROR, message: statusMessage ?? "The task failed" };
      await answered(call.fail({ error: JSON.stringify(error) }));
    }
  }

  /** The tasks of whoever asks, oldest first. */
  async listTasks(cursor?: string, sessionId?: string): Promise<{ tasks: SdkTask[]; nextCursor?: string }> {
    if (cursor !== undefined && !/^\d{1,15}$/.test(cursor)) throw new Error(`Invalid cursor: ${cursor}`);
    if (sessionId === undefined) return { tasks: [] };
    let page: Page;
    try {
      const index = this.#hub.stream(this.#owner(sessionId), INDEX);
      page = await index.read(cursor === undefined ? undefined : Number(cursor), PAGE);
    } catch (error) {
      throw error instanceof CursorError ? new Error(`Invalid cursor: ${cursor}`) : unavailable(error);
    }
    const found = await Promise.all(page.events.map((event) => this.getTask(JSON.parse(event.payload) as string, sessionId)));
    const tasks = found.filter((task): task is SdkTask => task !== null);
    const last = page.events.at(-1)?.seq;
    const more = last !== undefined && page.headSeq !== undefined && last < page.headSeq;
    return more ? { tasks, nextCursor: String(last) } : { tasks };
  }

  // -- how it is done

  #owner(sessionId: string | undefined): string {
    if (sessionId === undefined) return this.#nobody;
    return this.#principal(sessionId) ?? `session:${sessionId}`;
  }

  async #find(taskId: string, sessionId: string | undefined): Promise<Found | undefined> {
    try {
      const record = this.#hub.task(taskId, { principal: this.#owner(sessionId) });
      if (record === undefined) return undefined;
      return { record, detail: JSON.parse(record.json) as Detail, said: await this.#newest(taskId) };
    } catch (error) {
      throw unavailable(error);
    }
  }

  async #required(taskId: string, sessionId: string | undefined): Promise<Found> {
    const found = await this.#find(taskId, sessionId);
    if (found === undefined) throw new Error(`Task with ID ${taskId} not found`);
    return found;
  }

  /** The call of a task at work; `undefined` when it has ended, whose work is too late with what it says. */
  #atWorkHere(taskId: string, { record }: Found): Call | undefined {
    if (TERMINAL.includes(record.status)) return undefined;
    const call = this.#running.get(taskId);
    if (call === undefined) throw new Error(`Task with ID ${taskId} runs in another process`);
    return call;
  }

  #shown(taskId: string, { record, detail, said }: Found): SdkTask {
    let status: Status = record.status;
    if (status === "working") status = said?.status ?? status;
    // So it is in this version; the extension has it otherwise.
    else if (status === "completed" && detail.result?.isError === true) status = "failed";
    const statusMessage = said?.statusMessage ?? detail.error?.message;
    const updated = said === undefined || said.at < detail.lastUpdatedAt ? detail.lastUpdatedAt : said.at;
    return {
      taskId,
      status,
      ttl: detail.ttlMs,
      createdAt: detail.createdAt,
      lastUpdatedAt: updated,
      pollInterval: said?.pollInterval ?? this.#pollMs,
      ...(statusMessage === undefined ? {} : { statusMessage }),
    };
  }

  #status(taskId: string): Stream {
    return this.#hub.stream(`call:${taskId}`, STATUS);
  }

  async #newest(taskId: string): Promise<Said | undefined> {
    const stream = this.#status(taskId);
    const { headSeq } = await stream.read(undefined, 1);
    if (headSeq === undefined) return undefined; // nothing was ever said
    const { events } = await stream.read(headSeq === 0 ? undefined : headSeq - 1);
    const newest = events.at(-1);
    return newest === undefined ? undefined : (JSON.parse(newest.payload) as Said);
  }

  async #say(taskId: string, before: Said | undefined, more: Partial<Said>): Promise<void> {
    const said: Said = { ...before, ...more, at: new Date().toISOString() };
    try {
      await this.#status(taskId).append(JSON.stringify(said));
    } catch (error) {
      // It has just ended.
      if (!(error instanceof ClosedError || error instanceof EndedError)) throw unavailable(error);
    }
  }

  /** Until the task has ended, whoever ends it. */
  async #follow(call: Call, principal: string): Promise<void> {
    try {
      await call.ended({ background: true });
    } catch {
      // The hub went down.
    }
    this.#running.delete(call.id);
    this.#uncount(principal);
    // They go with the task, as what is closed goes after its time.
    for (const name of [STATUS, MESSAGES]) {
      try {
        await this.#hub.stream(`call:${call.id}`, name).close();
      } catch {
        // It never came to be, or the hub went down.
      }
    }
  }

  #uncount(principal: string): void {
    const count = (this.#counts.get(principal) ?? 1) - 1;
    if (count > 0) this.#counts.set(principal, count);
    else this.#counts.delete(principal);
  }
}

async function answered<T>(doing: Promise<T>): Promise<T> {
  try {
    return await doing;
  } catch (error) {
    throw unavailable(error);
  }
}

/** What the SDK answers with. */
function unavailable(error: unknown): unknown {
  if (!(error instanceof TidingsError) || error instanceof InvalidArgumentError) return error;
  return failure("The store of tasks does not answer", error.code, error.retryable);
}

function failure(message: string, reason: string, retryable: boolean): JsonRpcError {
  return new JsonRpcError(INTERNAL_ERROR, message, { reason, retryable });
}
