/** A call that nobody asked to be watched and that is nothing but itself, until it becomes a task. */
import type { Call, Ended } from "../call";
import type { CallLike } from "./watched-call";

/** Bytes of events after which waiting for the tool is over: they have to go somewhere. */
const BUFFER = 256 * 1024;

/** The end of a call that left no trace. */
const unrecorded = (outcome: Ended["outcome"]): Ended => ({
  outcome,
  reason: undefined,
  ours: true,
  committed: false,
  undelivered: undefined,
});

/** What is emitted waits here, and goes to the call that `become` begins. A call that ends before that costs the store nothing. */
export class InlineCall implements CallLike {
  readonly #events: [type: string, payload: string][] = [];
  #bytes = 0;
  #call: Call | undefined;
  #begun!: (call: Call) => void;
  readonly #begins = new Promise<Call>((resolve) => (this.#begun = resolve));
  #full!: () => void;
  /** Resolves once more events wait than should. */
  readonly full = new Promise<void>((resolve) => (this.#full = resolve));

  get id(): string | undefined {
    return this.#call?.id;
  }

  /** The call that it has become. */
  get record(): Call {
    if (this.#call === undefined) throw new Error("the call is no task");
    return this.#call;
  }

  /** Whether the store knows it. */
  get begun(): boolean {
    return this.#call !== undefined;
  }

  /** From now on it is this call, which has everything that waited. */
  become(call: Call): void {
    for (const [type, payload] of this.#events) call.emit(type, payload);
    this.#events.length = 0;
    this.#call = call;
    this.#begun(call);
  }

  emit(type: string, payload: string): number {
    if (this.#call !== undefined) return this.#call.emit(type, payload);
    this.#events.push([type, payload]);
    this.#bytes += type.length + payload.length;
    if (this.#bytes > BUFFER) this.#full();
    return this.#events.length - 1;
  }

  /** There are no routes to tell, so what is left of it is its event. */
  fire(name: string, payload: string): number {
    return this.emit(name, payload);
  }

  /** A plain call ends with its request, a task's request has ended anyway. */
  detach(): boolean {
    return false;
  }

  async complete(result: string): Promise<Ended> {
    return this.#call === undefined ? unrecorded("completed") : this.#call.complete(result);
  }

  async fail(options: { error?: string; reason?: string }): Promise<Ended> {
    return this.#call === undefined ? unrecorded("failed") : this.#call.fail(options);
  }

  async cancel(reason?: string): Promise<Ended> {
    return this.#call === undefined ? unrecorded("cancelled") : this.#call.cancel(reason);
  }

  /** Waits until the task has ended, whoever ends it. */
  async ended(options: { background: boolean }): Promise<Ended> {
    return (await this.#begins).ended(options);
  }
}
