/**
 * Waiting. Each JavaScript thread has one port, where the operations of the core that cannot be done at once are parked.
 * Threads of the core only put a number on a list and wake the loop once; operations go on in this thread, when the port is
 * drained. What is done at once touches none of it.
 *
 * @internal
 */
import { toTidings } from "./errors";
import { flushLog } from "./log";
import { native, type Pending, type Told } from "./native";

interface Waiter {
  resolve(value: unknown): void;
  reject(reason: unknown): void;
  /** Counts towards what keeps the process alive. */
  readonly holds: boolean;
}

const waiters = new Map<number, Waiter>();
let holding = 0;
/** Keeps the loop alive while somebody awaits something: the port's own wake does not. */
let hold: NodeJS.Timeout | undefined;
let opened = false;

function open(): void {
  native.openPort(drain);
  opened = true;
}

function drain(): void {
  for (const token of native.drain()) {
    const waiter = waiters.get(token);
    if (waiter === undefined) continue;
    forget(token, waiter);
    try {
      waiter.resolve(native.take(token));
    } catch (error) {
      waiter.reject(toTidings(error));
    }
  }
  if (native.logWaits()) flushLog();
}

function forget(token: number, waiter: Waiter): void {
  waiters.delete(token);
  if (waiter.holds && --holding === 0) hold?.unref();
}

export interface WaitOptions {
  /** Ends the wait; what others rely on goes on. */
  readonly signal?: AbortSignal | undefined;
  /** A wait in the background, which does not keep the process alive. */
  readonly background?: boolean;
}

/** Opens the port of this thread, before anything may have to wait at it. */
export function attend(): void {
  if (!opened) open();
}

/** The value of an operation: at once, or when it is done. */
export function wait<T>(begin: () => Told<T>, options: WaitOptions = {}): Promise<T> {
  const { signal, background = false } = options;
  attend();
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    let told: Told<T>;
    try {
      told = begin();
    } catch (error) {
      return reject(toTidings(error));
    }
    if (!isPending(told)) return resolve(told);
    park(told.token, { resolve: resolve as (value: unknown) => void, reject, holds: !background }, signal);
  });
}

function park(token: number, waiter: Waiter, signal: AbortSignal | undefined): void {
  const watched = signal === undefined ? waiter : watch(token, waiter, signal);
  waiters.set(token, watched);
  if (watched.holds && holding++ === 0) {
    hold ??= setInterval(() => {}, 0x7fff_ffff);
    hold.ref();
  }
}

function watch(token: number, waiter: Waiter, signal: AbortSignal): Waiter {
  const abort = (): void => {
    forget(token, watched);
    native.cancel(token);
    waiter.reject(signal.reason);
  };
  signal.addEventListener("abort", abort, { once: true });
  const settle =
    (how: (value: unknown) => void) =>
    (value: unknown): void => {
      signal.removeEventListener("abort", abort);
      how(value);
    };
  const watched = { resolve: settle(waiter.resolve), reject: settle(waiter.reject), holds: waiter.holds };
  return watched;
}

function isPending(value: unknown): value is Pending {
  return typeof value === "object" && value !== null && "token" in value;
}
