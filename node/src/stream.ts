/** Streams and writers. */
import { entry } from "./errors";
import { type Identity, page, type Page } from "./event";
import { flushLog } from "./log";
import { native, type NativeStream, type NativeWriter } from "./native";
import { wait } from "./port";
import { Tail } from "./tail";

/** `process` survives the end of the process, kill -9 included; `disk` survives the loss of power as well. */
export type Durability = "process" | "disk";

/** JSON text, kept byte for byte. */
export type Payload = string | Uint8Array;

/** A cursor, the number of the last event that the reader has, or nothing for the earliest event there is. */
export type After = string | number | undefined;

const CLOSE = 1;
const GIVE_UP = 2;

/** How events are appended to a stream. */
export interface AppendOptions {
  /** What they are; `message` without. */
  type?: string;
  durability?: Durability;
  /** Who and what they belong to. */
  identity?: Identity;
  /** Closes the stream in the same step. */
  close?: boolean;
  /** Appends once under this key. */
  key?: string;
}

function members(identity: Identity): [string, string][] {
  return Object.entries(identity).filter((member): member is [string, string] => member[1] !== undefined);
}

/** The right of one writer to number a stream in memory: `append` returns at once, the commit follows. */
export class Writer {
  readonly #native: NativeWriter;
  readonly #handle: number;

  /** @internal */
  constructor(writer: NativeWriter) {
    this.#native = writer;
    this.#handle = writer.handle;
  }

  /** The stream's random id. */
  get stream(): string {
    return entry(() => this.#native.stream);
  }

  /**
   * Appends one event and returns its cursor, without waiting for anything. `close` closes the stream after it. With
   * `giveUp` the oldest buffered events go, and are told as a gap, where it would throw `CongestedError`.
   *
   * @throws ClosedError, FencedError, CongestedError or TooLargeError
   */
  append(
    payload: Payload,
    options: { type?: string; close?: boolean; giveUp?: boolean; identity?: Identity } = {},
  ): string {
    const flags = (options.close ? CLOSE : 0) | (options.giveUp ? GIVE_UP : 0);
    const identity = options.identity && members(options.identity);
    const cursor = entry(() => native.append(this.#handle, options.type ?? "message", payload, flags, identity));
    if (native.logWaits()) flushLog();
    return cursor;
  }

  /** The cursor of a reader that has everything appended so far. */
  cursor(): string {
    return entry(() => this.#native.cursor());
  }

  /** More is buffered than is good: whoever can should wait for `flush`. */
  get congested(): boolean {
    return entry(() => this.#native.congested);
  }

  /** Whether the stream takes no more events from this writer. */
  get closed(): boolean {
    return entry(() => this.#native.closed);
  }

  /** Closes the stream after the last event, without waiting. */
  close(): void {
    entry(() => this.#native.close());
  }

  /** Waits until everything appended before is committed; `disk`: until it survives the loss of power. */
  flush(durability: Durability = "process", options: { signal?: AbortSignal } = {}): Promise<void> {
    return wait(() => this.#native.flush(durability), options);
  }
}

/** A stream by its key. It comes to be with its first append or claim. */
export class Stream {
  readonly #native: NativeStream;
  /** Whose it is. */
  readonly scope: string;
  /** Its name there. */
  readonly name: string;

  /** @internal */
  constructor(stream: NativeStream, scope: string, name: string) {
    this.#native = stream;
    this.scope = scope;
    this.name = name;
  }

  /**
   * Appends one event or several, numbered inside the commit; resolves to the number of the first once committed. Any
   * process may. A writer who has claimed the stream is fenced by it.
   *
   * With `key` they are appended once: the same key again resolves to the number it got the first time. `close` closes the
   * stream in the same step.
   */
  append(payload: Payload | readonly Payload[], options: AppendOptions = {}): Promise<number> {
    const payloads = typeof payload === "string" || payload instanceof Uint8Array ? [payload] : [...payload];
    const { type = "message", durability = "process", identity = {}, close = false, key } = options;
    const append = { kind: type, durability, identity: members(identity), close, ...(key === undefined ? {} : { key }) };
    return wait(() => this.#native.append(payloads, append));
  }

  /** What is committed after a place, as JSON Lines: `seq`, `type`, `time`, identity and the payload as it is. */
  *export(after?: After): Generator<string, void, undefined> {
    const found = entry(() => this.#native.export(after ?? null));
    for (;;) {
      const lines = entry(() => found.lines());
      if (lines === null) return;
      yield* lines;
    }
  }

  /** Takes the right to number the stream in memory; every other writer is fenced. */
  async claim(): Promise<Writer> {
    return new Writer(await wait(() => this.#native.claim()));
  }

  /**
   * Committed events after a place, at most `limit`.
   *
   * @throws CursorError, and AheadError for a number beyond the newest event
   */
  async read(after?: After, limit = 1_000): Promise<Page> {
    return page(entry(() => this.#native.read(after ?? null, limit)));
  }

  /** Reads like `read` and goes on live. The stream must exist. */
  tail(after?: After): Tail {
    return new Tail(entry(() => this.#native.tail(after ?? null)));
  }

  /** Closes the stream: no more events, and tails end. */
  close(): Promise<void> {
    return wait(() => this.#native.close());
  }
}
