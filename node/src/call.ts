/** Watched tool calls. */
import { entry } from "./errors";
import type { NativeCall, NativeEnded } from "./native";
import { wait, type WaitOptions } from "./port";
import type { Payload } from "./stream";

/** How a call ended. */
export interface Ended {
  readonly outcome: "completed" | "failed" | "cancelled" | "timeout";
  /** Why, where the outcome alone does not say. */
  readonly reason: string | undefined;
  /** It was this very request to end the call that won; otherwise the call had ended before. */
  readonly ours: boolean;
  /** The outcome is on disk. If not, the store did not take it in time; it is tried again while the process lives. */
  readonly committed: boolean;
  /** The JSON text for `_meta["io.tidings/undelivered"]` of the result, where something could not be delivered. */
  readonly undelivered: string | undefined;
}

function ended({ outcome, reason, ours, committed, undelivered }: NativeEnded): Ended {
  return { outcome, reason, ours, committed, undelivered };
}

/**
 * A tool call that asked to be watched. Whatever becomes of this process, it ends in exactly one outcome.
 *
 * The first of `complete`, `fail`, `cancel`, the time limit and other processes wins; the others are told who did
 * (`Ended.ours`). An outcome is on disk when the ending resolves, unless the store takes longer than two seconds. Ending goes
 * on when nobody awaits it.
 */
export class Call {
  readonly #native: NativeCall;
  /** Our id of the call. */
  readonly id: string;
  /** The ids of its routes, all of which were accepted. */
  readonly acceptedRoutes: readonly string[];
  /** Names of triggers that nothing here fires. */
  readonly ignoredTriggers: readonly string[];

  /** @internal */
  constructor(call: NativeCall) {
    this.#native = call;
    this.id = call.id;
    this.acceptedRoutes = call.acceptedRoutes;
    this.ignoredTriggers = call.ignoredTriggers;
  }

  /** The params of `notifications/config/acknowledged`, as JSON text. */
  acknowledgement(): string {
    return entry(() => this.#native.acknowledgement());
  }

  /**
   * Appends an event of the tool to the call's stream, without waiting; returns its number.
   *
   * @throws ClosedError or EndedError once the call has ended
   */
  emit(type: string, payload: Payload): number {
    return entry(() => this.#native.emit(type, payload));
  }

  /**
   * Fires a vendor's trigger (`com.example/done`) with the JSON text of an object, without waiting: an event of that type on
   * the call's stream, whose number is returned, and told to the routes that list it.
   *
   * @throws InvalidArgument for a name that is no vendor's; ClosedError or EndedError once the call has ended
   */
  fire(name: string, payload: Payload): number {
    return entry(() => this.#native.fire(name, payload));
  }

  /**
   * Makes the call a task: `Hub.task` finds it by its id until `ttlMs` after its end, whatever becomes of this process. On
   * disk when this resolves; `false`: the call had ended before.
   *
   * `bound`: only the call's principal may ask; otherwise whoever knows the id.
   */
  becomeTask(ttlMs: number, options: { bound?: boolean } = {}): Promise<boolean> {
    return wait(() => this.#native.becomeTask(ttlMs, options.bound ?? true));
  }

  /**
   * Asks the task's client for input and waits for it: `requests` is the JSON text of an object, `{key: request}` as in
   * SEP-2663's `inputRequests`; resolves to `{key: response}` once there is a response to each.
   *
   * The questions are on disk before anybody hears of them; from then on the task is `input_required` and its listeners are
   * told, in every process. A key may be used again. Throws `InvalidArgument` for what is no such object and where the call is
   * no task, `EndedError` once it has ended.
   */
  ask(requests: string | Uint8Array): Promise<string> {
    return wait(() => this.#native.ask(requests));
  }

  /** The client's connection is lost and the call goes on: fires `io.tidings/disconnected` where it was asked for. */
  disconnected(): void {
    entry(() => this.#native.disconnected());
  }

  /**
   * The client is gone and the call goes on, within limits: at most `calls` of them for whoever they are counted as, each for
   * `timeMs`. `false`: there is no room, and it ends.
   */
  detach(options: { countedAs: string; calls?: number; timeMs?: number }): boolean {
    const { countedAs, calls = 64, timeMs = 3_600_000 } = options;
    return entry(() => this.#native.detach(countedAs, calls, timeMs));
  }

  /** The tool returned this result (raw JSON text): `completed`, or `failed` where it says `isError`. */
  async complete(result: Payload): Promise<Ended> {
    return ended(await wait(() => this.#native.complete(result)));
  }

  /** The call failed with a JSON-RPC error (raw JSON text of an object), or for a reason without one. */
  async fail(options: { error?: Payload | undefined; reason?: string | undefined } = {}): Promise<Ended> {
    return ended(await wait(() => this.#native.fail(options.error, options.reason)));
  }

  /** Somebody cancelled the call. */
  async cancel(reason?: string): Promise<Ended> {
    return ended(await wait(() => this.#native.cancel(reason)));
  }

  /** Waits until the call has ended, whoever ends it. */
  async ended(options: WaitOptions = {}): Promise<Ended> {
    return ended(await wait(() => this.#native.ended(), options));
  }
}
