/** What differs between the two SDKs in what a request handler is given. */

export interface Notification {
  method: string;
  params?: Record<string, unknown>;
}
type Notify = (notification: Notification) => Promise<void>;

/** Who a request was authenticated as. */
export interface AuthInfo {
  readonly clientId: string;
  readonly extra?: Record<string, unknown>;
}

interface Context2 {
  sessionId?: string;
  mcpReq: { id: string | number; envelope?: unknown; signal: AbortSignal; notify: Notify };
  http?: { authInfo?: AuthInfo };
}
interface Context1 {
  sessionId?: string;
  requestId: string | number;
  signal: AbortSignal;
  sendNotification: Notify;
  authInfo?: AuthInfo;
}
/** The second argument of a request handler: `ServerContext` of 2.x, `RequestHandlerExtra` of 1.x. */
export type Context = Context1 | Context2;

/** The same for both. */
export interface Request {
  readonly id: string | number;
  readonly sessionId: string | undefined;
  /** Of the protocol of 2026-07-28, where leaving is cancelling. */
  readonly modern: boolean;
  readonly signal: AbortSignal;
  readonly authInfo: AuthInfo | undefined;
  /** On the request's own stream. */
  notify: Notify;
  /** What to give to the handler instead: it is stopped by `signal`, and its notifications go through `notify`. */
  with(signal: AbortSignal, notify: Notify): Context;
}

export function requestOf(context: Context): Request {
  if ("mcpReq" in context) {
    const { mcpReq, sessionId, http } = context;
    return {
      id: mcpReq.id,
      sessionId,
      modern: mcpReq.envelope !== undefined,
      signal: mcpReq.signal,
      authInfo: http?.authInfo,
      notify: mcpReq.notify,
      with: (signal, notify) => ({ ...context, mcpReq: { ...mcpReq, signal, notify } }),
    };
  }
  const { requestId: id, sessionId, signal, authInfo, sendNotification } = context;
  const request = { id, sessionId, modern: false, signal, authInfo, notify: sendNotification };
  return { ...request, with: (signal, notify) => ({ ...context, signal, sendNotification: notify }) };
}
