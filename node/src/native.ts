/**
 * The extension module: what `bindings/node` exports, by the same names and in the same order.
 *
 * @internal
 */
import { join } from "node:path";

import type { Delivery, Endpoint, Stats } from "./operations";

/** An operation that waits at this thread's port. */
export interface Pending {
  readonly token: number;
}
export type Told<T> = T | Pending;

export interface NativeGap {
  readonly reason: "evicted" | "regressed" | "lost" | "unknown";
  readonly earliestSeq?: number;
  readonly headSeq?: number;
  readonly cursor: string;
}
export interface NativeCursors {
  after(seq: number): string;
}
/** The arrays have one element for each event. */
export interface NativeBatch {
  readonly gap?: NativeGap;
  readonly seqs: Float64Array;
  readonly times: Float64Array;
  readonly types: string | string[];
  readonly payloads: (string | Uint8Array)[];
  readonly identities?: (string | null | undefined)[];
  readonly cursors: NativeCursors;
}
export interface NativePage {
  readonly batch: NativeBatch;
  readonly cursor: string;
  readonly headSeq?: number;
  readonly ended: boolean;
}
export interface NativeAppend {
  kind: string;
  durability: string;
  identity: [string, string][];
  close: boolean;
  key?: string;
}
export interface NativeExport {
  lines(): string[] | null;
}
export interface NativeStream {
  append(payloads: (string | Uint8Array)[], options: NativeAppend): Told<number>;
  export(after: string | number | null): NativeExport;
  claim(): Told<NativeWriter>;
  close(): Told<undefined>;
  read(after: string | number | null, limit: number): NativePage;
  tail(after: string | number | null): NativeTail;
}
export interface NativeWriter {
  readonly handle: number;
  readonly stream: string;
  cursor(): string;
  readonly congested: boolean;
  readonly closed: boolean;
  close(): void;
  flush(durability: string): Told<undefined>;
}
export interface NativeTail {
  readonly stream: string;
  cursor(): string;
  next(): Told<NativeBatch | null | undefined>;
  abandoned(): boolean;
  close(): void;
}
export interface NativeEnded {
  readonly outcome: "completed" | "failed" | "cancelled" | "timeout";
  readonly reason?: string;
  readonly ours: boolean;
  readonly committed: boolean;
  readonly undelivered?: string;
}
export interface NativeCall {
  readonly id: string;
  readonly acceptedRoutes: string[];
  readonly ignoredTriggers: string[];
  acknowledgement(): string;
  emit(kind: string, payload: string | Uint8Array): number;
  fire(name: string, payload: string | Uint8Array): number;
  becomeTask(ttlMs: number, bound: boolean): Told<boolean>;
  ask(requests: string | Uint8Array): Told<string>;
  disconnected(): void;
  detach(countedAs: string, calls: number, timeMs: number): boolean;
  complete(result: string | Uint8Array): Told<NativeEnded>;
  fail(error: string | Uint8Array | undefined, reason: string | undefined): Told<NativeEnded>;
  cancel(reason: string | undefined): Told<NativeEnded>;
  ended(): Told<NativeEnded>;
}
export interface NativeBegin {
  config?: string | Uint8Array;
  routeTypes: string[];
  principal: string;
  session?: string;
  peer?: string;
  open: string[];
  requestId: string;
  tool: string;
  timeoutMs?: number;
  taskTtlMs?: number;
  taskBound: boolean;
  traceparent?: string;
}
export interface NativeCheck {
  config: string | Uint8Array;
  routeTypes: string[];
  open: string[];
  peer: boolean;
}
export interface NativeTask {
  readonly status: "working" | "input_required" | "completed" | "failed" | "cancelled";
  readonly json: string;
  readonly scope: string;
  readonly name: string;
}
export interface NativeHub {
  open(): void;
  newWriter(scope: string, name: string): NativeWriter;
  resume(scope: string, cursor: string): NativeTail;
  stream(scope: string, name: string): NativeStream;
  beginCall(call: NativeBegin): Told<NativeCall>;
  checkConfig(check: NativeCheck): string[];
  task(id: string, asker: string): NativeTask | null;
  cancelTask(id: string, asker: string): Told<boolean>;
  answerTask(id: string, asker: string, responses: string | Uint8Array): Told<boolean>;
  cancelCall(id: string, asker: string): Told<boolean>;
  offers(offer: NativeOffer): boolean;
  outlet(offer: NativeOffer): NativeOutlet;
  outbox(): NativeOutbox;
  notify(kinds: string[], name: string | undefined, audience: string | undefined): NativeFanout;
  failedSinks(): NativeFailedSink[];
  deliveries(
    principal: string | undefined,
    callId: string | undefined,
    state: string | undefined,
    most: number,
  ): Delivery[];
  flush(durability: string): Told<undefined>;
  room(countedAs: string, calls: number): Room | null;
  stats(): Stats;
  close(timeoutMs: number): Told<boolean>;
  attempts(id: string): (string | null)[];
  deliveryBody(id: string): Uint8Array | null;
  sendAgain(id: string): string;
  purge(id: string | undefined, principal: string | undefined, state: string | undefined): number;
  endpoints(principal: string | undefined, most: number): Endpoint[];
  setEndpoint(key: string, enabled: boolean): void;
  setPaused(paused: boolean): void;
  drain(timeoutMs: number): Told<boolean>;
  prometheus(): string;
}
export interface NativeFanout {
  readonly told: number;
  readonly skipped: number;
  readonly failed: number;
}
export interface NativeFailedSink {
  readonly outbox: number;
  readonly sink: number;
}
export interface NativeProfile {
  readonly listens: boolean;
  honoured(filter: string): string;
}
export interface NativeOutboxTask {
  readonly sink: number;
  readonly listener: number;
  readonly method?: string;
  readonly params?: string;
}
export interface NativeOutbox {
  readonly number: number;
  readonly listeners: number;
  addSink(principal: string | undefined, deadlineMs: number | undefined): number;
  attend(sink: number, profile: NativeProfile): number;
  listen(sink: number, profile: NativeProfile, id: string, filter: string): number;
  open(listener: number): void;
  subscribe(listener: number, profile: NativeProfile, name: string): void;
  unsubscribe(listener: number, profile: NativeProfile, name: string): void;
  setReachable(sink: number, reachable: boolean): void;
  end(listener: number): void;
  endAll(): void;
  cancel(listener: number): boolean;
  dropSink(sink: number): number;
  take(max: number): NativeOutboxTask[];
  written(sink: number, frames: number): boolean;
  broke(sink: number): number;
  ready(): Told<undefined>;
}
export interface NativeOffer {
  routeType: string;
  name?: string;
  peer?: string;
  limit?: number;
  timeoutMs?: number;
}
export interface NativeOutlet {
  next(): Told<NativeHostDelivery | null>;
  close(): void;
}
export interface NativeHostDelivery {
  facts(): {
    readonly id: string;
    readonly eventId: string;
    readonly callId?: string;
    readonly principal: string;
    readonly trigger: string;
    readonly route: string;
    readonly routeType: string;
    readonly endpoint?: string;
    readonly signal?: string;
    readonly attempt: number;
    readonly body: Uint8Array;
  };
  frame(): Uint8Array;
  confirm(): boolean;
  refuse(why: string): boolean;
}
export interface NativeDoorbell {
  ring(signal: string): "rung" | "unreachable" | "not_ready" | "refused" | "failed";
}
export interface NativeProgress {
  report(
    progress: number,
    total: number | undefined,
    message: string | undefined,
    nowMs: number,
  ): { readonly params?: string; readonly why?: string };
  end(): void;
}
/** Room for one call that goes on without its request. */
export interface Room {
  /** Gives it back; doing so again changes nothing. */
  release(): void;
}

