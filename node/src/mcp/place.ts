/** The connection of a session as a place that deliveries go through: routes of type `message` and `signal`. */
import { randomUUID } from "node:crypto";

import { entry } from "../errors";
import { type Hub, nativeOf } from "../hub";
import { type HostDelivery, NOT_READY, type PlaceAnswer, type Registration, serve, UNREACHABLE } from "../routes";
import type { Doorbell } from "./doorbell";
import { SessionEventStore } from "./event-store";
import type { Handlers, Params } from "./intercept";
import { onClose, onDelete, overHttp, overStdio, storeOf, type Transport } from "./transports";
import * as wire from "./wire";

/** Types whose routes without an `endpoint` go to the calling session. */
export const TO_SESSION = ["message", "signal"] as const;
export type ToSession = (typeof TO_SESSION)[number];

/**
 * One connection that outlives its requests. Offered as a place once a call needs it, until the connection ends.
 *
 * Its name is random and never on the wire: a client reaches its own connection by naming none.
 */
export class SessionPlace {
  readonly name = randomUUID();
  readonly #offered = new Map<ToSession, Registration>();
  #closed = false;
  /** Its client has ended the session: what is stored for it is read by nobody. */
  #deleted = false;

  constructor(
    readonly hub: Hub,
    readonly handlers: Handlers,
    readonly transport: Transport,
    readonly doorbell: Doorbell | undefined,
  ) {
    onClose(transport, () => this.#close());
    // The SDKs close a transport when the host was told, which it may take its time for; they take messages until then.
    onDelete(transport, () => {
      this.#deleted = true;
      this.#close();
    });
  }

  /** Whether routes of that type can go to this connection. */
  takes(type: ToSession): boolean {
    // The process at the other end of stdin is the client's only where stdin is the connection.
    if (type === "signal") return this.doorbell !== undefined && overStdio(this.transport);
    // Over HTTP a message is had only where our event store keeps it until the client listens.
    return !overHttp(this.transport) || storeOf(this.transport) instanceof SessionEventStore;
  }

  /** Takes deliveries of that type from now on. May throw what the hub throws. */
  offer(type: ToSession): void {
    if (this.#closed || this.#offered.has(type) || !this.takes(type)) return;
    const outlet = entry(() => nativeOf(this.hub).outlet({ routeType: type, peer: this.name }));
    const handler = type === "message" ? this.#deliver : this.#ring;
    this.#offered.set(
      type,
      serve(outlet, (delivery) => handler.call(this, delivery), true),
    );
  }

  async #deliver(delivery: HostDelivery): Promise<PlaceAnswer> {
    if (this.#closed) return UNREACHABLE;
    await this.handlers.notify(wire.TRIGGERED_METHOD, JSON.parse(delivery.body) as Params);
    // Ended while it was on its way into the store. What a connection that only closed has in the store can be resumed.
    if (this.#deleted) return UNREACHABLE;
  }

  async #ring(delivery: HostDelivery): Promise<PlaceAnswer> {
    const rung = this.doorbell?.ring(delivery.signal ?? "") ?? "unreachable";
    if (rung === "failed") throw new Error("the process of the peer has no room for another signal");
    return { rung: true, refused: false, unreachable: UNREACHABLE, not_ready: NOT_READY }[rung] as PlaceAnswer;
  }

  /** What waits for it is given up, and the next route has its turn. */
  #close(): void {
    this.#closed = true;
    for (const offered of this.#offered.values()) {
      try {
        offered.close();
      } catch {
        // It went with the hub.
      }
    }
  }
}
