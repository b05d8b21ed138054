/**
 * Tidings: MCP servers that keep their word to clients that have gone away.
 *
 * @packageDocumentation
 */
export { Call, type Ended } from "./call";
export {
  AheadError,
  ClosedError,
  ConfigError,
  CongestedError,
  CursorError,
  EndedError,
  type Fault,
  FencedError,
  ForkedError,
  InternalError,
  InvalidArgumentError,
  TidingsError,
  TimedOutError,
  TooLargeError,
  UnavailableError,
  UnsupportedStoreError,
  WebhookError,
} from "./errors";
export { Event, Gap, type Identity, type Page } from "./event";
export { type Change, type FailedSink, type Fanout, type Kind } from "./fanout";
export type { Room } from "./native";
export { type BeginCall, Hub, type HubOptions, type Retention, type Task } from "./hub";
export { type LogRecord, setLogger } from "./log";
export type { Delivery, DeliveryState, Endpoint, Stats } from "./operations";
export { type Notice, Outbox, Profile } from "./outbox";
export { type DeliveryHandler, type HostDelivery, type Registration, type RouteOptions } from "./routes";
export { type After, type AppendOptions, type Durability, type Payload, Stream, Writer } from "./stream";
export { Tail } from "./tail";
export { DecryptionKeys, type HeadersLike, type PrivateKeyLike, Webhook } from "./webhook/webhook";
