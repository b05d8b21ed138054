/** The adapter for npm `fastmcp` 4.x. Private of its SDK's server: `_transport`. */
import type { Hub } from "../hub";
import { attach, type AttachOptions } from "./attach";
import { eventStore } from "./event-store";
import type { SdkServer } from "./intercept";
import { overHttp, type Transport, useStore } from "./transports";

/** A session of FastMCP, as far as the adapter needs it. */
export interface FastMCPSession {
  /** The SDK's low-level server. */
  readonly server: SdkServer;
}
/** A `FastMCP`, as far as the adapter needs it. */
export interface FastMCP {
  on(event: "connect", listener: (event: { session: any }) => void): unknown;
}

export interface InstrumentOptions extends AttachOptions {
  /** Each session's own event store on the hub, in the place of the one it was given; `false` leaves that be. */
  eventStore?: boolean;
}

const instrumented = new WeakSet<object>();

/**
 * Brings to the sessions of a `FastMCP` what `attach` brings to a server, and an event store to each of those over HTTP. To be
 * called before `server.start(…)`; returns the server.
 *
 * Over stdio FastMCP shows its session only when it has answered `initialize`, so that the capability is not declared there.
 */
export function instrument<Server extends FastMCP>(server: Server, hub: Hub, options: InstrumentOptions = {}): Server {
  if (instrumented.has(server)) throw new Error("this server is instrumented already");
  instrumented.add(server);
  const { eventStore: stores = true, ...attached } = options;
  server.on("connect", ({ session }: { session: FastMCPSession }) => {
    const { server: sdk } = session;
    const { transport } = sdk;
    whileUnconnected(sdk, () => attach(sdk, hub, attached));
    if (stores && transport !== undefined && overHttp(transport)) useStore(transport, eventStore(hub, () => transport));
  });
  return server;
}

/**
 * FastMCP shows a session when its server is connected, and before that has had a message. What the SDK allows until it is
 * connected is still in time.
 */
function whileUnconnected(sdk: SdkServer, body: () => void): void {
  const inside = sdk as { _transport?: Transport | undefined };
  const { _transport } = inside;
  inside._transport = undefined;
  try {
    body();
  } finally {
    inside._transport = _transport;
  }
}
