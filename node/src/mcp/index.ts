/**
 * Tidings in the TypeScript MCP SDKs.
 *
 * @packageDocumentation
 */
export { eventStore, type SdkEventStore, SessionEventStore, type SessionTransport } from "./event-store";
export { attach, type AttachOptions, notify } from "./attach";
export { type FastMCP, type FastMCPSession, instrument, type InstrumentOptions } from "./fastmcp";
export { currentCall, type ToolCall } from "./current";
export type { Allow, Decision, DefaultRoutes, Deny, OwnRoute, Policy, PolicyRequest, Rewrite } from "./routing";
export type { TaskMode, TasksOptions } from "./tasks";
export { eventBus, HubEventBus, type ServerEvent } from "./bus";
export {
  durableFetch,
  type DurableFetch,
  type DurableFetchOptions,
  durableFront,
  type DurableFront,
  type FetchHandler,
  type FetchOptions,
  type FrontOptions,
} from "./front";
export {
  type ConnectionTransport,
  type DurableConnection,
  durableTransport,
  type DurableTransportOptions,
} from "./listen-stdio";
export type { NodeRequest } from "./node-http";
export type { AnyServer, SdkServer } from "./intercept";
export { SharedEventStore, sharedEventStore } from "./shared-store";
export { TaskMessageQueue } from "./task-queue";
export { type SdkTask, TaskStore, type TaskStoreOptions } from "./task-store";
