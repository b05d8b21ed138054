/** The call that runs, for the author of a tool. */
import { AsyncLocalStorage } from "node:async_hooks";

import { entry } from "../errors";
import { native } from "../native";

/** Appends to a call, or to nothing. Never throws. */
export type Emit = (type: string, payload: string) => void;

interface Running {
  readonly id: () => string | undefined;
  readonly emit: Emit;
  readonly fire: Emit;
}

const running = new AsyncLocalStorage<Running>();

/** The tool call that runs; comes from `currentCall`. */
export class ToolCall {
  readonly #running: Running | undefined;

  /** @internal */
  constructor(found: Running | undefined) {
    this.#running = found;
  }

  /** Our id of the call, which is its task's; `undefined` while it is neither watched nor a task. */
  get id(): string | undefined {
    return this.#running?.id();
  }

  /**
   * Appends an event to the call's stream, where `tasks/stream` reads it. Never waits.
   *
   * `type` needs a vendor prefix in reverse-DNS form (`com.example.review.comment`); names without one, `io.tidings` and
   * `io.modelcontextprotocol` are reserved. `payload` is an object whose JSON text has at most 256 KiB. Nothing is kept of a
   * call that is neither watched nor becomes a task.
   *
   * @throws InvalidArgumentError for such a type, payload or size
   */
  emit(type: string, payload: object): void {
    const text = JSON.stringify(payload);
    entry(() => native.checkEvent(type, text));
    this.#running?.emit(type, text);
  }

  /**
   * Fires a trigger of your own: tells the routes that list `name`, and is an event of that type. Never waits.
   *
   * `name` is a reverse-DNS name (`com.example/half-way` or `com.example.half-way`); those under `io.tidings` and
   * `io.modelcontextprotocol` are reserved. Nothing happens in a call that asked for nothing.
   *
   * @throws InvalidArgumentError for another name or payload
   */
  fire(name: string, payload: object): void {
    const text = JSON.stringify(payload);
    entry(() => native.checkFire(name, text));
    this.#running?.fire(name, text);
  }
}

/**
 * The tool call that runs here: in the tool itself and in what it awaits. Works in every tool, so that a tool need not know
 * whether its client asked for anything.
 */
export function currentCall(): ToolCall {
  return new ToolCall(running.getStore());
}

/** Makes a call the current one inside `body`. */
export function asCurrent<T>(call: Running, body: () => T): T {
  return running.run(call, body);
}
