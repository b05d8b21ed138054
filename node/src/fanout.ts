/**
 * Fan-out: what has changed, and who is written to.
 *
 * The core decides who is told what and how often. Here is only who writes it, and what becomes of a connection that does
 * not take it: it loses its place, and the others do not notice.
 */
import { ClosedError, entry, ForkedError } from "./errors";
import type { NativeHub } from "./native";
import { Outbox } from "./outbox";

/** A list of a server's that may change. */
export type Kind = "tools" | "prompts" | "resources" | "resource_templates" | "events";

/** What has changed: one list or several, or the resource of that URI. */
export type Change = Kind | readonly Kind[] | { readonly uri: string };

/** What a publish came to, in this process, in listeners. */
export interface Fanout {
  /** It is queued for them, or coalesced with what was. */
  readonly told: number;
  /** They did not ask for it, or may not hear of it, or cannot be reached. */
  readonly skipped: number;
  /** They asked for it, and their connections were found not to have taken a frame in time. */
  readonly failed: number;
}

/** A connection that has failed, as numbers that are never used again. */
export interface FailedSink {
  readonly outbox: number;
  readonly sink: number;
}

/** The kinds and the name by which the core knows a change. */
export function named(change: Change): [kinds: string[], name: string | undefined] {
  if (typeof change === "string") return [[change], undefined];
  if (Array.isArray(change)) return [[...(change as readonly Kind[])], undefined];
  return [["resource"], (change as { uri: string }).uri];
}

/** How long a connection may take for what was handed out for it. */
const DEADLINE_MS = 10_000;
/** Frames taken at once. */
const BATCH = 1_024;

/** Writes to one connection. */
export interface SinkWriter {
  /** Writes one notification; `params` is JSON text. What throws or rejects, or takes too long, has failed. */
  write(method: string, params: string | undefined): void | Promise<void>;
  /** The connection did not take a notification, or not in time: it is told nothing more. */
  failed(): void;
  /** Its listener has ended in order, and everything before was written. */
  finished(): void;
  /** Whether the connection's peer can be told anything now; always, where this is absent. */
  reachable?(): boolean;
}

interface Frame {
  readonly method: string;
  readonly params: string | undefined;
}

const desks = new WeakMap<NativeHub, Desk>();

/** The outbox of one hub in this thread, and the writers of its connections. Does not keep the process alive. */
export class Desk {
  readonly outbox: Outbox;
  readonly #writers = new Map<number, SinkWriter>();
  #warned = false;

  /** The desk of a hub, made at first use. May throw what the hub throws. */
  static of(hub: NativeHub): Desk {
    let desk = desks.get(hub);
    if (desk === undefined) desks.set(hub, (desk = new Desk(new Outbox(entry(() => hub.outbox())))));
    return desk;
  }

  private constructor(outbox: Outbox) {
    this.outbox = outbox;
    void this.#pump();
  }

  /** A place for a connection. May throw what the hub throws. */
  add(writer: SinkWriter, principal: string | undefined): number {
    const sink = this.outbox.addSink({ principal, deadlineMs: DEADLINE_MS });
    this.#writers.set(sink, writer);
    return sink;
  }

  /** The connection is gone, or wants no more. Twice is no error. */
  drop(sink: number): void {
    if (this.#writers.delete(sink)) this.outbox.dropSink(sink);
  }

  /** Sees who can be reached. */
  look(): void {
    for (const [sink, writer] of this.#writers) {
      if (writer.reachable !== undefined) this.outbox.setReachable(sink, writer.reachable());
    }
  }

  async #pump(): Promise<void> {
    try {
      for (;;) {
        await this.outbox.ready({ background: true });
        const bySink = new Map<number, Frame[]>();
        for (const { sink, method, params } of this.outbox.take(BATCH)) {
          if (method === undefined) {
            this.#writers.get(sink)?.finished();
            continue;
          }
          const frames = bySink.get(sink);
          if (frames === undefined) bySink.set(sink, [{ method, params }]);
          else frames.push({ method, params });
        }
        for (const [sink, frames] of bySink) void this.#write(sink, frames);
      }
    } catch (error) {
      if (!(error instanceof ClosedError || error instanceof ForkedError)) this.#warn("notifications are written no more", error);
    }
  }

  /** Never rejects. */
  async #write(sink: number, frames: readonly Frame[]): Promise<void> {
    try {
      const writer = this.#writers.get(sink);
      if (writer === undefined) {
        this.outbox.dropSink(sink);
        return;
      }
      try {
        await within(DEADLINE_MS, writeAll(writer, frames));
        if (this.outbox.written(sink, frames.length)) return;
      } catch (error) {
        this.#warn("a notification could not be written", error);
      }
      this.outbox.broke(sink);
      if (this.#writers.delete(sink)) {
        this.outbox.dropSink(sink);
        writer.failed();
      }
    } catch (error) {
      if ((error as { code?: unknown }).code !== "closed") this.#warn("a connection could not be let go", error);
    }
  }

  #warn(what: string, error: unknown): void {
    if (this.#warned) return;
    this.#warned = true;
    process.emitWarning(`tidings: ${what}: ${String(error)}`, { code: "TIDINGS_FANOUT" });
  }
}

async function writeAll(writer: SinkWriter, frames: readonly Frame[]): Promise<void> {
  for (const { method, params } of frames) await writer.write(method, params);
}

function within(ms: number, work: Promise<void>): Promise<void> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`it took longer than ${ms} ms`)), ms);
    late.unref();
    work.then(resolve, reject).finally(() => clearTimeout(late));
  });
}

/** Sees who can be reached, where anybody in this thread is to be told anything. */
export function look(hub: NativeHub): void {
  desks.get(hub)?.look();
}
