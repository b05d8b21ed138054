/**
 * Whose an MCP session is, on record: what a process that does not hold the session has to know before it serves it.
 *
 * The record is a small stream in the session's own scope, the same in every language. Its first event names the principal. It is
 * open and its writer alive exactly while the session lives somewhere; it is closed when the session is over, with one more
 * event when it was the client that ended it.
 */
import { CursorError } from "../errors";
import { Gap } from "../event";
import type { Hub } from "../hub";
import type { Writer } from "../stream";
import { scopeOf } from "./event-store";
import { onClose, onDelete, type Transport } from "./transports";
import * as wire from "./wire";

const NAME = "owner";
const OWNER = "io.tidings.session";
const DELETED = "io.tidings.session.deleted";

/** After so long the record is written again, so that retention by age does not take it from a session in use. */
const AGAIN_MS = 3_600_000;

/** How long the beginning of a session waits for its record, which takes one commit. */
const RECORDED_WITHIN_MS = 2_000;

/** The sessions of attached servers that this process holds. */
const here = new Set<string>();

/** Whether this process holds the session. */
export function livesHere(sessionId: string): boolean {
  return here.has(sessionId);
}

/** A session lives here until its transport closes. */
export function holdSession(sessionId: string, transport: Transport): void {
  here.add(sessionId);
  onClose(transport, () => here.delete(sessionId));
}

/**
 * Puts a session on record until its transport closes. `principal`: `undefined` for nobody in particular. Resolves once other
 * processes can look it up, or when the store takes too long for that; never rejects.
 */
export async function recordSession(
  hub: Hub,
  sessionId: string,
  transport: Transport,
  principal: string | undefined,
): Promise<void> {
  let writer: Writer | undefined;
  let deleted = false;
  const record = (): void => {
    try {
      writer ??= hub.newWriter(scopeOf(sessionId), NAME);
      writer.append(JSON.stringify({ principal: principal ?? null }), { type: OWNER, giveUp: true });
    } catch (error) {
      wire.warn("a session could not be put on record", error);
    }
  };
  record();
  const again = setInterval(record, AGAIN_MS).unref();
  onDelete(transport, () => (deleted = true));
  onClose(transport, () => {
    clearInterval(again);
    try {
      if (deleted) writer?.append("{}", { type: DELETED, close: true, giveUp: true });
      else writer?.close();
    } catch {
      // It went with the hub.
    }
  });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, RECORDED_WITHIN_MS)));
  await Promise.race([hub.flush().catch(() => {}), late]); // what is wrong with the store others say
  clearTimeout(timer);
}

/** What the store knows of a session. */
export interface SessionRecord {
  readonly principal: string | undefined;
  /** Whether some process still holds it. */
  readonly alive: boolean;
}

/** The record of a session; `undefined` when there is none or its client has ended it. */
export async function lookUp(hub: Hub, sessionId: string): Promise<SessionRecord | undefined> {
  const stream = hub.stream(scopeOf(sessionId), NAME);
  let abandoned: boolean;
  try {
    const tail = stream.tail();
    abandoned = tail.abandoned();
    tail.close();
  } catch (error) {
    if (error instanceof CursorError) return undefined;
    throw error;
  }
  let found: { principal: string | undefined } | undefined;
  let after: string | undefined;
  for (;;) {
    const page = await stream.read(after);
    for (const item of page.events) {
      if (item instanceof Gap) continue;
      if (item.type === DELETED) return undefined;
      if (item.type !== OWNER) continue;
      const { principal } = JSON.parse(item.payload) as { principal: string | null };
      found = { principal: principal ?? undefined };
    }
    if (page.ended || page.events.length === 0) return found && { ...found, alive: !page.ended && !abandoned };
    after = page.cursor;
  }
}
