/** Fan-out for hosts of their own: who listens, what is to be written to whom, and what came of it. */
import { entry } from "./errors";
import { native, type NativeOutbox, type NativeProfile } from "./native";
import { wait, type WaitOptions } from "./port";
import { idText } from "./request-id";

/**
 * What an MCP peer and its server negotiated, which decides what the peer may be told.
 *
 * @throws InvalidArgumentError, which names the field, for a version that there is not and for what is no JSON object
 */
export class Profile {
  /** @internal */
  readonly native: NativeProfile;

  /**
   * @param version the protocol's version, such as `2025-11-25`
   * @param server the server's capabilities, as JSON text
   * @param client the client's
   */
  constructor(version: string, server: string, client: string) {
    this.native = entry(() => new native.Profile(version, server, client));
  }

  /** Whether peers of this version are told only within acknowledged filters (`subscriptions/listen`). */
  get listens(): boolean {
    return this.native.listens;
  }

  /**
   * The part of a listener's filter that is honoured; both are JSON text.
   *
   * @throws InvalidArgumentError for what is no filter
   */
  honoured(filter: string): string {
    return entry(() => this.native.honoured(filter));
  }
}

/** Something to write to one connection. */
export interface Notice {
  /** The connection. */
  readonly sink: number;
  /** The listener that asked for it. */
  readonly listener: number;
  /**
   * The notification's method. None: the listener has ended in order and everything before was written, so that the request
   * that opened it may have its result.
   */
  readonly method?: string;
  /** Its parameters as JSON text, if it has any. */
  readonly params?: string;
}

/**
 * Where a host takes notifications for its own connections, in one thread; from `Hub.outbox`. For servers on the MCP SDKs `attach`
 * does all of this.
 *
 * A host registers its connections and what they listen to, takes what is to be written, writes it in its own way, and says
 * what came of it. Who is told what, in which words and when, is the core's to decide.
 *
 * ```ts
 * const outbox = hub.outbox();
 * const sink = outbox.addSink({ principal: "alice" });
 * const listener = outbox.attend(sink, new Profile("2025-11-25", '{"tools":{"listChanged":true}}', "{}"));
 * outbox.open(listener); // notifications/initialized has come
 * for (;;) {
 *   await outbox.ready();
 *   for (const { sink, method, params } of outbox.take()) {
 *     await write(sink, method, params);
 *     outbox.written(sink);
 *   }
 * }
 * ```
 *
 * Nothing more is handed out for a connection before what it was handed is written; what is published meanwhile coalesces. So a
 * slow one holds nobody up, and one that is slower than its deadline has failed: `Hub.failedSinks` names it.
 *
 * Connections and listeners are numbers of this outbox's, never used again. Every method but `ready` returns at once, and throws
 * `ClosedError` where the hub is of no use any more, and `InvalidArgumentError` for a number of another outbox.
 */
export class Outbox {
  readonly #native: NativeOutbox;

  /** @internal */
  constructor(outbox: NativeOutbox) {
    this.#native = outbox;
  }

  /** Its number among the hub's, as in `FailedSink`. */
  get number(): number {
    return this.#native.number;
  }

  /** How many listeners there are. */
  get listeners(): number {
    return this.#native.listeners;
  }

  /**
   * A connection to write to. `principal`: whose it is, for publishes with an audience. `deadlineMs`: how long the host may take
   * for what it was handed; 10,000 without.
   */
  addSink(options: { principal?: string | undefined; deadlineMs?: number | undefined } = {}): number {
    return entry(() => this.#native.addSink(options.principal, options.deadlineMs));
  }

  /**
   * The one listener of a peer that sends no filters (MCP up to 2025-11-25): of every list that its profile offers, and of what
   * it subscribes to. What is published before `open` is kept for then.
   *
   * @throws InvalidArgumentError for a profile whose peers send filters, and for a connection that is gone
   */
  attend(sink: number, profile: Profile): number {
    return entry(() => this.#native.attend(sink, profile.native));
  }

  /** A peer without filters is ready to be told: `notifications/initialized` has come. */
  open(listener: number): void {
    entry(() => this.#native.open(listener));
  }

  /**
   * Such a peer asks to be told of one thing, and of what lies below it.
   *
   * @throws InvalidArgumentError where its profile does not allow it, and beyond 1,024 subscriptions
   */
  subscribe(listener: number, profile: Profile, name: string): void {
    entry(() => this.#native.subscribe(listener, profile.native, name));
  }

  /** And no longer. */
  unsubscribe(listener: number, profile: Profile, name: string): void {
    entry(() => this.#native.unsubscribe(listener, profile.native, name));
  }

  /**
   * A listener with a filter (JSON text), of which what the profile allows counts. Its acknowledgement is the first notice; what
   * is published before that is written is kept for then.
   *
   * @throws InvalidArgumentError for what is no filter, for a profile whose peers send none, and for a connection that is gone
   */
  listen(sink: number, profile: Profile, requestId: string | number | bigint, filter: string): number {
    return entry(() => this.#native.listen(sink, profile.native, idText(requestId), filter));
  }

  /** Whether the peer can be told anything at the moment. One that cannot counts as skipped. */
  setReachable(sink: number, reachable: boolean): void {
    entry(() => this.#native.setReachable(sink, reachable));
  }

  /** Ends a listener in order: what waits for it is handed out, then a notice without a method. */
  end(listener: number): void {
    entry(() => this.#native.end(listener));
  }

  /** Ends every listener with a filter in order. */
  endAll(): void {
    entry(() => this.#native.endAll());
  }

  /** The listener was cancelled: nothing more is written for it. `false`: it had ended. */
  cancel(listener: number): boolean {
    return entry(() => this.#native.cancel(listener));
  }

  /** Lets go of a connection. Answers how many listeners went with it. */
  dropSink(sink: number): number {
    return entry(() => this.#native.dropSink(sink));
  }

  /**
   * Waits until there is something to take, or a connection has failed. One wait at a time.
   *
   * @throws ClosedError when the hub closes
   */
  ready(options: WaitOptions = {}): Promise<void> {
    return wait(() => this.#native.ready(), options);
  }

  /** What there is to write, about `limit` notices at most, those of one listener together. */
  take(limit = 1_024): Notice[] {
    return entry(() => this.#native.take(limit));
  }

  /** So many of the notices handed out for a connection are written. `false`: too late, it has failed or gone. */
  written(sink: number, count = 1): boolean {
    return entry(() => this.#native.written(sink, count));
  }

  /**
   * A connection did not take a notice: its listeners end, and `Hub.failedSinks` names it. Answers how many listeners went; 0 if
   * it had failed before.
   */
  broke(sink: number): number {
    return entry(() => this.#native.broke(sink));
  }
}
