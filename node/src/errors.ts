/** The errors: one base, and a class for each row of the one error table that callers tell apart. */

/** The base of every error of this library. Messages hold no payload, secret or address. */
export class TidingsError extends Error {
  override name = "TidingsError";
  /** What went wrong, as a name that never changes; the same in every language. */
  readonly code: string;
  /** Whether the same call may succeed later. */
  readonly retryable: boolean;

  constructor(message: string, code = "internal", retryable = false) {
    super(message);
    this.code = code;
    this.retryable = retryable;
  }
}

/** One rule that a notificationConfig breaks. */
export interface Fault {
  /** JSON Pointer (RFC 6901) into the config. */
  readonly path: string;
  /** The rule's stable name. */
  readonly rule: string;
  /** What is wrong, for people. */
  readonly message: string;
}

/** A notificationConfig breaks rules; nothing of it was accepted. */
export class ConfigError extends TidingsError {
  override name = "ConfigError";
  /** The first broken rules, at most 20. */
  readonly faults: readonly Fault[];
  /** How many there are. */
  readonly total: number;
  /** The `data` of the JSON-RPC error (-32602). */
  readonly data: { readonly faults: readonly Fault[]; readonly total: number };

  constructor(message: string, data: { faults: Fault[]; total: number }) {
    super(message, "invalid_config");
    this.faults = data.faults;
    this.total = data.total;
    this.data = data;
  }
}

/** An argument breaks a rule; the message names both. */
export class InvalidArgumentError extends TidingsError {
  override name = "InvalidArgumentError";
  constructor(message: string) {
    super(message, "invalid_argument");
  }
}

/** No such stream in this scope, or no cursor of ours. Malformed, unknown and foreign ones look the same. */
export class CursorError extends TidingsError {
  override name = "CursorError";
  constructor(message: string, code: "unknown_cursor" | "ahead" = "unknown_cursor") {
    super(message, code);
  }
}

/** `after` lies beyond the newest event. */
export class AheadError extends CursorError {
  override name = "AheadError";
  constructor(message: string) {
    super(message, "ahead");
  }
}

/** The stream, tail, call or hub is closed. */
export class ClosedError extends TidingsError {
  override name = "ClosedError";
  constructor(message: string) {
    super(message, "closed");
  }
}

/** Another writer has claimed the stream. */
export class FencedError extends TidingsError {
  override name = "FencedError";
  constructor(message: string) {
    super(message, "fenced");
  }
}

/** The call has ended already. */
export class EndedError extends TidingsError {
  override name = "EndedError";
  constructor(message: string) {
    super(message, "ended");
  }
}

/** More is buffered than may be; `await writer.flush()` and try again. */
export class CongestedError extends TidingsError {
  override name = "CongestedError";
  constructor(message: string) {
    super(message, "congested", true);
  }
}

/** Something is larger than may be. */
export class TooLargeError extends TidingsError {
  override name = "TooLargeError";
  constructor(message: string) {
    super(message, "too_large");
  }
}

/** The store cannot do its work now. */
export class UnavailableError extends TidingsError {
  override name = "UnavailableError";
  constructor(message: string) {
    super(message, "unavailable", true);
  }
}

/** The store can never do its work like this: damaged, too new, on a network file system, sealed with another key. */
export class UnsupportedStoreError extends TidingsError {
  override name = "UnsupportedStoreError";
  constructor(message: string) {
    super(message, "unsupported");
  }
}

/** The object belongs to the process that forked this one. */
export class ForkedError extends TidingsError {
  override name = "ForkedError";
  constructor(message: string) {
    super(message, "forked");
  }
}

/** It did not end in time. */
export class TimedOutError extends TidingsError {
  override name = "TimedOutError";
  constructor(message: string) {
    super(message, "timeout", true);
  }
}

/** A defect of this library. */
export class InternalError extends TidingsError {
  override name = "InternalError";
  constructor(message: string) {
    super(message, "internal");
  }
}

/** A received webhook is not to be trusted: `code` says why, such as `mismatch` or `too_old`. */
export class WebhookError extends TidingsError {
  override name = "WebhookError";
}

const BY_CODE: Readonly<Record<string, new (message: string) => TidingsError>> = {
  invalid_argument: InvalidArgumentError,
  unknown_cursor: CursorError,
  ahead: AheadError,
  closed: ClosedError,
  fenced: FencedError,
  ended: EndedError,
  congested: CongestedError,
  too_large: TooLargeError,
  unavailable: UnavailableError,
  unsupported: UnsupportedStoreError,
  forked: ForkedError,
  timeout: TimedOutError,
  internal: InternalError,
};

/**
 * The error for one of the extension module, which has a code and a message only.
 *
 * @internal
 */
export function toTidings(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof TidingsError) return error;
  const { code } = error as { code?: unknown };
  if (typeof code !== "string") return error;
  if (code.startsWith("webhook/")) return new WebhookError(error.message, code.slice("webhook/".length));
  if (code === "invalid_config") {
    // The faults follow the message, as one line of JSON.
    const cut = error.message.lastIndexOf("\n");
    const data = JSON.parse(error.message.slice(cut + 1)) as { faults: Fault[]; total: number };
    return new ConfigError(error.message.slice(0, cut), data);
  }
  const Kind = BY_CODE[code];
  // Node-API's own refusals, such as of an argument of the wrong type, stay what they are.
  return Kind === undefined ? wrongType(error, code) : new Kind(error.message);
}

function wrongType(error: Error, code: string): Error {
  return /^[A-Z][A-Za-z]+$/.test(code) ? new TypeError(error.message, { cause: error }) : error;
}

/**
 * Runs an entry of the extension module.
 *
 * @internal
 */
export function entry<T>(body: () => T): T {
  try {
    return body();
  } catch (error) {
    throw toTidings(error);
  }
}
