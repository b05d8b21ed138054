/** The receiving side of webhooks, ready to be mounted: verified, each one handled once, challenges answered. */
import type { IncomingMessage, ServerResponse } from "node:http";

import { InvalidArgumentError, WebhookError } from "../errors";
import { native } from "../native";
import { type Answer, answer, bodyOf, bodyOfFetch, type FetchHandler, type Listener, respond, toResponse } from "./http";
import { type Remembers, Seen } from "./seen";
import { bytes, DecryptionKeys, type HeadersLike, pairs, type PrivateKeyLike, Webhook } from "./webhook";

/** Where a host says which of its paths receive webhooks (SEP-3415, a draft). */
export const WELL_KNOWN = "/.well-known/mcp-webhook-receiver.json";

const JSON_TYPE = { "content-type": "application/json" };

/** A webhook that came from a holder of a secret, unchanged, and that was not handled before. */
export class Incoming {
  constructor(
    /** The `webhook-id`: the same on every attempt and route of one firing. */
    readonly id: string,
    /** The body: the raw bytes, or what they were before they were encrypted, where the receiver has `keys`. */
    readonly body: Uint8Array,
  ) {}

  /** The body as text. */
  text(): string {
    return Buffer.from(this.body).toString("utf8");
  }

  /** The body as a value: `{eventId, name, timestamp, data, cursor?}`, or of a batch `{events: […]}`. */
  json(): any {
    return JSON.parse(this.text());
  }

  /** What is told of, in the order in which it fired: each one as `json` gives it where the route does not batch. */
  events(): any[] {
    const body = this.json();
    const together = typeof body === "object" && body !== null && !("eventId" in body) && Array.isArray(body.events);
    return together ? body.events : [body];
  }
}

export interface ReceiverOptions {
  /** The sender's secrets (`whsec_…`): two while one replaces the other. */
  readonly secrets: readonly string[];
  /** Gets each genuine webhook once. When it throws, the sender is answered 500 and tries again. */
  readonly handler: (incoming: Incoming) => unknown;
  /** Remembers what was handled: `new Seen()` in memory (default), or `new StoredSeen(hub)`. */
  readonly seen?: Remembers;
  /** How far the signature's time may be off (default: five minutes). */
  readonly toleranceMs?: number;
  /** Private keys for bodies that are encrypted to this receiver, see `DecryptionKeys`. */
  readonly keys?: readonly PrivateKeyLike[];
  /** How many bytes of a request are read (default 1 MiB); more are refused with 413. */
  readonly maxBody?: number;
}

/**
 * Receives the webhooks of a sender:
 *
 * ```ts
 * const receiver = new Receiver({ secrets: ["whsec_…"], handler: async (incoming) => { … } });
 * createServer(receiver.listener);               // node:http
 * app.post("/hook", receiver.listener);          // Express, before express.json()
 * export const POST = receiver.fetch;            // whatever has fetch-style requests
 * ```
 *
 * Other frameworks give `receive` the raw body and the headers, and answer what it says. A challenge (a signed request by
 * which a sender asks whether this URL wants its webhooks) is answered; an unsigned one, or somebody else's, is not.
 */
export class Receiver {
  readonly #webhook: Webhook;
  readonly #handler: (incoming: Incoming) => unknown;
  readonly #seen: Remembers;
  readonly #toleranceMs: number;
  readonly #maxBody: number;
  readonly #keys: DecryptionKeys | undefined;
  readonly #running = new Set<string>();
  /** For `createServer(…)`, and for a route of Express. */
  readonly listener: Listener;
  /** Answers a fetch-style request. */
  readonly fetch: FetchHandler;

  /** @throws InvalidArgumentError for a secret that is malformed */
  constructor(options: ReceiverOptions) {
    const { secrets, handler, seen = new Seen(), toleranceMs = 300_000, maxBody = 1 << 20, keys = [] } = options;
    if (typeof handler !== "function") throw new TypeError("handler: must be a function of one Incoming");
    if (!Array.isArray(secrets)) throw new TypeError("secrets: must be an array of strings");
    if (!(toleranceMs >= 0 && Number.isFinite(toleranceMs))) {
      throw new InvalidArgumentError("toleranceMs: must be a number of milliseconds, 0 or more");
    }
    this.#webhook = new Webhook(...(secrets as readonly string[]));
    this.#handler = handler;
    this.#seen = seen;
    this.#toleranceMs = toleranceMs;
    this.#maxBody = maxBody;
    this.#keys = keys.length > 0 ? new DecryptionKeys(...keys) : undefined;
    this.listener = (request, response, next) => void this.#listen(request, response, next);
    this.fetch = (request) => this.#fetch(request);
  }

