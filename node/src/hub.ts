/** The hub: the entry point. */
import { isMainThread } from "node:worker_threads";

import { Call } from "./call";
import { entry } from "./errors";
import { type Change, type FailedSink, type Fanout, look, named } from "./fanout";
import { flushLog } from "./log";
import { native, type NativeBegin, type NativeHub, type Room } from "./native";
import type { Delivery, DeliveryState, Endpoint, Stats } from "./operations";
import { Outbox } from "./outbox";
import { attend, wait } from "./port";
import { idText } from "./request-id";
import { type DeliveryHandler, offer, type Registration, type RouteOptions, serve } from "./routes";
import { type Durability, type Payload, Stream, Writer } from "./stream";
import { Tail } from "./tail";

/** What is kept, of each stream and of all; what is absent sets no limit. */
export interface Retention {
  maxEvents?: number;
  maxBytes?: number;
  /** Since the append. */
  maxAgeMs?: number;
  /** Since the close. */
  afterCloseMs?: number;
  /** Of all streams: closed ones give all but their last event first, then goes what was committed first. */
  maxTotalEvents?: number;
  /** Of all streams, as stored. */
  maxTotalBytes?: number;
}

/** Options of a hub. */
export interface HubOptions {
  /** Blocks of addresses (CIDR) that webhooks may go to although they are not public. */
  allowNetworks?: string[];
  /** Host names that the operator vouches for. */
  allowHosts?: string[];
  /** Accepts `http` endpoints too; for development and private networks. */
  allowHttp?: boolean;
  /** Ports besides 443. */
  allowPorts?: number[];
  /**
   * `http://[user:password@]host:port`: the HTTP proxy through which webhooks leave, by `CONNECT` to an address that was looked
   * up and checked here. Never taken from the environment.
   */
  proxy?: string;
  /** `whsec_…`: signs webhooks whose route brings no secret. */
  defaultSecret?: string;
  /** The one before it: while receivers change over, webhooks are signed with both. */
  previousSecret?: string;
  /** Refuses routes whose webhooks would go unsigned. */
  requireSecret?: boolean;
  /**
   * What a URL has to show before its first delivery. `challenge` (default): that it wants webhooks, unless `allowHosts` or
   * `allowNetworks` vouches for it. `always`: those too. `address`: nothing.
   */
  verify?: "challenge" | "always" | "address";
  /**
   * Attempts under way at a time. Default: 128. One that takes longer than half a second counts no more where it would keep others
   * waiting; of those there are at most as many again.
   */
  concurrency?: number;
  /** The same at one URL of one principal. Default: 8. */
  endpointConcurrency?: number;
  /** Attempts a second at one URL of one principal; 0 is no limit. Default: 100. */
  endpointRate?: number;
  /** Attempts a second at one host; 0 is no limit. Default: 500. */
  hostRate?: number;
  /** Unfinished deliveries of one principal. Default: 1,000. */
  maxPending?: number;
  /** What becomes of a firing that no route can carry: `drop` it, or `annotate` the tool's result. */
  undeliverable?: "drop" | "annotate";
  /** 32 bytes that seal secrets at rest. Without it a key file beside the database does. */
  secretKey?: Uint8Array;
  /** What is kept, of each stream and of all. */
  retention?: Retention;
  /** Names that a route's headers may have besides `authorization` and `x-*`. */
  headerNames?: string[];
  /**
   * Names of members, at every depth, and JSON Pointers into payloads: taken out of every event and outcome before anything is
   * kept. A connected client still gets its tool's whole result.
   */
  redact?: string[];
  /** One webhook attempt, from name lookup to response (default 10,000). */
  attemptTimeoutMs?: number;
  /** A process that was not heard of for so long is taken for dead (default 15,000). */
  workerLeaseMs?: number;
  /** A webhook body of more carries the truncated form of the outcome (default 256 KiB). */
  maxBodyBytes?: number;
  /** Events that may wait for the store in memory (default 64 MiB). */
  bufferBytes?: number;
}

