/** Standard Webhooks on the receiving side. */
import { entry, InvalidArgumentError } from "../errors";
import { native, type NativeDecryptionKeys, type NativeWebhook } from "../native";

/** Headers as node:http, Express and fetch have them. */
export type HeadersLike = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

const NAMES = ["webhook-id", "webhook-timestamp", "webhook-signature"];

/** Checks webhooks by their sender's secrets (`whsec_…`); two of them while one replaces the other. */
export class Webhook {
  readonly #native: NativeWebhook;

  /** @throws InvalidArgumentError for a secret that is malformed */
  constructor(...secrets: string[]) {
    this.#native = entry(() => new native.Webhook(secrets));
  }

  /**
   * Checks that a webhook came from a holder of a secret, unchanged, and at most `toleranceMs` ago (or ahead).
   *
   * `body` is the raw request body: JSON that was parsed and written again has other bytes. A good signature does not make
   * it new: remember the `webhook-id`s you have seen.
   *
   * @throws WebhookError, whose `code` names the rule
   */
  verify(
    body: Uint8Array | string,
    headers: HeadersLike,
    options: { toleranceMs?: number; now?: Date | number } = {},
  ): void {
    const { toleranceMs = 300_000, now = Date.now() } = options;
    if (!(toleranceMs >= 0 && Number.isFinite(toleranceMs))) {
      throw new InvalidArgumentError("toleranceMs: must be a number of milliseconds, 0 or more");
    }
    const seconds = Math.floor(Number(now) / 1_000);
    entry(() => this.#native.verify(bytes(body), pairs(headers), seconds, Math.floor(toleranceMs / 1_000)));
  }

  /** Like `verify`, for a fetch-style `Request`; resolves to its body's bytes. */
  async verifyRequest(request: Request, options: { toleranceMs?: number; now?: Date | number } = {}): Promise<Uint8Array> {
    const body = new Uint8Array(await request.arrayBuffer());
    this.verify(body, request.headers, options);
    return body;
  }

  /** The headers of a webhook with this body, signed with every secret; for tests of a receiver. */
  sign(body: Uint8Array | string, options: { id: string; timestamp?: Date | number }): Record<string, string> {
    const seconds = Math.floor(Number(options.timestamp ?? Date.now()) / 1_000);
    return Object.fromEntries(entry(() => this.#native.sign(options.id, seconds, bytes(body))));
  }
}

/** A private key: a JWK on P-256 or X25519, as JSON text or as the object of it. */
export type PrivateKeyLike = string | Readonly<Record<string, unknown>>;

/**
 * A receiver's private keys, for bodies that are encrypted to it (`publicKey` of a route); several while one replaces the
 * other.
 */
export class DecryptionKeys {
  readonly #native: NativeDecryptionKeys;

  /** @throws InvalidArgumentError for a key that is none; the message holds nothing of it */
  constructor(...keys: PrivateKeyLike[]) {
    const texts = keys.map((key) => (typeof key === "string" ? key : JSON.stringify(key)));
    this.#native = entry(() => new native.DecryptionKeys(texts));
  }

  /**
   * What was encrypted to one of these keys: JWE in its compact form, ECDH-ES with A256GCM. Verify the body first: the
   * signature is over what travels.
   *
   * @throws WebhookError, whose `code` names the rule
   */
  decrypt(body: Uint8Array | string): Uint8Array {
    return entry(() => this.#native.decrypt(bytes(body)));
  }
}

/** @internal */
export function bytes(body: Uint8Array | string): Uint8Array {
  return typeof body === "string" ? Buffer.from(body, "utf8") : body;
}

/**
 * The three headers that count, every occurrence of them: a repeated one is the core's to refuse.
 *
 * @internal
 */
export function pairs(headers: HeadersLike): [string, string][] {
  const all: Iterable<[string, string | readonly string[] | undefined]> =
    headers instanceof Headers ? headers.entries() : Object.entries(headers);
  const found: [string, string][] = [];
  for (const [name, value] of all) {
    if (value === undefined || !NAMES.includes(name.toLowerCase())) continue;
    for (const one of typeof value === "string" ? [value] : value) found.push([name, one]);
  }
  return found;
}
