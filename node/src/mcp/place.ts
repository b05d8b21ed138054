/** The connection of a session as a place that deliveries go through: routes of type `message`. */
import { randomUUID } from "node:crypto";

import { entry } from "../errors";
import { type Hub, nativeOf } from "../hub";
import { type HostDelivery, type Registration, serve, UNREACHABLE } from "../routes";
import { SessionEventStore } from "./event-store";
import type { Handlers, Params } from "./intercept";
import { onClose, overHttp, storeOf, type Transport } from "./transports";
import * as wire from "./wire";

/**
 * One connection that outlives its requests. Offered as a place once a call needs it, until the connection ends.
 *
 * Its name is random and never on the wire: a client reaches its own connection by naming none.
 */
export class SessionPlace {
  readonly name = randomUUID();
  #offered: Registration | undefined;
  #closed = false;

  constructor(
    readonly hub: Hub,
    readonly handlers: Handlers,
    readonly transport: Transport,
  ) {
    onClose(transport, () => this.#close());
  }

  /** Over HTTP a delivery is had only where our event store keeps it until the client listens. */
  reachable(): boolean {
    return !overHttp(this.transport) || storeOf(this.transport) instanceof SessionEventStore;
  }

  /** Takes deliveries from now on. May throw what the hub throws. */
  offer(): void {
    if (this.#closed || this.#offered !== undefined || !this.reachable()) return;
    const outlet = entry(() => nativeOf(this.hub).outlet({ routeType: "message", peer: this.name }));
    this.#offered = serve(outlet, (delivery) => this.#deliver(delivery), true);
  }

  async #deliver(delivery: HostDelivery): Promise<typeof UNREACHABLE | void> {
    if (this.#closed) return UNREACHABLE;
    await this.handlers.notify(wire.TRIGGERED_METHOD, JSON.parse(delivery.body) as Params);
  }

  /** What waits for it is given up, and the next route has its turn. */
  #close(): void {
    this.#closed = true;
    try {
      this.#offered?.close();
    } catch {
      // It went with the hub.
    }
  }
}
