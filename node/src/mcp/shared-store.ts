/** One event store for the sessions of a framework that takes no more than one. */
import { randomUUID } from "node:crypto";

import type { Hub } from "../hub";
import { type SdkEventStore, SessionEventStore } from "./event-store";
import { GET_STREAM } from "./transports";

/**
 * The event store of many sessions at once; see `sharedEventStore`.
 *
 * An SDK tells a store which stream a message belongs to, and not which session. The stream of a request has a random id and
 * is told by an event id of its own, which its client alone has seen; the sessions' own streams all have one id, so that
 * nothing of them is kept or replayed.
 */
export class SharedEventStore implements SdkEventStore {
  readonly #store: SessionEventStore;

  /** @internal */
  constructor(hub: Hub) {
    const scope = { sessionId: `shared:${randomUUID()}` };
    this.#store = new SessionEventStore(hub, () => scope);
  }

  /** How many calls failed and were answered without an event; nothing was thrown. */
  get failures(): number {
    return this.#store.failures;
  }

  async storeEvent(streamId: string, message: object): Promise<string> {
    // An empty id stays off the wire: a client that comes back for it opens the stream anew.
    return streamId === GET_STREAM ? "" : this.#store.storeEvent(streamId, message);
  }

  getStreamIdForEventId(eventId: string): Promise<string | undefined> {
    return this.#store.getStreamIdForEventId(eventId);
  }

  replayEventsAfter(
    lastEventId: string,
    to: { send: (eventId: string, message: any) => Promise<void> },
  ): Promise<string> {
    return this.#store.replayEventsAfter(lastEventId, to);
  }
}

/**
 * For a framework that hands one event store to the transports of all its sessions, such as npm `fastmcp`
 * (`httpStream: { eventStore: sharedEventStore(hub) }`). The responses of requests resume; the sessions' own streams do not.
 * Where each session can have its own, `eventStore` (or `instrument`, for `fastmcp`) has both.
 */
export function sharedEventStore(hub: Hub): SharedEventStore {
  return new SharedEventStore(hub);
}