export interface NativeDecryptionKeys {
  decrypt(body: Uint8Array): Uint8Array;
}

export interface NativeWebhook {
  verify(body: Uint8Array, headers: [string, string][], nowSeconds: number, toleranceSeconds: number): void;
  sign(id: string, timestampSeconds: number, body: Uint8Array): [string, string][];
}
export interface Native {
  errorTable(): { code: string; retryable: boolean }[];
  version(): string;
  openPort(wake: () => void): void;
  drain(): number[];
  take(token: number): unknown;
  cancel(token: number): void;
  append(
    handle: number,
    kind: string,
    payload: string | Uint8Array,
    flags: number,
    identity: [string, string][] | undefined,
  ): string;
  checkEvent(kind: string, payload: string | Uint8Array): void;
  checkFire(name: string, payload: string | Uint8Array): void;
  closeAll(timeoutMs: number): boolean;
  logWaits(): boolean;
  takeLog(): { records: { level: "warning" | "error"; target: string; message: string }[]; dropped: number };
  challengeAnswer(body: Uint8Array): string | null;
  receiverDocument(paths: string[]): string;
  doorbellOfStdio(asRoot: boolean): NativeDoorbell | string;
  logPasses(perRequest: boolean, asked: string | undefined, level: string): boolean;
  Hub: new (url: string, settings: object) => NativeHub;
  Profile: new (version: string, server: string, client: string) => NativeProfile;
  Progress: new (token: string | undefined, minIntervalMs: number) => NativeProgress;
  DecryptionKeys: new (keys: string[]) => NativeDecryptionKeys;
  Webhook: new (secrets: string[]) => NativeWebhook;
}

const { missing, platformTriple } = require("../scripts/platform.cjs") as {
  missing(triple: string): string;
  platformTriple(): string;
};

function load(): Native {
  const triple = platformTriple();
  const tried: unknown[] = [];
  // Beside the package when it was built here, else the platform's own package, an optional dependency of this one.
  for (const place of [join(__dirname, "..", "native", `tidings.${triple}.node`), `@tidings/${triple}`]) {
    try {
      return require(place) as Native;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "MODULE_NOT_FOUND") throw error;
      tried.push(error);
    }
  }
  throw new Error(missing(triple), { cause: tried });
}

export const native: Native = load();
