/** How much of `tasks/stream` one client may use: SEP-2694 wants streams at once and attempts to resume limited. */
import * as wire from "./wire";

const MINUTE = 60_000;
/** So many allowances are kept before those that are full again are forgotten. */
const PRUNE_AT = 1_024;

/** Counts in one process. `clock` gives milliseconds that only grow. */
export class StreamLimits {
  readonly #open = new Map<string, number>();
  /** By client and task: how many attempts were left, and when. */
  readonly #left = new Map<string, { left: number; at: number }>();

  constructor(
    readonly streams: number,
    readonly resumes: number,
    readonly clock: () => number = () => performance.now(),
  ) {}

  /** Holds a stream of the task; the answer lets go of it. Throws for a client that has too many or asks too often. */
  hold(client: string, taskId: string): () => void {
    const open = this.#open.get(client) ?? 0;
    if (open >= this.streams) {
      throw new wire.JsonRpcError(wire.INVALID_PARAMS, "Too many streams of tasks at once", {
        reason: "limit",
        limit: "streams",
        max: this.streams,
      });
    }
    this.#takeAttempt(JSON.stringify([client, taskId]));
    this.#open.set(client, open + 1);
    return () => {
      const left = (this.#open.get(client) ?? 1) - 1;
      if (left > 0) this.#open.set(client, left);
      else this.#open.delete(client);
    };
  }

  #takeAttempt(key: string): void {
    const now = this.clock();
    const left = this.#allowance(this.#left.get(key), now);
    if (left < 1) {
      throw new wire.JsonRpcError(wire.INVALID_PARAMS, "The stream of this task was asked for too often", {
        reason: "limit",
        limit: "resumes",
        max: this.resumes,
        retryAfterMs: Math.round(((1 - left) * MINUTE) / this.resumes),
      });
    }
    if (this.#left.size >= PRUNE_AT) {
      for (const [other, kept] of this.#left) {
        if (this.#allowance(kept, now) >= this.resumes) this.#left.delete(other);
      }
    }
    this.#left.set(key, { left: left - 1, at: now });
  }

  /** Attempts that are left: as many as a minute allows, which come back one after the other. */
  #allowance(kept: { left: number; at: number } | undefined, now: number): number {
    if (kept === undefined) return this.resumes;
    return Math.min(this.resumes, kept.left + ((now - kept.at) * this.resumes) / MINUTE);
  }
}
