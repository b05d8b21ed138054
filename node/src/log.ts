/** Warnings and errors of the core, on their way to the host's logger. */
import { native } from "./native";

/** One line of the log. Holds no payload, secret or address. */
export interface LogRecord {
  readonly level: "warning" | "error";
  /** The module it comes from, such as `tidings.committer`. */
  readonly target: string;
  readonly message: string;
}

type Logger = (record: LogRecord) => void;

/** On stderr, for stdout belongs to the protocol of a stdio server. */
const toStderr: Logger = ({ level, target, message }) => {
  process.stderr.write(`${level} ${target}: ${message}\n`);
};

let logger: Logger = toStderr;

/** Where the log of this thread goes; without an argument, to stderr. */
export function setLogger(to: Logger = toStderr): void {
  logger = to;
}

/**
 * Logs what waits. A logger that throws does not fail what made the core log.
 *
 * @internal
 */
export function flushLog(): void {
  const { records, dropped } = native.takeLog();
  const lines: LogRecord[] =
    dropped > 0
      ? [{ level: "warning", target: "tidings", message: `${dropped} lines were dropped before the next` }, ...records]
      : records;
  for (const line of lines) {
    try {
      logger(line);
    } catch (error) {
      process.emitWarning(`tidings: the logger threw: ${String(error)}`);
    }
  }
}
