/** `subscriptions/listen` (2026-07-28), served from the hub. */
import { Desk, type SinkWriter } from "../fanout";
import { InvalidArgumentError } from "../errors";
import { type Hub, nativeOf } from "../hub";
import { Profile } from "../outbox";
import type { Params } from "./intercept";
import * as wire from "./wire";

/** What a listener asks for, on whose behalf, of which server. */
export interface Asked {
  readonly id: string | number;
  readonly version: string;
  readonly filter: unknown;
  readonly client: Params;
  readonly server: Params;
  /** How the server names itself, for the end of the listener. */
  readonly serverInfo: unknown;
  readonly principal: string;
}

/** The listeners of one front. */
export class Listeners {
  readonly #open = new Set<Listener>();

  constructor(
    readonly hub: Hub,
    readonly max: number,
  ) {}

  /** Registers a listener that is written to by what `make` makes, or throws the error to answer with. */
  serve<Made extends Listener>(asked: Asked, make: (place: ListenerPlace) => Made): Made {
    const { filter } = asked;
    if (typeof filter !== "object" || filter === null || Array.isArray(filter)) {
      throw new wire.JsonRpcError(wire.INVALID_PARAMS, "notifications: must be an object");
    }
    const taskIds = (filter as Params)["taskIds"];
    if (Array.isArray(taskIds) && taskIds.length > 0 && !wire.declaresTasks(asked.client)) throw wire.undeclared();
    if (this.#open.size >= this.max) throw new wire.JsonRpcError(wire.INTERNAL_ERROR, "Subscription limit reached");
    try {
      const desk = Desk.of(nativeOf(this.hub));
      const profile = new Profile(asked.version, JSON.stringify(asked.server), JSON.stringify(asked.client));
      const honoured = profile.honoured(JSON.stringify(this.#theirs(filter as Params, asked.principal)));
      const listener = make({ desk, asked, over: () => void this.#open.delete(listener) });
      this.#open.add(listener);
      listener.begin((sink) => desk.outbox.listen(sink, profile, asked.id, honoured));
      return listener;
    } catch (error) {
      if (error instanceof InvalidArgumentError) {
        throw new wire.JsonRpcError(wire.INVALID_PARAMS, (error as Error).message);
      }
      process.emitWarning(`tidings: a listener could not be served: ${String(error)}`, { code: "TIDINGS_FANOUT" });
      throw new wire.JsonRpcError(wire.INTERNAL_ERROR, "Notifications cannot be served now; try again later");
    }
  }

  /** The filter without the tasks that are not there for who asks. */
  #theirs(filter: Params, principal: string): Params {
    const { taskIds } = filter;
    if (!Array.isArray(taskIds)) return filter;
    // What is no text the core refuses.
    const theirs = taskIds.filter((id) => typeof id !== "string" || this.hub.task(id, { principal }) !== undefined);
    return { ...filter, taskIds: theirs };
  }

  /** Ends every listener in order: each gets what it was promised, then the result of its request. Does not wait. */
  end(): void {
    for (const listener of this.#open) listener.end();
  }
}

/** What a listener has of its front. */
export interface ListenerPlace {
  readonly desk: Desk;
  readonly asked: Asked;
  /** It is no more. */
  readonly over: () => void;
}

/** One listener, however it is written to. */
export abstract class Listener implements SinkWriter {
  #sink = 0;
  #listener = 0;
  protected closed = false;

  constructor(readonly place: ListenerPlace) {}

  /** Takes a place; `listen` registers the listener there. May throw. */
  begin(listen: (sink: number) => number): void {
    const { desk, asked } = this.place;
    this.#sink = desk.add(this, asked.principal);
    try {
      this.#listener = listen(this.#sink);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Ends it in order: it gets what it was promised, then the result of its request. */
  end(): void {
    if (!this.closed) this.place.desk.outbox.end(this.#listener);
  }

  abstract write(method: string, params: string | undefined): void | Promise<void>;
  abstract failed(): void;
  abstract finished(): void;

  /** The result of its request, as JSON text. */
  protected result(): string {
    const { id, serverInfo } = this.place.asked;
    const meta = { [wire.SUBSCRIPTION_ID]: id, ...(serverInfo === undefined ? {} : { [wire.SERVER_INFO]: serverInfo }) };
    return JSON.stringify({ resultType: "complete", _meta: meta });
  }

  /** Nobody reads any longer. */
  protected gone(): void {
    if (this.closed) return;
    this.close();
    this.place.desk.drop(this.#sink);
  }

  protected close(): void {
    this.closed = true;
    this.place.over();
  }
}
