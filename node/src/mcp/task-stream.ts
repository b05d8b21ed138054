/** `tasks/stream`: a task's events, replayed after a number and then live (SEP-2694, a draft). */
import { AheadError, CursorError } from "../errors";
import { type Event, Gap } from "../event";
import type { Hub, Task } from "../hub";
import type { Stream } from "../stream";
import type { Tail } from "../tail";
import type { Params } from "./intercept";
import { StreamLimits } from "./task-limits";
import type { TaskRequest } from "./task-methods";
import type { Tasks } from "./tasks";
import { drained, type Transport } from "./transports";
import * as wire from "./wire";

const EVENT_METHOD = "notifications/tasks/event";
const RELATED_TASK = "io.modelcontextprotocol/related-task";
const EVENT_META = "io.tidings/event";

/** Allowances are each process's, over all servers of one hub: 2026-07-28 makes a server for every request. */
const limits = new WeakMap<Hub, StreamLimits>();

/** The streams of tasks that a session reads. */
const slots = new WeakMap<object, Set<string>>();

/**
 * Serves the streams of one server.
 *
 * What the draft leaves open: `after` beyond the newest event is -32602 with `data.reason = "ahead"` and `headSeq` (left out when
 * there is no event yet); a reader that eviction overtakes while it reads is ended with `events_gone`, never served with a hole;
 * a connection that may hold one stream of a task is a legacy session, 2026-07-28 has none.
 */
export class TaskStream {
  readonly #limits: StreamLimits;

  constructor(
    readonly hub: Hub,
    readonly tasks: Tasks,
  ) {
    let found = limits.get(hub);
    if (found === undefined) limits.set(hub, (found = new StreamLimits(tasks.streams, tasks.resumes)));
    this.#limits = found;
  }

  /** Sends the events until the task has ended and all were sent. Throws the JSON-RPC errors of the draft. */
  async serve(asked: TaskRequest, task: Task, transport: Transport | undefined): Promise<void> {
    const after = afterOf(asked.params);
    const { asker, taskId, request } = asked;
    // A request that belongs to nobody has nothing but the task by which it could be told from others.
    const release = this.#limits.hold(asker.startsWith("connection:") ? taskId : asker, taskId);
    try {
      const stream = this.hub.stream(task.scope, task.name);
      if (request.modern || transport === undefined) await this.#sendAll(asked, stream, after, transport);
      else await this.#once(transport, taskId, () => this.#sendAll(asked, stream, after, transport));
    } finally {
      release();
    }
  }

  async #once(connection: object, taskId: string, serve: () => Promise<void>): Promise<void> {
    let held = slots.get(connection);
    if (held === undefined) slots.set(connection, (held = new Set()));
    if (held.has(taskId)) {
      const message = "This connection has a stream of the task; cancel it first";
      throw new wire.JsonRpcError(wire.INVALID_PARAMS, message, { reason: "busy" });
    }
    held.add(taskId);
    try {
      await serve();
    } finally {
      held.delete(taskId);
    }
  }

  async #sendAll(
    { request, taskId }: TaskRequest,
    stream: Stream,
    after: number | undefined,
    transport: Transport | undefined,
  ): Promise<void> {
    const tail = await this.#tail(stream, after);
    const { signal } = request;
    try {
      for (let batch; (batch = await tail.nextBatch({ signal })) !== undefined; ) {
        for (const item of batch) {
          if (item instanceof Gap) throw this.#eventsGone(taskId, item);
          await request.notify({ method: EVENT_METHOD, params: paramsOf(taskId, item) });
        }
        // The SDK takes whatever is sent, however little of it is read.
        if (transport !== undefined) await drained(transport, request.id, signal);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
      // Nobody waits for an answer.
    } finally {
      tail.close();
    }
  }

  async #tail(stream: Stream, after: number | undefined): Promise<Tail> {
    try {
      return stream.tail(after);
    } catch (error) {
      if (error instanceof AheadError) {
        const { headSeq } = await stream.read(undefined, 1);
        const data = { reason: "ahead", ...(headSeq === undefined ? {} : { headSeq }) };
        throw new wire.JsonRpcError(wire.INVALID_PARAMS, "after lies beyond the newest event", data);
      }
      // Its time is over since it was looked up.
      if (error instanceof CursorError) throw new wire.JsonRpcError(wire.INVALID_PARAMS, "Unknown task");
      throw error;
    }
  }

  #eventsGone(taskId: string, { earliestSeq }: Gap): wire.JsonRpcError {
    const data = { reason: "events_gone", taskId, ...(earliestSeq === undefined ? {} : { earliestSeq }) };
    return new wire.JsonRpcError(this.tasks.eventsGoneCode, "Task events are no longer available", data);
  }
}

function afterOf(params: Params): number | undefined {
  if (!("after" in params)) return undefined;
  const { after } = params;
  if (!Number.isSafeInteger(after) || (after as number) < 0) {
    const message = "after must be an integer from 0 to 2^53 - 1; leave it out to begin at the start";
    throw new wire.JsonRpcError(wire.INVALID_PARAMS, message);
  }
  return after as number;
}

function paramsOf(taskId: string, { seq, type, payload, identity }: Event): Params {
  const meta: Params = { [RELATED_TASK]: { taskId } };
  if (identity !== undefined) meta[EVENT_META] = identity;
  return { seq, taskId, type, payload: JSON.parse(payload) as unknown, _meta: meta };
}
