/** Names, codes and texts of our own that go over the wire (DESIGN section 8), and errors made of them. */
import type { Ended } from "../call";

export const INVALID_REQUEST = -32600;
export const INVALID_PARAMS = -32602;
export const INTERNAL_ERROR = -32603;

/** The key in the parameters of `tools/call` and in the capabilities (SEP-992). */
export const CONFIG = "notificationConfig";
/**
 * The same capability under the key that the protocol keeps for extensions. The same key in the `_meta` of a `tools/call` may hold
 * the config, for clients whose SDK has no room for it in the parameters.
 */
export const EXTENSION = "io.tidings/notification-config";
export const ACKNOWLEDGED_METHOD = "notifications/config/acknowledged";
export const ACKNOWLEDGED_META = "io.tidings/acknowledged";
export const UNDELIVERED_META = "io.tidings/undelivered";
/** A frame of a `message` route. */
export const TRIGGERED_METHOD = "notifications/io.tidings/triggered";

export const METHOD_NOT_FOUND = -32601;
export const MISSING_CAPABILITY = -32021;

/** Requests and members of 2026-07-28. */
export const LISTEN = "subscriptions/listen";
export const DISCOVER = "server/discover";
export const PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion";
export const CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
export const LOG_LEVEL = "io.modelcontextprotocol/logLevel";
export const SERVER_INFO = "io.modelcontextprotocol/serverInfo";
export const SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId";

/** The Tasks extension (SEP-2663). */
export const TASKS = "io.modelcontextprotocol/tasks";

/** Whether a client's capabilities declare the Tasks extension. */
export function declaresTasks(capabilities: unknown): boolean {
  const extensions = (capabilities as { extensions?: unknown } | undefined)?.extensions;
  return typeof extensions === "object" && extensions !== null && TASKS in extensions;
}

/** What a handler throws for the SDK to answer with. */
export class JsonRpcError extends Error {
  override name = "JsonRpcError";

  constructor(
    readonly code: number,
    message: string,
    readonly data?: unknown,
  ) {
    super(message);
  }

  /** The `error` of a JSON-RPC response. */
  toJSON(): { code: number; message: string; data?: unknown } {
    const { code, message, data } = this;
    return data === undefined ? { code, message } : { code, message, data };
  }
}

/** What an SDK answers for something a tool's handler threw. */
export function errorOf(thrown: unknown): { code: number; message: string; data?: unknown } {
  const { code, message, data } = (thrown ?? {}) as { code?: unknown; message?: unknown; data?: unknown };
  return {
    code: Number.isSafeInteger(code) ? (code as number) : INTERNAL_ERROR,
    message: typeof message === "string" ? message : "Internal error",
    ...(data === undefined ? {} : { data }),
  };
}

/** Answered to a request that needs the Tasks extension and did not declare it. */
export function undeclared(): JsonRpcError {
  const message = `The client did not declare the extension '${TASKS}'`;
  return new JsonRpcError(MISSING_CAPABILITY, message, { requiredCapabilities: { extensions: { [TASKS]: {} } } });
}

/** -32602 with `data` as the core words it: the faults and how many there were; nothing ran. */
export function configRejected(data: unknown): JsonRpcError {
  return new JsonRpcError(INVALID_PARAMS, "notificationConfig was rejected and nothing ran; data.faults says why", data);
}

/** Answered where the operator's policy did not come to a decision: nothing is sent anywhere on a guess. */
export function policyFailed(): JsonRpcError {
  return new JsonRpcError(INTERNAL_ERROR, "notificationConfig could not be judged and nothing ran", {
    reason: "policy_failed",
    retryable: true,
  });
}

/** Answered for a tool that was stopped because its time was over. */
export function timedOut(timeoutMs: number): JsonRpcError {
  return new JsonRpcError(INTERNAL_ERROR, "The tool call timed out", { reason: "timeout", timeoutMs });
}

/** Tells the operator of what the client is not told. */
export function warn(what: string, error: unknown): void {
  process.emitWarning(`tidings: ${what}: ${String(error)}`, { code: "TIDINGS_CALL" });
}

export function configNotStored(): JsonRpcError {
  return new JsonRpcError(INTERNAL_ERROR, "notificationConfig could not be stored and nothing ran; try again later", {
    reason: "unavailable",
    retryable: true,
  });
}

/** Answered for a call that somebody else ended while its tool ran: its timer, its client, or another process. */
export function endedElsewhere({ outcome, reason }: Ended, callId: string | undefined): JsonRpcError {
  if (outcome === "timeout") {
    return new JsonRpcError(INTERNAL_ERROR, "The tool call timed out", { reason: "timeout", callId });
  }
  return new JsonRpcError(INTERNAL_ERROR, `The tool call ended as ${outcome}`, { reason: reason ?? outcome, callId });
}
