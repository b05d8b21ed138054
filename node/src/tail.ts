/** Tails. */
import { entry } from "./errors";
import { Event, events, Gap } from "./event";
import type { NativeTail } from "./native";
import { wait, type WaitOptions } from "./port";

/**
 * A reader that replays after its place and goes on live, no hole and no double at the join.
 *
 * `for await (const item of tail)` gives each `Event`, and a `Gap` where the events between could not be told. It ends when
 * the stream is closed and everything was read, or when the tail is closed; leaving the loop closes the tail. A wait that is
 * aborted loses nothing. One at a time may wait.
 */
export class Tail implements AsyncIterable<Event | Gap>, AsyncDisposable {
  readonly #native: NativeTail;
  #buffer: (Event | Gap)[] = [];
  #next = 0;
  #cursor: string;
  #last: Event | Gap | undefined;
  #closed = false;

  /** @internal */
  constructor(tail: NativeTail) {
    this.#native = tail;
    this.#cursor = entry(() => tail.cursor());
  }

  /** The stream's random id. */
  get stream(): string {
    return entry(() => this.#native.stream);
  }

  /** Where the reader stands after all that it was given. */
  get cursor(): string {
    return this.#last?.cursor ?? this.#cursor;
  }

  /** The next event or gap; `undefined` at the end. */
  async next(options: WaitOptions = {}): Promise<Event | Gap | undefined> {
    while (this.#next >= this.#buffer.length) {
      if (!(await this.#fill(options))) return undefined;
    }
    return (this.#last = this.#buffer[this.#next++]);
  }

  /** What was read at once, never empty: less work for each event. `undefined` at the end. */
  async nextBatch(options: WaitOptions = {}): Promise<(Event | Gap)[] | undefined> {
    while (this.#next >= this.#buffer.length) {
      if (!(await this.#fill(options))) return undefined;
    }
    const batch = this.#next === 0 ? this.#buffer : this.#buffer.slice(this.#next);
    this.#buffer = [];
    this.#next = 0;
    this.#last = batch.at(-1);
    return batch;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Event | Gap, void, undefined> {
    try {
      for (;;) {
        const item = await this.next();
        if (item === undefined) return;
        yield item;
      }
    } finally {
      this.close();
    }
  }

  /** The same in arrays as they were read. */
  async *batches(): AsyncGenerator<(Event | Gap)[], void, undefined> {
    try {
      for (;;) {
        const batch = await this.nextBatch();
        if (batch === undefined) return;
        yield batch;
      }
    } finally {
      this.close();
    }
  }

  /** Reads one more batch; `false` at the end. */
  async #fill(options: WaitOptions): Promise<boolean> {
    if (this.#closed) return false;
    const batch = await wait(() => this.#native.next(), options);
    if (batch === null || this.#closed) return false;
    // `undefined`: ask again.
    if (batch === undefined) return true;
    const found: (Event | Gap)[] = events(batch);
    if (batch.gap) found.unshift(new Gap(batch.gap));
    this.#buffer = found;
    this.#next = 0;
    return true;
  }

  /** Whether the stream is open and yet nothing more is to come: its one writer's process is gone. */
  abandoned(): boolean {
    return entry(() => this.#native.abandoned());
  }

  /** Ends the tail; whoever waits for it sees the end. */
  close(): void {
    this.#closed = true;
    this.#buffer = [];
    this.#next = 0;
    entry(() => this.#native.close());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }
}
