/** The SDK's `ServerEventBus` over a hub: what is published there reaches every peer of both eras, in every process. */
import { type Change, Desk, type SinkWriter } from "../fanout";
import { type Hub, nativeOf } from "../hub";
import { Profile } from "../outbox";

/** What `@modelcontextprotocol/server` 2.x publishes and hears. */
export type ServerEvent =
  | { kind: "tools_list_changed" | "prompts_list_changed" | "resources_list_changed"; params?: Record<string, unknown> }
  | { kind: "resource_updated"; uri: string; params?: Record<string, unknown> };

const CHANGES = {
  tools_list_changed: "tools",
  prompts_list_changed: "prompts",
  resources_list_changed: "resources",
} as const;

const EVENTS: Readonly<Record<string, ServerEvent>> = {
  "notifications/tools/list_changed": { kind: "tools_list_changed" },
  "notifications/prompts/list_changed": { kind: "prompts_list_changed" },
  "notifications/resources/list_changed": { kind: "resources_list_changed" },
};

function changeOf(event: ServerEvent): Change {
  return event.kind === "resource_updated" ? { uri: event.uri } : CHANGES[event.kind];
}

/** What a notification says has changed, if it says that. */
export function changeIn(notification: { readonly method: string; readonly params?: Record<string, unknown> }): Change | undefined {
  const event = EVENTS[notification.method];
  if (event !== undefined) return changeOf(event);
  const uri = notification.method === "notifications/resources/updated" ? notification.params?.["uri"] : undefined;
  return typeof uri === "string" ? { uri } : undefined;
}

/** The bus of a hub; see `eventBus`. */
export class HubEventBus {
  readonly #hub: Hub;
  readonly #listeners = new Set<(event: ServerEvent) => void>();
  readonly #writer: SinkWriter = {
    write: (method) => {
      const event = EVENTS[method];
      if (event !== undefined) this.#tell(event);
    },
    failed: () => (this.#sink = undefined),
    finished: () => (this.#sink = undefined),
  };
  #sink: number | undefined;

  /** @internal */
  constructor(hub: Hub) {
    this.#hub = hub;
  }

  /** Tells everybody, here and in other processes on the same store. */
  publish(event: ServerEvent): void {
    this.#hub.notify(changeOf(event));
    // What is updated others cannot be asked about by a list: who listens here hears it now.
    if (event.kind === "resource_updated") this.#tell(event);
  }

  /** Whoever listens hears what anybody publishes about lists, and what is published on this bus about resources. */
  subscribe(listener: (event: ServerEvent) => void): () => void {
    this.#listeners.add(listener);
    if (this.#sink === undefined) this.#attend();
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.#leave();
    };
  }

  #attend(): void {
    const desk = Desk.of(nativeOf(this.#hub));
    const lists = { listChanged: true };
    const server = JSON.stringify({ tools: lists, prompts: lists, resources: lists });
    const sink = desk.add(this.#writer, undefined);
    const listener = desk.outbox.attend(sink, new Profile("2025-11-25", server, "{}"));
    desk.outbox.open(listener);
    this.#sink = sink;
  }

  #leave(): void {
    const sink = this.#sink;
    this.#sink = undefined;
    if (sink !== undefined) Desk.of(nativeOf(this.#hub)).drop(sink);
  }

  #tell(event: ServerEvent): void {
    for (const listener of this.#listeners) {
      try {
        listener(event);
      } catch (error) {
        process.emitWarning(`tidings: a listener of the event bus threw: ${String(error)}`, { code: "TIDINGS_FANOUT" });
      }
    }
  }
}

/**
 * A bus for `createMcpHandler(factory, { bus: eventBus(hub) })`: what `handler.notify` says reaches the peers of both eras, here
 * and in other processes.
 *
 * Behind `durableFetch`, which serves `subscriptions/listen` from the hub, nobody needs to subscribe to it. Without that, the
 * SDK's own listeners hear of lists from everywhere, and of resources what is published on this very bus.
 */
export function eventBus(hub: Hub): HubEventBus {
  return new HubEventBus(hub);
}
