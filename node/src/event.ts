/** Events and gaps, as readers get them. */
import type { NativeBatch, NativeCursors, NativeGap, NativePage } from "./native";

/** Who and what an event belongs to, as far as it was said. */
export interface Identity {
  readonly task?: string;
  readonly session?: string;
  readonly turn?: string;
  readonly toolCall?: string;
  readonly sourceType?: string;
}

/** One event of a stream. */
export class Event {
  /** Its number in the stream, from 0, without holes. */
  readonly seq: number;
  /** What it is. */
  readonly type: string;
  /** When it was appended, in milliseconds since the epoch. */
  readonly time: number;
  readonly #payload: string | Uint8Array;
  readonly #identity: string | null | undefined;
  readonly #cursors: NativeCursors;

  /** @internal */
  constructor(
    seq: number,
    type: string,
    time: number,
    payload: string | Uint8Array,
    identity: string | null | undefined,
    cursors: NativeCursors,
  ) {
    this.seq = seq;
    this.type = type;
    this.time = time;
    this.#payload = payload;
    this.#identity = identity;
    this.#cursors = cursors;
  }

  /** JSON text as it was given. */
  get payload(): string {
    return typeof this.#payload === "string" ? this.#payload : Buffer.from(this.#payload).toString("utf8");
  }

  /** The payload's bytes, which JSON text need not be made of. */
  get bytes(): Uint8Array {
    return typeof this.#payload === "string" ? Buffer.from(this.#payload, "utf8") : this.#payload;
  }

  /** Who and what it belongs to, if it was said. */
  get identity(): Identity | undefined {
    return this.#identity == null ? undefined : (JSON.parse(this.#identity) as Identity);
  }

  /** The cursor of a reader that has this event and all before it. */
  get cursor(): string {
    return this.#cursors.after(this.seq);
  }
}

/** Why a read could not be complete. What follows it goes on after the hole. */
export class Gap {
  readonly reason: "evicted" | "regressed" | "lost" | "unknown";
  /** The first event that is there. */
  readonly earliestSeq: number | undefined;
  /** The newest event. */
  readonly headSeq: number | undefined;
  /** The cursor of a reader that was told this gap. */
  readonly cursor: string;

  /** @internal */
  constructor(gap: NativeGap) {
    this.reason = gap.reason;
    this.earliestSeq = gap.earliestSeq;
    this.headSeq = gap.headSeq;
    this.cursor = gap.cursor;
  }
}

/** Events of one read. */
export interface Page {
  /** In order. */
  readonly events: Event[];
  /** Tell this first: the read could not be complete. */
  readonly gap: Gap | undefined;
  /** Where the reader stands after these events. */
  readonly cursor: string;
  /** The newest event's number; `undefined` if there never was one. */
  readonly headSeq: number | undefined;
  /** The stream is closed and the events reach its end. */
  readonly ended: boolean;
}

/** @internal */
export function events(batch: NativeBatch): Event[] {
  const { seqs, times, types, payloads, identities, cursors } = batch;
  const found: Event[] = [];
  for (let n = 0; n < payloads.length; n++) {
    const type = typeof types === "string" ? types : types[n];
    // The arrays are of one length.
    found.push(new Event(seqs[n]!, type!, times[n]!, payloads[n]!, identities?.[n], cursors));
  }
  return found;
}

/** @internal */
export function page(read: NativePage): Page {
  const { batch, cursor, headSeq, ended } = read;
  return { events: events(batch), gap: batch.gap && new Gap(batch.gap), cursor, headSeq, ended };
}