/** A tool call that asks to be watched. */
export interface BeginCall {
  /** The raw JSON text of `notificationConfig`, if the request has one. */
  config?: Payload | undefined;
  /** The route types that this server offers; `["webhook"]` without. */
  routeTypes?: string[];
  /** Who asks. */
  principal: string;
  /** The MCP session, where there is one. */
  session?: string | undefined;
  /** Your own name for the connection of the calling session, where one outlives the request. */
  peer?: string | undefined;
  /** The names that routes of type `message` and `callback` may have; none without. */
  open?: string[];
  /** The JSON-RPC id of the request, whose type counts. */
  requestId: string | number | bigint;
  /** The tool's name. */
  tool: string;
  /** The server's limit, which the config may only lower. */
  timeoutMs?: number | undefined;
  /** The call is a task from the start, see `Call.becomeTask`. */
  taskTtlMs?: number | undefined;
  taskBound?: boolean;
  /** The trace that the call belongs to (W3C), carried on as a header of its webhooks. */
  traceparent?: string | undefined;
}

/** A task as it was when it was asked for. */
export interface Task {
  readonly status: "working" | "input_required" | "completed" | "failed" | "cancelled";
  /** SEP-2663's `DetailedTask`, as JSON text. */
  readonly json: string;
  /** The scope of the stream of its events. */
  readonly scope: string;
  /** The stream's name there. */
  readonly name: string;
}

/**
 * What a hub stands for, for the other modules of this package.
 *
 * @internal
 */
export let nativeOf: (hub: Hub) => NativeHub;

let exitHooked = false;

/** The end of the process waits for what is buffered, at most two seconds. A worker's end closes what the worker made. */
function hookExit(): void {
  if (exitHooked || !isMainThread) return;
  exitHooked = true;
  process.on("exit", () => {
    native.closeAll(2_000);
    flushLog();
  });
}

/**
 * The entry point: one store, and the threads that work for it. Cheap to make; the store is opened at first use.
 *
 * An open hub does not keep the process alive; what somebody awaits does. At the process's end it is closed, which takes at
 * most two seconds.
 */
export class Hub implements AsyncDisposable {
  readonly #native: NativeHub;
  readonly url: string;

  static {
    nativeOf = (hub) => hub.#native;
  }

  /**
   * @param url `memory:`, `sqlite:PATH` or `sqlite:///PATH`
   * @throws InvalidArgumentError, which names the argument and the rule
   */
  constructor(url = "sqlite:tidings.db", options: HubOptions = {}) {
    const { secretKey, ...rest } = options;
    const settings = secretKey === undefined ? rest : { ...rest, secretKey: Buffer.from(secretKey) };
    this.#native = entry(() => new native.Hub(url, settings));
    this.url = url;
    hookExit();
    attend();
  }

