/** The SDKs' `EventStore` on a hub: scoped to the session, durable, resumable without a gap or a double. */
import { randomBytes } from "node:crypto";

import { CongestedError, CursorError } from "../errors";
import { type Event, Gap } from "../event";
import type { Hub } from "../hub";
import type { Writer } from "../stream";
import { closeStream, GET_STREAM } from "./transports";

/** A JSON-RPC message, as far as it matters here. */
type Message = object;

/** Where a replay goes. The SDKs' own type of a message is theirs, so that it fits both. */
type Send = (eventId: string, message: any) => Promise<void>;

/** The `EventStore` of `@modelcontextprotocol/server` 2.x and of `@modelcontextprotocol/sdk` 1.x. */
export interface SdkEventStore {
  storeEvent(streamId: string, message: Message): Promise<string>;
  getStreamIdForEventId(eventId: string): Promise<string | undefined>;
  replayEventsAfter(lastEventId: string, to: { send: Send }): Promise<string>;
}

/** A session's transport, as far as the store needs it. */
export interface SessionTransport {
  readonly sessionId?: string | undefined;
}

/** The type of an event that is a message of the protocol; others are the adapter's own and never go out. */
export const MESSAGE = "message";
/** The type of the event that stands for the priming event of a stream. */
const OPENED = "io.tidings.opened";
/** How many characters of the SDK's stream id go into a stream's name. */
const SHOWN = 64;
/** Streams that have ended are found again by their SDK's id as long as they are among so many of the session. */
const REMEMBERED = 1_000;
/** Events read at once in a replay. */
const PAGE = 256;

/** The scope of a session's streams; the same in every language. */
export function scopeOf(sessionId: string): string {
  return `session:${sessionId}`;
}

interface Known {
  /** The SDK's id of the stream. */
  readonly streamId: string;
  /** Our name of it, in the session's scope. */
  readonly name: string;
  /** Its final response was appended, and closes it. */
  ended: boolean;
}

/** The event store of one MCP session; see `eventStore`. */
export class SessionEventStore implements SdkEventStore {
  readonly #hub: Hub;
  readonly #transport: () => SessionTransport;
  /** Makes names that no other process had for this session. */
  readonly #mine = randomBytes(6).toString("hex");
  #opened = 0;
  /** Open streams by the SDK's id. */
  readonly #writers = new Map<string, Writer>();
  /** Streams by their own random id, oldest first. */
  readonly #known = new Map<string, Known>();
  /** By the SDK's id: what is stored while a stream is replayed goes out after the replay. */
  readonly #replays = new Map<string, Promise<void>>();
  #failures = 0;

  /** @internal */
  constructor(hub: Hub, transport: () => SessionTransport) {
    this.#hub = hub;
    this.#transport = transport;
  }

  /** How many calls failed and were answered without an event; nothing was thrown. */
  get failures(): number {
    return this.#failures;
  }

  /**
   * Appends a message and resolves to its event id, in the order of the calls. Takes microseconds and never rejects. After a
   * failure the id is empty, which the SDK leaves off the wire: the client keeps its last good one.
   */
  storeEvent(streamId: string, message: Message): Promise<string> {
    let eventId = "";
    try {
      eventId = this.#store(streamId, message);
    } catch (error) {
      this.#failed("an event could not be stored; it cannot be replayed", error);
      // A writer that failed is not used again: the next message starts a fresh stream.
      this.#writers.delete(streamId);
    }
    const replay = this.#replays.get(streamId);
    return replay === undefined ? Promise.resolve(eventId) : replay.then(() => eventId);
  }

