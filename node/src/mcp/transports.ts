/**
 * What the adapter has to know of the SDKs' transports and is not public in them: `_streamMapping`, `_requestToStreamMapping`,
 * `_eventStore`, `_enableJsonResponse` and `_onsessionclosed`, in the transport that the one for Node.js wraps,
 * `_webStandardTransport`; `_sse` and `_responseMode` of the one for a single request; `_stdin` of the one over stdio; `_wire` and
 * `_outboundIntercept` of the channel that `serveStdio` gives to its servers. Each is looked for and may be absent.
 */
import { setTimeout as sleep } from "node:timers/promises";

import type { SdkEventStore } from "./event-store";

/** A transport of either SDK, as far as the adapter needs it. */
export interface Transport {
  readonly sessionId?: string | undefined;
  onclose?: (() => void) | undefined;
  send(message: any, options?: any): Promise<void>;
  closeStandaloneSSEStream?(): void;
}

interface Controller {
  readonly desiredSize: number | null;
}

interface Stream {
  readonly controller?: Controller;
  cleanup?(): void;
}

interface Inside {
  _streamMapping?: Map<string, Stream>;
  _requestToStreamMapping?: Map<string | number, string>;
  _sse?: { readonly controller?: Controller };
  _enableJsonResponse?: boolean;
  _responseMode?: string;
  _eventStore?: SdkEventStore;
  _onsessionclosed?: (sessionId: string) => unknown;
  _webStandardTransport?: Inside;
}

interface Channel {
  readonly _wire?: Channel;
  readonly _outboundIntercept?: unknown;
  readonly _stdin?: unknown;
}

/** The id of a session's own stream, which no request ends. */
export const GET_STREAM = "_GET_stream";

/** Messages that may wait for a client that does not read. */
const MAX_BACKLOG = 256;
/** Between two looks whether a client has read. */
const LOOK_MS = 20;

function inside(transport: object): Inside {
  const outer = transport as Inside;
  return outer._webStandardTransport ?? outer;
}

/** Whether it is one over HTTP, where what belongs to no request needs a stream of its own. */
export function overHttp(transport: object): boolean {
  return inside(transport)._streamMapping instanceof Map;
}

/** The connection itself, where `serveStdio` gives its server a channel over it. */
export function connectionOf(transport: object): object {
  return (transport as Channel)._wire ?? transport;
}

/** Whether it is a channel whose listeners (2026-07-28) `serveStdio` has, and not the server. */
export function hasListeners(transport: object): boolean {
  return (transport as Channel)._outboundIntercept !== undefined;
}

/** Whether it is this process's standard input and output. */
export function overStdio(transport: object): boolean {
  // A wire may wrap another.
  let inner: Channel = transport;
  while (inner._wire !== undefined) inner = inner._wire;
  return inner._stdin === process.stdin;
}

/** The event store of a session's transport. */
export function storeOf(transport: object): SdkEventStore | undefined {
  return inside(transport)._eventStore;
}

/** Gives a session's transport an event store, before its first message. */
export function useStore(transport: object, store: SdkEventStore): void {
  inside(transport)._eventStore = store;
}

/** Whether a client listens to the session's own stream. */
export function listensOn(transport: object): boolean {
  return inside(transport)._streamMapping?.has(GET_STREAM) ?? true;
}

/** Whether the session's own stream has a client that does not read it. The SDKs buffer for it without bound. */
export function lags(transport: object): boolean {
  return isFull(inside(transport)._streamMapping?.get(GET_STREAM)?.controller);
}

function isFull(controller: Controller | undefined): boolean {
  const size = controller?.desiredSize;
  return typeof size === "number" && size < -MAX_BACKLOG;
}

/** Waits until the client of a request has read what was sent to it, but for a little; or until it is gone. */
export async function drained(transport: object, requestId: string | number, signal: AbortSignal): Promise<void> {
  const { _sse, _streamMapping, _requestToStreamMapping } = inside(transport);
  const stream = _requestToStreamMapping?.get(requestId);
  const controller = _sse?.controller ?? (stream === undefined ? undefined : _streamMapping?.get(stream)?.controller);
  while (!signal.aborted && isFull(controller)) await sleep(LOOK_MS);
}

/** Whether answers are single JSON texts, beside which nothing can be sent. */
export function answersInJson(transport: object): boolean {
  const { _enableJsonResponse, _responseMode } = inside(transport);
  return _enableJsonResponse === true || _responseMode === "json";
}

/** Ends the connection of a stream that was told to its end. 2.x does it; 1.x leaves it open for ever, without a public way. */
export function closeStream(transport: object, streamId: string): void {
  inside(transport)._streamMapping?.get(streamId)?.cleanup?.();
}

/** Calls back once, when the transport closes. */
export function onClose(transport: Transport, gone: () => void): void {
  const before = transport.onclose;
  let told = false;
  transport.onclose = () => {
    try {
      before?.();
    } finally {
      if (!told) {
        told = true;
        gone();
      }
    }
  };
}

/** Calls back when the client has ended its session (DELETE), before the transport closes. */
export function onDelete(transport: object, gone: () => void): void {
  const own = inside(transport);
  if (!(own._streamMapping instanceof Map)) return;
  const before = own._onsessionclosed;
  own._onsessionclosed = (sessionId) => {
    gone();
    return before?.(sessionId);
  };
}
