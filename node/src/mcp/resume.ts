/**
 * A GET with `Last-Event-ID` for a session that another process held, or still holds.
 *
 * The SDKs keep their sessions in memory. What such a session said is in the store all the same, so that the client can have the
 * rest of the stream it names, and follow it live, without its session: nothing here needs more than the record of the session's
 * owner and the stream.
 */
import { setTimeout as sleep } from "node:timers/promises";

import { CursorError } from "../errors";
import { type Event, Gap } from "../event";
import type { Hub } from "../hub";
import type { Tail } from "../tail";
import { gapMessage, MESSAGE, scopeOf } from "./event-store";
import { lookUp } from "./sessions";
import { SSE_HEADERS } from "./sse";
import * as wire from "./wire";

/** The last protocol version with sessions, and the first whose clients read events without data. */
const SESSIONS_UNTIL = "2025-11-25";
/** How long a client is asked to wait before it comes back. */
const RETRY_MS = 1_000;
/** Between two looks whether the process that writes a silent stream is still there. */
const LOOK_MS = 1_000;
/** Between the looks for an event that a living session may not have committed yet. */
const PAUSES_MS = [20, 50, 100, 200, 500, undefined];
/** What is handed over at a time, at least one event. */
const CHUNK = 256 * 1024;
const COMMENT = ":\n\n";

/** What a request that resumes a stream names. */
export interface Wanted {
  readonly sessionId: string;
  readonly lastEventId: string;
  readonly version: string | undefined;
}

/** Session, event and protocol version of a request that resumes a stream of a session; `undefined` for any other. */
export function wanted(method: string, header: (name: string) => string | null | undefined): Wanted | undefined {
  const sessionId = header("mcp-session-id");
  const lastEventId = header("last-event-id");
  const accept = header("accept") ?? "";
  const version = header("mcp-protocol-version") ?? undefined;
  if (method !== "GET" || !sessionId || !lastEventId) return undefined;
  if (!accept.includes("text/event-stream") && !accept.includes("*/*")) return undefined;
  // From 2026-07-28 on there is nothing to resume.
  return version !== undefined && version > SESSIONS_UNTIL ? undefined : { sessionId, lastEventId, version };
}

type Batch = (Event | Gap)[] | undefined;

/** Serves streams from the store. Holds nothing but a place in the stream for each client, however slow it reads. */
export class Resumer {
  constructor(
    readonly hub: Hub,
    readonly keepAliveMs: number,
  ) {}

  /**
   * The response; `undefined`: the session or the event is not known, the session is somebody else's, or there is nothing and
   * nobody left to say more. Never rejects.
   */
  async serve(asked: Wanted, principal: string | undefined, signal: AbortSignal): Promise<Response | undefined> {
    let tail: Tail | undefined;
    try {
      const record = await lookUp(this.hub, asked.sessionId);
      if (record === undefined || record.principal !== principal) return undefined;
      tail = await this.#tail(asked, record.alive);
      if (tail === undefined) return undefined;
      // In this order: a writer that is gone adds nothing to what is read afterwards.
      const abandoned = tail.abandoned();
      const left = new AbortController();
      const first = tail.nextBatch({ signal: left.signal });
      const now = await Promise.race([first, new Promise<"nothing">((resolve) => setImmediate(resolve, "nothing"))]);
      if ((now === "nothing" && abandoned) || (now === undefined && !record.alive)) {
        first.catch(() => {});
        left.abort();
        tail.close();
        return undefined;
      }
      const headers = { ...SSE_HEADERS, "mcp-session-id": asked.sessionId };
      return new Response(this.#stream(this.#follow(tail, first, left, asked.version), left, signal), { headers });
    } catch (error) {
      tail?.close();
      wire.warn("a stream could not be resumed from the store", error);
      return undefined;
    }
  }

  async #tail({ sessionId, lastEventId }: Wanted, alive: boolean): Promise<Tail | undefined> {
    for (const pause of PAUSES_MS) {
      try {
        return this.hub.resume(scopeOf(sessionId), lastEventId);
      } catch (error) {
        if (!(error instanceof CursorError)) throw error;
        if (!alive || pause === undefined) return undefined;
        // An event goes out before it is committed: a client may be here before the other process's commit.
        await sleep(pause);
      }
    }
    return undefined;
  }

  /** What there is, then live, until the stream ends, its writer is gone or the client leaves. */
  async *#follow(
    tail: Tail,
    first: Promise<Batch>,
    left: AbortController,
    version: string | undefined,
  ): AsyncGenerator<string, void, undefined> {
    try {
      // A proxy may hold the headers back until the first byte of the body.
      yield version === SESSIONS_UNTIL ? `${COMMENT}retry: ${RETRY_MS}\n\n` : COMMENT;
      let silent = 0;
      let next = first;
      for (;;) {
        const look = new AbortController();
        const looked = sleep(LOOK_MS, "nothing" as const, { signal: look.signal }).catch(() => "nothing" as const);
        const batch = await Promise.race([next, looked]);
        look.abort();
        if (batch === undefined) return;
        if (batch !== "nothing") {
          silent = 0;
          yield* chunks(batch);
          next = tail.nextBatch({ signal: left.signal });
          continue;
        }
        // What it said last may have come while we looked.
        if (tail.abandoned()) {
          const last = await Promise.race([next, new Promise<undefined>((resolve) => setImmediate(resolve, undefined))]);
          if (last === undefined) {
            next.catch(() => {});
            return;
          }
          yield* chunks(last);
          next = tail.nextBatch({ signal: left.signal });
          continue;
        }
        silent += LOOK_MS;
        if (silent >= this.keepAliveMs) {
          silent = 0;
          yield COMMENT; // moves no cursor and is no event
        }
      }
    } finally {
      left.abort();
      tail.close();
    }
  }

  #stream(parts: AsyncGenerator<string>, left: AbortController, signal: AbortSignal): ReadableStream<Uint8Array> {
    const encoder = new TextEncoder();
    const gone = (): void => left.abort();
    signal.addEventListener("abort", gone, { once: true });
    return new ReadableStream({
      pull: async (controller) => {
        try {
          const { value, done } = await parts.next();
          if (!done) return controller.enqueue(encoder.encode(value));
        } catch (error) {
          if (!left.signal.aborted) wire.warn("a stream could not be replayed to its end", error);
        }
        signal.removeEventListener("abort", gone);
        try {
          controller.close();
        } catch {
          // The client left.
        }
      },
      cancel: async () => {
        left.abort();
        await parts.return(undefined).catch(() => {});
      },
    });
  }
}

function* chunks(batch: Iterable<Event | Gap>): Generator<string, void, undefined> {
  let gathered = "";
  for (const item of batch) {
    if (!(item instanceof Gap) && item.type !== MESSAGE) continue;
    const frame = frameOf(item.cursor, item instanceof Gap ? JSON.stringify(gapMessage(item)) : item.payload);
    if (gathered !== "" && gathered.length + frame.length > CHUNK) {
      yield gathered;
      gathered = "";
    }
    gathered += frame;
  }
  if (gathered !== "") yield gathered;
}

function frameOf(cursor: string, payload: string): string {
  // Line ends are between the tokens of a JSON text only; a client joins the lines with LF, which is the same text to it.
  return `id: ${cursor}\nevent: message\ndata: ${payload.replace(/\r\n|\r|\n/g, "\ndata: ")}\n\n`;
}