  #store(streamId: string, message: Message): string {
    let writer = this.#writers.get(streamId);
    const primes = Object.keys(message).length === 0;
    if (writer === undefined) {
      writer = this.#open(streamId);
      // It makes the stream exist for whoever comes back with its first position, however long the tool says nothing.
      if (primes) return append(writer, "{}", OPENED, false);
    }
    if (primes) return writer.cursor();
    const ends = streamId !== GET_STREAM && "id" in message && ("result" in message || "error" in message);
    const eventId = append(writer, JSON.stringify(message), MESSAGE, ends);
    if (ends) {
      this.#writers.delete(streamId);
      const known = this.#known.get(writer.stream);
      if (known !== undefined) known.ended = true;
    }
    return eventId;
  }

  #open(streamId: string): Writer {
    const name = `${this.#mine}.${++this.#opened}:${streamId.slice(0, SHOWN)}`;
    const writer = this.#hub.newWriter(this.#scope(), name);
    this.#writers.set(streamId, writer);
    this.#known.set(writer.stream, { streamId, name, ended: false });
    this.#forget();
    return writer;
  }

  /** Forgets the oldest streams that have ended. */
  #forget(): void {
    for (const [id, { streamId }] of this.#known) {
      if (this.#known.size <= REMEMBERED) return;
      if (this.#writers.get(streamId)?.stream !== id) this.#known.delete(id);
    }
  }

  #scope(): string {
    const { sessionId } = this.#transport();
    if (sessionId === undefined) throw new Error("the transport has no session id yet");
    return scopeOf(sessionId);
  }

  /** The stream of an event id of this session; `undefined` for any other, which the SDK answers with 400. */
  async getStreamIdForEventId(eventId: string): Promise<string | undefined> {
    try {
      return this.#find(eventId)?.streamId;
    } catch (error) {
      this.#failed("a stream could not be looked up", error);
      return undefined;
    }
  }

  #find(eventId: string): Known | undefined {
    try {
      const tail = this.#hub.resume(this.#scope(), eventId);
      try {
        return this.#known.get(tail.stream);
      } finally {
        tail.close();
      }
    } catch (error) {
      if (error instanceof CursorError) return undefined;
      throw error;
    }
  }

  /**
   * Sends everything after an event, in order, up to the newest; a message that comes meanwhile goes out after it, and not
   * before the SDK has the connection. Never rejects.
   */
  async replayEventsAfter(lastEventId: string, { send }: { send: Send }): Promise<string> {
    let known: Known | undefined;
    try {
      known = this.#find(lastEventId);
    } catch (error) {
      this.#failed("a stream could not be replayed", error);
    }
    // The SDK has asked for the stream before, so that this is a stream that went meanwhile: a connection with nothing on it.
    if (known === undefined) return `unknown:${randomBytes(8).toString("hex")}`;
    const { streamId } = known;
    const before = this.#replays.get(streamId);
    const replay = (before ?? Promise.resolve())
      .then(() => (known.ended ? this.#replayToEnd(lastEventId, send) : this.#replayToHead(known, lastEventId, send)))
      .catch((error: unknown) => this.#failed("a stream could not be replayed to its end", error));
    // The SDK registers the connection after this resolves: what waits goes on in a later turn of the loop.
    const gate = replay.then(() => new Promise<void>((resolve) => setImmediate(resolve)));
    this.#replays.set(streamId, gate);
    void gate.then(() => {
      if (this.#replays.get(streamId) === gate) this.#replays.delete(streamId);
      if (known.ended) closeStream(this.#transport(), streamId);
    });
    await replay;
    return streamId;
  }

  /** A stream that has its final response, which may still be on its way into the store. */
  async #replayToEnd(lastEventId: string, send: Send): Promise<void> {
    for await (const item of this.#hub.resume(this.#scope(), lastEventId)) await tell(item, send);
  }

  async #replayToHead({ streamId, name }: Known, lastEventId: string, send: Send): Promise<void> {
    // Readers see what is committed only: all that was stored before is, after this.
    await this.#writers.get(streamId)?.flush();
    const stream = this.#hub.stream(this.#scope(), name);
    let after = lastEventId;
    for (;;) {
      const page = await stream.read(after, PAGE);
      if (page.gap !== undefined) await tell(page.gap, send);
      for (const event of page.events) await tell(event, send);
      if (page.events.length === 0 || page.events.at(-1)?.seq === page.headSeq) return;
      after = page.cursor;
    }
  }

  /** Closes the streams that are open, when the session is over. */
  close(): void {
    for (const writer of this.#writers.values()) {
      try {
        writer.close();
      } catch {
        // Closed with its hub, or by its final response.
      }
    }
    this.#writers.clear();
  }

  #failed(what: string, error: unknown): void {
    this.#failures += 1;
    if (this.#failures === 1) process.emitWarning(`tidings: ${what}: ${String(error)}`, { code: "TIDINGS_EVENT_STORE" });
  }
}

function append(writer: Writer, payload: string, type: string, close: boolean): string {
  try {
    return writer.append(payload, { type, close });
  } catch (error) {
    if (!(error instanceof CongestedError)) throw error;
    // The store is as good as down, and what has to go is told as a gap.
    return writer.append(payload, { type, close, giveUp: true });
  }
}

/** The notification that the stream cannot be complete. */
export function gapMessage({ reason, earliestSeq, headSeq }: Gap): object {
  return { jsonrpc: "2.0", method: "notifications/io.tidings/gap", params: { reason, earliestSeq, headSeq } };
}

/** Sends an event that is a message; a gap as the notification that the stream cannot be complete. */
async function tell(item: Event | Gap, send: Send): Promise<void> {
  if (item instanceof Gap) {
    await send(item.cursor, gapMessage(item));
  } else if (item.type === MESSAGE) {
    await send(item.cursor, JSON.parse(item.payload));
  }
}

/**
 * What goes into `eventStore:` of a session's transport, of `@modelcontextprotocol/server` 2.x and of
 * `@modelcontextprotocol/sdk` 1.x:
 *
 * ```ts
 * const transport = new NodeStreamableHTTPServerTransport({
 *   sessionIdGenerator: () => randomUUID(),
 *   eventStore: eventStore(hub, () => transport),
 * });
 * ```
 *
 * One for each transport: the SDKs do not tell a store whose events it is given, and its event ids mean nothing in another
 * session.
 */
export function eventStore(hub: Hub, transport: () => SessionTransport): SessionEventStore {
  return new SessionEventStore(hub, transport);
}
