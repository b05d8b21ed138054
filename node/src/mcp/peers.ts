/** The peers of a server with sessions (up to 2025-11-25): who they are, what they subscribed to, how they are written to. */
import { Desk, type SinkWriter } from "../fanout";
import { InvalidArgumentError } from "../errors";
import { type Hub, nativeOf } from "../hub";
import { Profile } from "../outbox";
import { requestOf } from "./context";
import { SessionEventStore } from "./event-store";
import type { Handlers, Params, SdkServer } from "./intercept";
import { type PrincipalOf, principalOf } from "./principal";
import { lags, listensOn, onClose, overHttp, storeOf, type Transport } from "./transports";
import * as wire from "./wire";

/** Registers the server's session once its handshake is made, and follows what it subscribes to. */
export function followPeers(sdk: SdkServer, handlers: Handlers, hub: Hub, principal: PrincipalOf): void {
  let peer: Peer | undefined;

  handlers.around("initialize", async (request, context, next) => {
    const result = (await next(request, context)) as { protocolVersion?: unknown; capabilities?: unknown };
    const { transport } = sdk;
    peer?.leave();
    peer = undefined;
    // Without a session a client over HTTP has no stream of its own: there is nobody to tell.
    if (transport === undefined || (overHttp(transport) && transport.sessionId === undefined)) return result;
    try {
      const server = JSON.stringify(result.capabilities ?? {});
      const client = JSON.stringify(request.params?.["capabilities"] ?? {});
      const profile = new Profile(String(result.protocolVersion), server, client);
      const [name] = principalOf(principal, { ...requestOf(context), sessionId: transport.sessionId }, transport);
      const made = new Peer(hub, handlers, transport, profile, name);
      made.register();
      peer = made;
      onClose(transport, () => made.leave());
    } catch (error) {
      // Whatever it is (a version that we do not know, a store that is down), the session goes on without.
      warn("a session could not be registered for notifications", error);
    }
    return result;
  });
  handlers.heard("notifications/initialized", () => peer?.initialized());

  const subscribed = (method: string, how: (peer: Peer, uri: string) => void): void =>
    handlers.around(method, async (request, context, next) => {
      const result = await next(request, context);
      const uri = request.params?.["uri"];
      if (peer !== undefined && typeof uri === "string") how(peer, uri);
      return result;
    });
  handlers.onceServed("resources/list", () => {
    for (const method of ["resources/subscribe", "resources/unsubscribe"]) {
      if (!handlers.has(method)) handlers.serve(method, async () => ({}));
    }
    const { resources } = handlers.capabilities as { resources?: { subscribe?: boolean } };
    if (resources?.subscribe !== true) sdk.registerCapabilities({ resources: { subscribe: true } });
    subscribed("resources/subscribe", (one, uri) => one.subscribe(uri));
    subscribed("resources/unsubscribe", (one, uri) => one.unsubscribe(uri));
  });
}

/** One session: its place at the desk. */
class Peer implements SinkWriter {
  readonly #uris = new Set<string>();
  #place: { desk: Desk; sink: number; listener: number } | undefined;
  #initialized = false;
  #gone = false;

  constructor(
    readonly hub: Hub,
    readonly handlers: Handlers,
    readonly transport: Transport,
    readonly profile: Profile,
    readonly principal: string,
  ) {}

  /** Takes a place. May throw what the hub throws. */
  register(): void {
    const desk = Desk.of(nativeOf(this.hub));
    const sink = desk.add(this, this.principal);
    const listener = desk.outbox.attend(sink, this.profile);
    this.#place = { desk, sink, listener };
    if (this.#initialized) desk.outbox.open(listener);
    for (const uri of this.#uris) desk.outbox.subscribe(listener, this.profile, uri);
    desk.outbox.setReachable(sink, this.reachable());
  }

  initialized(): void {
    this.#initialized = true;
    this.#do(({ desk, listener }) => desk.outbox.open(listener));
  }

  subscribe(uri: string): void {
    try {
      this.#place?.desk.outbox.subscribe(this.#place.listener, this.profile, uri);
    } catch (error) {
      if (error instanceof InvalidArgumentError) {
        throw new wire.JsonRpcError(wire.INVALID_PARAMS, (error as Error).message);
      }
      warn("a subscription could not be followed", error);
    }
    this.#uris.add(uri);
  }

  unsubscribe(uri: string): void {
    this.#uris.delete(uri);
    this.#do(({ desk, listener }) => desk.outbox.unsubscribe(listener, this.profile, uri));
  }

  /** The session is over. */
  leave(): void {
    this.#gone = true;
    this.#do(({ desk, sink }) => desk.drop(sink));
    this.#place = undefined;
  }

  /** Over HTTP, whether what is sent can arrive: on an open GET stream, or later from the event store. */
  reachable(): boolean {
    const { transport } = this;
    return !overHttp(transport) || listensOn(transport) || storeOf(transport) instanceof SessionEventStore;
  }

  async write(method: string, params: string | undefined): Promise<void> {
    // The SDKs take whatever is sent, however little of it is read.
    if (lags(this.transport)) throw new Error("its client does not read");
    await this.handlers.notify(method, params === undefined ? undefined : (JSON.parse(params) as Params));
  }

  /** Its GET stream is closed; the rest of it can be had from the event store, so that it goes on. */
  failed(): void {
    this.#place = undefined;
    if (this.#gone) return;
    try {
      this.transport.closeStandaloneSSEStream?.();
      this.register();
    } catch (error) {
      warn("a session could not be registered for notifications", error);
    }
  }

  finished(): void {
    // Sessions have no end of their own.
  }

  #do(what: (place: { desk: Desk; sink: number; listener: number }) => void): void {
    try {
      if (this.#place !== undefined) what(this.#place);
    } catch (error) {
      if (!(error instanceof InvalidArgumentError)) warn("a session could not be followed", error);
    }
  }
}

function warn(what: string, error: unknown): void {
  process.emitWarning(`tidings: ${what}: ${String(error)}`, { code: "TIDINGS_FANOUT" });
}