  /** Opens the store now, so that what is wrong with it is told here and not at first use. Blocks. */
  open(): void {
    entry(() => this.#native.open());
  }

  /**
   * A writer of a new stream, at once: the stream comes to be with its first event.
   *
   * For keys that nobody else uses. If the key turns out to be taken, the writer is refused, and its events are dropped and
   * counted; `stream(…).claim()` takes over a stream that is there.
   */
  newWriter(scope: string, name: string): Writer {
    return new Writer(entry(() => this.#native.newWriter(scope, name)));
  }

  /**
   * A tail after a cursor, whatever its stream's name, if the stream belongs to `scope`.
   *
   * @throws CursorError for a cursor that is malformed, unknown or of another scope
   */
  resume(scope: string, cursor: string): Tail {
    return new Tail(entry(() => this.#native.resume(scope, cursor)));
  }

  /** The stream of that key. */
  stream(scope: string, name: string): Stream {
    return new Stream(
      entry(() => this.#native.stream(scope, name)),
      scope,
      name,
    );
  }

  /**
   * Accepts a tool call that asks to be watched; it is on disk when this resolves.
   *
   * @throws ConfigError, which lists the broken rules; nothing runs then
   */
  async beginCall(call: BeginCall, options: { signal?: AbortSignal } = {}): Promise<Call> {
    const { routeTypes = ["webhook"], open = [], taskBound = true, requestId, principal, tool, ...optional } = call;
    const begin: NativeBegin = { routeTypes, open, taskBound, principal, tool, requestId: idText(requestId) };
    // Absent is not undefined at the extension module.
    for (const [name, value] of Object.entries(optional)) if (value !== undefined) Object.assign(begin, { [name]: value });
    if (begin.config instanceof Uint8Array) begin.config = Buffer.from(begin.config);
    return new Call(await wait(() => this.#native.beginCall(begin), options));
  }

  /** The task of that id, for the principal who asks. `undefined`: there is none, it is not theirs, or its time is over. */
  task(id: string, options: { principal: string }): Task | undefined {
    return entry(() => this.#native.task(id, options.principal)) ?? undefined;
  }

  /** Ends a task as `cancelled`, in whichever process it runs, unless it has ended; `false` where `task` finds none. */
  cancelTask(id: string, options: { principal: string }): Promise<boolean> {
    return wait(() => this.#native.cancelTask(id, options.principal));
  }

  /**
   * Gives a task its client's answers, in whichever process it runs: the JSON text of an object, `{key: response}`. On disk
   * when this resolves; answers to what is not outstanding are ignored. `false` where `task` finds none. See `Call.ask`.
   */
  answerTask(id: string, responses: string | Uint8Array, options: { principal: string }): Promise<boolean> {
    return wait(() => this.#native.answerTask(id, options.principal, responses));
  }

  /** Ends a call as `cancelled`, in whichever process it runs, unless it has ended; `false`: there is none that is theirs. */
  cancelCall(id: string, options: { principal: string }): Promise<boolean> {
    return wait(() => this.#native.cancelCall(id, options.principal));
  }

  /**
   * Adds a route type of your own, served in this thread from now on: `handler` gets each delivery of routes of type `name`,
   * whatever their `endpoint`.
   *
   * A handler confirms by returning, refuses by returning `false` (the trigger's next route has its turn), and fails by
   * throwing or by taking longer than `timeoutMs` (tried again, as a webhook would be). At most `limit` deliveries are in its
   * hands or queued for it; the others wait in the store. It may see a delivery twice, under the same `eventId`.
   */
  registerRouteType(name: string, handler: DeliveryHandler, options: RouteOptions = {}): Registration {
    return serve(entry(() => this.#native.outlet(offer({ routeType: name }, options))), handler);
  }

  /** A handler for routes of type `callback` with the `endpoint` `name`, where `BeginCall.open` has it. */
  registerCallback(name: string, handler: DeliveryHandler, options: RouteOptions = {}): Registration {
    return serve(entry(() => this.#native.outlet(offer({ routeType: "callback", name }, options))), handler);
  }

  /**
   * A place for routes of type `message` with the `endpoint` `name`, where `BeginCall.open` has it. The handler gets one
   * delivery after the other, and sends `delivery.frame()`.
   */
  registerSink(name: string, handler: DeliveryHandler, options: RouteOptions = {}): Registration {
    return serve(entry(() => this.#native.outlet(offer({ routeType: "message", name }, options))), handler, true);
  }

  /** Whether this process serves such a place now: a type of your own, or a `callback` or `message` of that name. */
  serves(routeType: string, name?: string): boolean {
    return entry(() => this.#native.offers(name === undefined ? { routeType } : { routeType, name }));
  }

  /**
   * Judges a `notificationConfig` (raw JSON text) as `beginCall` would, without a call; opens nothing. Returns the names of
   * triggers that nothing here fires. `peer`: whether the calling session has a connection that outlives the request.
   *
   * @throws ConfigError, which lists the broken rules
   */
  checkConfig(config: Payload, options: { routeTypes?: string[]; open?: string[]; peer?: boolean } = {}): string[] {
    const { routeTypes = ["webhook"], open = [], peer = true } = options;
    const text = config instanceof Uint8Array ? Buffer.from(config) : config;
    return entry(() => this.#native.checkConfig({ config: text, routeTypes, open, peer }));
  }

  /**
   * Tells everybody who asked for it that something has changed, each once; never waits.
   *
   * `audience`: only connections of that principal. The answer counts this hub's listeners; those of other processes
   * and threads on the same store are told within milliseconds. Whoever changes many things
   * may call it each time: what comes before a connection was written to is one frame.
   *
   * @throws InvalidArgumentError for a kind that there is not
   */
  notify(change: Change, options: { audience?: string } = {}): Fanout {
    const [kinds, name] = named(change);
    return entry(() => {
      look(this.#native);
      return this.#native.notify(kinds, name, options.audience);
    });
  }

  /** A place where this thread takes notifications for connections of its own. Those of `attach` need none. */
  outbox(): Outbox {
    return new Outbox(entry(() => this.#native.outbox()));
  }

  /** The connections that have failed since this was last asked, the newest 4,096 of them. */
  failedSinks(): FailedSink[] {
    return entry(() => this.#native.failedSinks());
  }

  /**
   * Deliveries of one call or all, in one state or any, of one principal or all, oldest first. They hold no body, address or
   * secret. Without `principal` these are everybody's, for the operator. With one they are what may be shown to a client: its
   * own, and `lastError` as it may know it, so that a denied address looks like one that refuses.
   */
  deliveries(
    options: { principal?: string; callId?: string; state?: DeliveryState; limit?: number } = {},
  ): Delivery[] {
    return entry(() => this.#native.deliveries(options.principal, options.callId, options.state, options.limit ?? 100));
  }

  /**
   * What the settled attempts of a delivery came to, in order: the category of each failure, `undefined` for the one that was
   * taken.
   */
  attempts(deliveryId: string): (string | undefined)[] {
    return entry(() => this.#native.attempts(deliveryId)).map((category) => category ?? undefined);
  }

  /** The body of a delivery as it was sent, where its route encrypts before that; `undefined`: there is none of that id. */
  deliveryBody(deliveryId: string): Uint8Array | undefined {
    return entry(() => this.#native.deliveryBody(deliveryId)) ?? undefined;
  }

  /**
   * Sends a dead letter again, with the same `webhook-id` and bytes; returns the id of the new delivery. Blocks for a commit.
   *
   * @throws InvalidArgumentError where no delivery of that id was given up
   */
  sendAgain(deliveryId: string): string {
    return entry(() => this.#native.sendAgain(deliveryId));
  }

  /**
   * Forgets finished deliveries before their time: one, all of a principal or in a state, or all. Returns how many. Blocks for
   * a commit.
   */
  purge(options: { deliveryId?: string; principal?: string; state?: DeliveryState } = {}): number {
    const { deliveryId, principal, state } = options;
    return entry(() => this.#native.purge(deliveryId, principal, state));
  }

  /** The URLs that configs have named, of a principal or of all, and where they stand. */
  endpoints(options: { principal?: string; limit?: number } = {}): Endpoint[] {
    return entry(() => this.#native.endpoints(options.principal, options.limit ?? 100));
  }

  /** Has an endpoint tried again: verified anew where it needs that, else at once. Blocks for a commit. */
  enableEndpoint(key: string): void {
    entry(() => this.#native.setEndpoint(key, true));
  }

  /** Sends nothing more to an endpoint until it is enabled or verified again. Blocks for a commit. */
  disableEndpoint(key: string): void {
    entry(() => this.#native.setEndpoint(key, false));
  }

  /** Holds deliveries back in this process until `unpause`; what fires meanwhile is kept. */
  pause(): void {
    entry(() => this.#native.setPaused(true));
  }

  /** Ends a `pause`. */
  unpause(): void {
    entry(() => this.#native.setPaused(false));
  }

  /** Pauses, and waits at most `timeoutMs` for the attempts under way; whether they have ended. */
  drain(timeoutMs = 10_000): Promise<boolean> {
    return wait(() => this.#native.drain(timeoutMs));
  }

  /** Counters of this process in Prometheus's text format, for a `/metrics` of yours. */
  prometheus(): string {
    return entry(() => this.#native.prometheus());
  }

  /** Waits until everything that was appended before is committed; `disk`: until it survives the loss of power. */
  flush(durability: Durability = "process"): Promise<void> {
    return wait(() => this.#native.flush(durability));
  }

  /**
   * Room for one call that is to go on without its request by an adapter's own doing, such as a task: counted under that name
   * together with what `Call.detach` let go on, until its `release()`. `undefined`: `calls` (64) of them do so already, in
   * this process. Opens nothing.
   */
  room(countedAs: string, options: { calls?: number } = {}): Room | undefined {
    return entry(() => this.#native.room(countedAs, options.calls ?? 64)) ?? undefined;
  }

  /** What the hub has done and holds; all zero before its first use. */
  stats(): Stats {
    return entry(() => this.#native.stats());
  }

  /**
   * Ends running calls (`failed`, reason `shutdown`), commits what is buffered, closes the store. Takes at most about
   * `timeoutMs`; `false`: not all was done by then.
   */
  async close(timeoutMs = 2_000): Promise<boolean> {
    const complete = await wait(() => this.#native.close(timeoutMs));
    flushLog();
    return complete;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
