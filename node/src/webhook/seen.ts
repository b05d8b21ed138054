/** Which webhooks were handled. */
import { CursorError, InvalidArgumentError } from "../errors";
import type { Page } from "../event";
import type { Hub } from "../hub";
import type { Stream } from "../stream";

/** Remembers which webhooks were handled. */
export interface Remembers {
  /** Whether that one was. */
  has(id: string): boolean | Promise<boolean>;
  /** That one was. */
  add(id: string): void | Promise<void>;
}

export interface SeenOptions {
  /** How many are remembered. */
  readonly size?: number;
  /** For how long: at least as long as senders try again, which for Tidings is 24 hours. */
  readonly ttlMs?: number;
}

/** A window in memory over the webhooks that were handled: at most `size` (100,000), each for `ttlMs` (two days). */
export class Seen implements Remembers {
  readonly #size: number;
  readonly #ttlMs: number;
  readonly #clock: () => number;
  /** By id, in the order in which they were handled: when. */
  readonly #at = new Map<string, number>();

  /** @throws InvalidArgumentError for a window that holds nothing */
  constructor(options: SeenOptions & { readonly clock?: () => number } = {}) {
    const { size = 100_000, ttlMs = 2 * 86_400_000, clock = () => performance.now() } = options;
    if (!(size >= 1 && ttlMs > 0)) throw new InvalidArgumentError("size and ttlMs: must be more than nothing");
    this.#size = size;
    this.#ttlMs = ttlMs;
    this.#clock = clock;
  }

  /** How many it remembers. */
  get size(): number {
    this.#forget();
    return this.#at.size;
  }

  has(id: string): boolean {
    this.#forget();
    return this.#at.has(id);
  }

  add(id: string): void {
    this.#at.delete(id); // so that it counts as the newest
    this.#at.set(id, this.#clock());
    this.#forget();
  }

  #forget(): void {
    const oldest = this.#clock() - this.#ttlMs;
    for (const [id, at] of this.#at) {
      if (this.#at.size <= this.#size && at > oldest) return;
      this.#at.delete(id);
    }
  }
}

/**
 * The same window in a hub's store: it holds over a restart, and all processes on the store share it, whatever their language.
 *
 * Kept as the stream (`scope`, `seen`), for as long as the hub's retention keeps events. Two processes that handle the same
 * webhook at the very same moment both do.
 */
export class StoredSeen implements Remembers {
  readonly #stream: Stream;
  readonly #window: Seen;
  /** After all that was read. */
  #cursor: string | undefined;

  constructor(hub: Hub, options: SeenOptions & { readonly scope?: string } = {}) {
    const { scope = "io.tidings.receiver", ...window } = options;
    this.#stream = hub.stream(scope, "seen");
    this.#window = new Seen(window);
  }

  /** Whether any process handled that one within the window. */
  async has(id: string): Promise<boolean> {
    await this.#catchUp();
    return this.#window.has(id);
  }

  /** That one was handled; on disk when this resolves. */
  async add(id: string): Promise<void> {
    await this.#stream.append(JSON.stringify(id), { type: "io.tidings.seen", durability: "disk" });
    this.#window.add(id);
  }

  async #catchUp(): Promise<void> {
    for (;;) {
      let page: Page;
      try {
        page = await this.#stream.read(this.#cursor);
      } catch (error) {
        // Retention has taken the stream, and another has begun under its name.
        if (!(error instanceof CursorError) || this.#cursor === undefined) throw error;
        this.#cursor = undefined;
        continue;
      }
      // Before anything was handled there is no stream yet, and no cursor of it.
      if (page.events.length === 0) return;
      for (const event of page.events) this.#window.add(JSON.parse(event.payload) as string);
      this.#cursor = page.cursor;
    }
  }
}