  /** Handles one request; its answer is never more than the sender may know. Never rejects. */
  async receive(body: Uint8Array | string, headers: HeadersLike, options: { now?: Date | number } = {}): Promise<Answer> {
    const raw = bytes(body);
    try {
      this.#webhook.verify(raw, headers, { toleranceMs: this.#toleranceMs, ...options });
    } catch (error) {
      if (!(error instanceof WebhookError)) warn("a webhook could not be verified", error);
      return answer(401);
    }
    const challenge = native.challengeAnswer(raw);
    if (challenge != null) return answer(200, JSON_TYPE, challenge);
    // It was verified, so that there is one.
    const [, id] = pairs(headers).find(([name]) => name.toLowerCase() === "webhook-id")!;
    if (this.#running.has(id)) return answer(503, { "retry-after": "1" }); // its first attempt is still at work
    this.#running.add(id);
    try {
      if (!(await this.#seen.has(id))) {
        await this.#handler(new Incoming(id, this.#plain(raw)));
        await this.#seen.add(id);
      }
    } catch (error) {
      warn("the handler of a webhook failed; its sender tries again", error);
      return answer(500);
    } finally {
      this.#running.delete(id);
    }
    return answer(204);
  }

  /** Not by the content-type, which is not signed: JSON never begins as a JWE does. */
  #plain(body: Uint8Array): Uint8Array {
    const json = /^[\s]*[{[]/.test(Buffer.from(body.subarray(0, 64)).toString("latin1"));
    return this.#keys === undefined || json ? body : this.#keys.decrypt(body);
  }

  async #listen(request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void): Promise<void> {
    if (request.method !== "POST") return respond(response, answer(405, { allow: "POST" }));
    let body: Uint8Array | undefined;
    try {
      body = await bodyOf(request, this.#maxBody);
    } catch (error) {
      if (request.destroyed && !request.complete) return; // the sender left
      if (next !== undefined) return next(error);
      warn("a webhook could not be read", error);
      return respond(response, answer(500));
    }
    // What is not read of the request must not be taken for the next one.
    if (body === undefined) return respond(response, answer(413, { connection: "close" }));
    respond(response, await this.receive(body, request.headersDistinct));
  }

  async #fetch(request: Request): Promise<Response> {
    if (request.method !== "POST") return toResponse(answer(405, { allow: "POST" }));
    const body = await bodyOfFetch(request, this.#maxBody);
    return toResponse(body === undefined ? answer(413) : await this.receive(body, request.headers));
  }
}

/**
 * The document that says which paths of this host receive webhooks, to be served at `WELL_KNOWN`; with it a sender needs no
 * challenge. Paths are prefixes, and begin with a slash.
 *
 * ```ts
 * app.get(WELL_KNOWN, new ReceiverDocument(["/hooks/"]).listener);
 * ```
 */
export class ReceiverDocument {
  /** The document. */
  readonly text: string;
  readonly #maxAgeMs: number;
  /** For `createServer(…)`, and for a route of Express. */
  readonly listener: Listener;
  /** Answers a fetch-style request. */
  readonly fetch: FetchHandler;

  /**
   * @param options `maxAgeMs`: how long a sender may keep it (default: an hour)
   * @throws InvalidArgumentError for a path that begins with no slash
   */
  constructor(receivers: readonly string[], options: { readonly maxAgeMs?: number } = {}) {
    if (!Array.isArray(receivers)) throw new TypeError("receivers: must be an array of strings");
    if (receivers.length === 0 || !receivers.every((path) => typeof path === "string" && path.startsWith("/"))) {
      throw new InvalidArgumentError("receivers: each must be a path that begins with a slash");
    }
    const { maxAgeMs = 3_600_000 } = options;
    if (!(maxAgeMs >= 0 && Number.isFinite(maxAgeMs))) {
      throw new InvalidArgumentError("maxAgeMs: must be a number of milliseconds, 0 or more");
    }
    this.text = native.receiverDocument([...receivers] as string[]);
    this.#maxAgeMs = maxAgeMs;
    this.listener = (request, response) => respond(response, this.#answer(request.method));
    this.fetch = async (request) => toResponse(this.#answer(request.method));
  }

  #answer(method: string | undefined): Answer {
    if (method !== "GET" && method !== "HEAD") return answer(405, { allow: "GET, HEAD" });
    const age = Math.floor(this.#maxAgeMs / 1_000);
    return answer(200, { ...JSON_TYPE, "cache-control": `max-age=${age}` }, method === "HEAD" ? "" : this.text);
  }
}

function warn(what: string, error: unknown): void {
  process.emitWarning(`tidings: ${what}: ${String(error)}`, { code: "TIDINGS_RECEIVER" });
}
