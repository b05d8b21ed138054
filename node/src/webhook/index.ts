/**
 * Standard Webhooks on the receiving side.
 *
 * @packageDocumentation
 */
export type { Answer, FetchHandler, Listener } from "./http";
export { Incoming, Receiver, ReceiverDocument, type ReceiverOptions, WELL_KNOWN } from "./receiver";
export { type Remembers, Seen, type SeenOptions, StoredSeen } from "./seen";
export { DecryptionKeys, type HeadersLike, type PrivateKeyLike, Webhook } from "./webhook";
