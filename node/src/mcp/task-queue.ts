/**
 * What a task of the 2025-11-25 experiment asks of its client: `TaskMessageQueue`, for `new McpServer(info, {
 * taskMessageQueue })` of `@modelcontextprotocol/sdk` 1.x.
 *
 * The messages of a task are a stream beside its events: they are there when the client comes to another process for them, and
 * can be read after the task's end. In a process, each message is handed out once.
 */
import { CursorError } from "../errors";
import type { Hub } from "../hub";

/** A message as the SDK has it, which is JSON; the type is theirs. */
type QueuedMessage = any;

/** The stream's name in the scope of the task. */
export const MESSAGES = "messages";
const PAGE = 256;
/** Of so many tasks it is remembered which messages were handed out. */
const REMEMBERED = 10_000;

/** The messages of one task, as this process sees them. */
interface Queue {
  /** Read and not handed out. */
  waiting: QueuedMessage[];
  /** The last one that was read. */
  readTo: number | undefined;
  /** What is done with it now; one after the other. */
  last: Promise<unknown>;
}

/** Keeps what tasks ask of their clients in the hub on which `TaskStore` keeps the tasks. */
export class TaskMessageQueue {
  readonly #hub: Hub;
  /** By task, that of longest ago first. */
  readonly #queues = new Map<string, Queue>();

  constructor(hub: Hub) {
    this.#hub = hub;
  }

  /**
   * Puts a message in line; committed when this resolves. Whether a session may see the task, the store decides.
   *
   * @throws where `maxSize` messages wait already
   */
  enqueue(taskId: string, message: QueuedMessage, _sessionId?: string, maxSize?: number): Promise<void> {
    return this.#with(taskId, async (queue) => {
      if (maxSize !== undefined) {
        await this.#fill(taskId, queue);
        const waiting = queue.waiting.length;
        if (waiting >= maxSize) throw new Error(`The queue of the task is full: ${waiting} messages wait, and ${maxSize} may`);
      }
      await this.#stream(taskId).append(JSON.stringify(message));
    });
  }

  /** Takes the next message. */
  dequeue(taskId: string, _sessionId?: string): Promise<QueuedMessage | undefined> {
    return this.#with(taskId, async (queue) => {
      if (queue.waiting.length === 0) await this.#fill(taskId, queue);
      return queue.waiting.shift();
    });
  }

  /** Takes all messages. */
  dequeueAll(taskId: string, _sessionId?: string): Promise<QueuedMessage[]> {
    return this.#with(taskId, async (queue) => {
      await this.#fill(taskId, queue);
      return queue.waiting.splice(0);
    });
  }

  #stream(taskId: string) {
    return this.#hub.stream(`call:${taskId}`, MESSAGES);
  }

  #with<T>(taskId: string, body: (queue: Queue) => Promise<T>): Promise<T> {
    const queue = this.#queues.get(taskId) ?? { waiting: [], readTo: undefined, last: Promise.resolve() };
    this.#queues.delete(taskId); // so that it counts as the newest
    this.#queues.set(taskId, queue);
    for (const oldest of this.#queues.keys()) {
      if (this.#queues.size <= REMEMBERED) break;
      this.#queues.delete(oldest);
    }
    const done = queue.last.then(() => body(queue));
    queue.last = done.catch(() => {});
    return done;
  }

  /** Reads what has come, from whichever process. */
  async #fill(taskId: string, queue: Queue): Promise<void> {
    for (;;) {
      try {
        const { events } = await this.#stream(taskId).read(queue.readTo, PAGE);
        if (events.length === 0) return;
        for (const event of events) queue.waiting.push(JSON.parse(event.payload));
        queue.readTo = events.at(-1)!.seq;
      } catch (error) {
        if (error instanceof CursorError) return; // retention has taken the task
        throw error;
      }
    }
  }
}
