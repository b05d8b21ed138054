/** Answers over node:http, which Express builds on, and over fetch-style requests. */
import type { IncomingMessage, ServerResponse } from "node:http";

/** What a sender is to be answered. */
export interface Answer {
  readonly status: number;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** @internal */
export function answer(status: number, headers: Record<string, string> = {}, body = ""): Answer {
  return { status, body, headers };
}

/** A request listener of node:http, and a handler of Express. */
export type Listener = (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void) => void;

/** What answers fetch-style requests: `export default { fetch: receiver.fetch }`, Hono, SvelteKit, Next.js. */
export type FetchHandler = (request: Request) => Promise<Response>;

/** @internal */
export function respond(response: ServerResponse, { status, body, headers }: Answer): void {
  // RFC 9110 section 8.6: a 204 has no Content-Length.
  const length = status === 204 ? {} : { "content-length": String(Buffer.byteLength(body)) };
  response.writeHead(status, { ...length, ...headers }).end(body);
}

/** @internal */
export function toResponse({ status, body, headers }: Answer): Response {
  return new Response(status === 204 || body === "" ? null : body, { status, headers });
}

/** What a body parser that ran before has left: the raw bytes, or proof that they are gone. */
interface Parsed {
  readonly body?: unknown;
  readonly rawBody?: unknown;
}

/**
 * The raw body of a request, or `undefined` where it has more than `most` bytes.
 *
 * @throws where a parser has taken the bytes away
 * @internal
 */
export async function bodyOf(request: IncomingMessage, most: number): Promise<Uint8Array | undefined> {
  const { rawBody, body } = request as Parsed;
  for (const raw of [rawBody, body]) {
    if (raw instanceof Uint8Array) return within(raw, most);
  }
  if (request.readableEnded || body !== undefined) {
    throw new Error(
      "the raw body of a webhook is needed, and a body parser has read it: mount the receiver before express.json(), " +
        "or give its route express.raw({ type: () => true })",
    );
  }
  return collect(request, most);
}

/**
 * The same of a fetch-style request.
 *
 * @internal
 */
export async function bodyOfFetch(request: Request, most: number): Promise<Uint8Array | undefined> {
  if (request.bodyUsed) throw new Error("the raw body of a webhook is needed, and somebody has read it");
  return request.body === null ? new Uint8Array() : collect(request.body as AsyncIterable<Uint8Array>, most);
}

function within(raw: Uint8Array, most: number): Uint8Array | undefined {
  return raw.byteLength > most ? undefined : raw;
}

async function collect(chunks: AsyncIterable<Uint8Array>, most: number): Promise<Uint8Array | undefined> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of chunks) {
    size += chunk.byteLength;
    if (size > most) return undefined;
    parts.push(chunk);
  }
  return Buffer.concat(parts);
}
