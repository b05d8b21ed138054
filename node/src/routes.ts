/** Deliveries that go through a handler of the host. */
import { entry } from "./errors";
import type { NativeHostDelivery, NativeOffer, NativeOutlet } from "./native";
import { wait } from "./port";

/** A delivery in the host's hands. */
export class HostDelivery {
  readonly #native: NativeHostDelivery;
  /** Its own id. */
  readonly id: string;
  /** The firing's id, the same on every attempt and every route. */
  readonly eventId: string;
  /** The call it is about, if it is about one. */
  readonly callId: string | undefined;
  /** On whose behalf. */
  readonly principal: string;
  /** The trigger that fired. */
  readonly trigger: string;
  /** The route's id. */
  readonly route: string;
  /** The route's type. */
  readonly routeType: string;
  /** What the client named, if it did. */
  readonly endpoint: string | undefined;
  /** The signal to ring with, for a route of type `signal`. */
  readonly signal: string | undefined;
  /** Attempts begun, this one included. */
  readonly attempt: number;
  /** The JSON text that a webhook would carry. */
  readonly body: string;

  /** @internal */
  constructor(delivery: NativeHostDelivery) {
    const { id, eventId, callId, principal, trigger, route, routeType, endpoint, signal, attempt, body } = delivery.facts();
    this.#native = delivery;
    this.id = id;
    this.eventId = eventId;
    this.callId = callId;
    this.principal = principal;
    this.trigger = trigger;
    this.route = route;
    this.routeType = routeType;
    this.endpoint = endpoint;
    this.signal = signal;
    this.attempt = attempt;
    this.body = Buffer.from(body).toString("utf8");
  }

  /** The JSON-RPC notification that a route of type `message` sends, as JSON text. */
  frame(): string {
    return Buffer.from(entry(() => this.#native.frame())).toString("utf8");
  }
}

/** Takes a delivery; see `Hub.registerRouteType`. */
export type DeliveryHandler = (delivery: HostDelivery) => void | boolean | Promise<void | boolean>;

/**
 * What a handler of the package's own returns where its peer is gone.
 *
 * @internal
 */
export const UNREACHABLE = Symbol("unreachable");
/**
 * And where its peer does not wait for it.
 *
 * @internal
 */
export const NOT_READY = Symbol("not ready");
/** @internal */
export type PlaceAnswer = void | boolean | typeof UNREACHABLE | typeof NOT_READY;
type AnyHandler = (delivery: HostDelivery) => PlaceAnswer | Promise<PlaceAnswer>;

export interface RouteOptions {
  /** Deliveries in the handler's hands or queued for it. */
  readonly limit?: number;
  /** How long one may take. */
  readonly timeoutMs?: number;
}

/** A handler that is served until it is closed, or the hub is. */
export interface Registration {
  close(): void;
}

/** @internal */
export function offer(place: NativeOffer, { limit, timeoutMs }: RouteOptions): NativeOffer {
  return { ...place, ...(limit === undefined ? {} : { limit }), ...(timeoutMs === undefined ? {} : { timeoutMs }) };
}

/**
 * Hands deliveries to a handler, in this thread, as long as the outlet is open. Does not keep the process alive.
 *
 * @internal
 */
export function serve(outlet: NativeOutlet, handler: AnyHandler, inOrder = false): Registration {
  void (async () => {
    for (;;) {
      const delivery = await wait(() => outlet.next(), { background: true });
      if (delivery === null) return;
      const handled = hand(delivery, handler);
      if (inOrder) await handled;
    }
  })().catch(() => {
    // The port of this thread is closed, or the hub: nobody is served any more.
  });
  return { close: () => entry(() => outlet.close()) };
}

/** Never rejects: what the handler throws fails its delivery, not the process. */
async function hand(delivery: NativeHostDelivery, handler: AnyHandler): Promise<void> {
  try {
    const taken = await handler(new HostDelivery(delivery));
    if (taken === false) delivery.refuse("refused");
    else if (taken === UNREACHABLE) delivery.refuse("unreachable");
    else if (taken === NOT_READY) delivery.refuse("not_ready");
    else delivery.confirm();
  } catch (error) {
    delivery.refuse("failed");
    process.emitWarning(`tidings: a handler of deliveries threw: ${String(error)}`, { code: "TIDINGS_HANDLER" });
  }
}
