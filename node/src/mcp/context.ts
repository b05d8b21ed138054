/** What differs between the two SDKs in what a request handler is given. */
import type { Gate } from "./intercept";
import * as wire from "./wire";

export interface Notification {
  method: string;
  params?: Record<string, unknown>;
}
export type Notify = (notification: Notification, options?: object) => Promise<void>;

/** Who a request was authenticated as. */
export interface AuthInfo {
  readonly clientId: string;
  readonly extra?: Record<string, unknown>;
}

type Meta = Record<string, unknown>;
type Log = (level: string, data: unknown, logger?: string) => Promise<void>;

interface Context2 {
  sessionId?: string;
  mcpReq: {
    id: string | number;
    _meta?: Meta;
    envelope?: Meta;
    signal: AbortSignal;
    notify: Notify;
    log?: Log;
    inputResponses?: unknown;
    requestState?: () => unknown;
  };
  http?: { authInfo?: AuthInfo; req?: { headers: { get(name: string): string | null } } };
}
interface Context1 {
  sessionId?: string;
  requestId: string | number;
  _meta?: Meta;
  signal: AbortSignal;
  sendNotification: Notify;
  authInfo?: AuthInfo;
}
/** The second argument of a request handler: `ServerContext` of 2.x, `RequestHandlerExtra` of 1.x. */
export type Context = Context1 | Context2;

/** What a client answered to what a tool had asked for (2026-07-28, multi-round-trip). */
export interface Round {
  readonly inputResponses: Record<string, unknown>;
  readonly requestState: unknown;
}

/** The same for both. */
export interface Request {
  readonly id: string | number;
  readonly sessionId: string | undefined;
  /** Of the protocol of 2026-07-28, where leaving is cancelling. */
  readonly modern: boolean;
  /** What the client declared with this very request; sessions declare once, elsewhere. */
  readonly declared: unknown;
  /** The level that this very request asked its log messages for (2026-07-28). */
  readonly logLevel: string | undefined;
  /** What 2.x takes out of the parameters. */
  readonly inputResponses: unknown;
  readonly signal: AbortSignal;
  readonly authInfo: AuthInfo | undefined;
  /** A header of the request, over HTTP. */
  header(name: string): string | undefined;
  /** On the request's own stream. */
  notify: Notify;
  /** The context with the gate before what the handler sends. */
  gated(gate: Gate): Context;
  /** What to give to the handler instead, which finds a progress token whether or not the client gave one. */
  with(instead: Instead): Context;
}

/** What a handler gets in place of the SDK's own. */
export interface Instead {
  /** Stops the handler. */
  readonly signal: AbortSignal;
  /** Where its notifications go. */
  readonly notify: Notify;
  /** Hears of a log message that the SDK itself sends or, by its level, does not. */
  readonly record: (notification: Notification) => void;
  readonly round?: Round | undefined;
}

/** Stands in for the progress token of a client that gave none. What is said under it is recorded and sent to nobody. */
export const RECORDED_TOKEN = "io.tidings/recorded";

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** The context with another `_meta`, where it has one. */
export function withMeta(context: Context, changed: (meta: Meta) => Meta): Context {
  if ("mcpReq" in context) {
    const { mcpReq } = context;
    return mcpReq._meta === undefined ? context : { ...context, mcpReq: { ...mcpReq, _meta: changed(mcpReq._meta) } };
  }
  return context._meta === undefined ? context : { ...context, _meta: changed(context._meta) };
}

export function requestOf(context: Context): Request {
  if ("mcpReq" in context) {
    const { mcpReq, sessionId, http } = context;
    return {
      id: mcpReq.id,
      sessionId,
      modern: mcpReq.envelope !== undefined,
      declared: mcpReq.envelope?.[wire.CLIENT_CAPABILITIES],
      logLevel: text(mcpReq.envelope?.[wire.LOG_LEVEL]),
      inputResponses: mcpReq.inputResponses,
      signal: mcpReq.signal,
      authInfo: http?.authInfo,
      header: (name) => http?.req?.headers.get(name) ?? undefined,
      notify: mcpReq.notify,
      gated: (gate) => {
        const gated: Notify = async (notification, options) => {
          const passed = gate.pass({ notification, options: { ...options, relatedRequestId: mcpReq.id } });
          if (passed !== undefined) await mcpReq.notify(passed.notification, options);
        };
        return { ...context, mcpReq: { ...mcpReq, notify: gated } };
      },
      with: ({ signal, notify, record, round }) => {
        const log: Log = async (level, data, logger) => {
          record({ method: "notifications/message", params: { level, data, ...(logger === undefined ? {} : { logger }) } });
          if (!mcpReq.signal.aborted) await mcpReq.log?.(level, data, logger);
        };
        const rounds = round && { inputResponses: round.inputResponses, requestState: () => round.requestState };
        const given = { ...mcpReq, _meta: { progressToken: RECORDED_TOKEN, ...mcpReq._meta }, signal, notify, log, ...rounds };
        return { ...context, mcpReq: given };
      },
    };
  }
  const { requestId: id, sessionId, signal, authInfo, sendNotification, _meta } = context;
  return {
    id,
    sessionId,
    modern: false,
    declared: undefined,
    logLevel: undefined,
    inputResponses: undefined,
    signal,
    authInfo,
    header: () => undefined,
    notify: sendNotification,
    // 1.x sends it by its server's own method, which is gated.
    gated: () => context,
    with: ({ signal, notify }) => ({
      ...context,
      _meta: { progressToken: RECORDED_TOKEN, ..._meta },
      signal,
      sendNotification: notify,
    }),
  };
}
