/**
 * Tidings in the TypeScript MCP SDKs.
 *
 * @packageDocumentation
 */
export { eventStore, type SdkEventStore, SessionEventStore, type SessionTransport } from "./event-store";
export { type AnyServer, attach, type AttachOptions } from "./attach";
