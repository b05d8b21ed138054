/** `durableFetch`: what has to be answered before a server is there, in front of an MCP endpoint. */
import { randomUUID } from "node:crypto";

import { InvalidArgumentError } from "../errors";
import type { Hub } from "../hub";
import type { AuthInfo } from "./context";
import type { Params } from "./intercept";
import { Listeners } from "./listen";
import { authenticated, type PrincipalOf } from "./principal";
import { KEEP_ALIVE_MS } from "./sse";
import * as wire from "./wire";

/** What a handler is told besides the request, as by the SDK's `toNodeHandler`. */
export interface FetchOptions {
  /** Who asks, as the server's authentication found it. */
  authInfo?: any;
  /** The body, where somebody has parsed it already. */
  parsedBody?: unknown;
}

/** An MCP endpoint in the form of fetch: `createMcpHandler(…).fetch`, or a function of your own. */
export type FetchHandler = (request: Request, options?: FetchOptions) => Response | Promise<Response>;

export interface DurableFetchOptions {
  /** Who asks, from what the server's authentication found; the same as in `attach`. */
  principal?: PrincipalOf;
  /** How many listeners of 2026-07-28 are served at a time. Default: 1,024. */
  maxListeners?: number;
  /** Between two comments on a silent stream, at most 25,000. Default: 15,000. */
  keepAliveMs?: number;
}

/** The endpoint behind the front, to be called, or given to the SDK's `toNodeHandler`. */
export interface DurableFetch {
  (request: Request, options?: FetchOptions): Promise<Response>;
  fetch(request: Request, options?: FetchOptions): Promise<Response>;
  /** Ends every listener in order: each gets what it was promised, then the result of its request. Does not wait. */
  endListeners(): void;
}

/** A body that is larger is not looked at. */
const MAX_BODY = 1024 * 1024;

/**
 * Puts a front before an MCP endpoint, which answers from the hub
 *
 * - `subscriptions/listen` (2026-07-28): within the filter, for what the server declares, tasks by `taskIds` included; coalesced
 *   rather than cut when a client lags, and told what other processes publish.
 *
 * Everything else goes to the endpoint as it is. Host, Origin and authentication are not checked here: put it inside whatever
 * checks them, and hand on what was found as `authInfo`.
 *
 * ```ts
 * const handler = durableFetch(createMcpHandler(factory, { bus: eventBus(hub) }), hub);
 * createServer(toNodeHandler(handler)).listen(3000);
 * ```
 */
export function durableFetch(
  endpoint: FetchHandler | { fetch: FetchHandler },
  hub: Hub,
  options: DurableFetchOptions = {},
): DurableFetch {
  const { principal = authenticated, maxListeners = 1_024, keepAliveMs = KEEP_ALIVE_MS } = options;
  if (!Number.isSafeInteger(maxListeners) || maxListeners < 0) {
    throw new InvalidArgumentError("maxListeners: must be a whole number, 0 or more");
  }
  if (!(keepAliveMs > 0 && keepAliveMs <= 25_000)) {
    throw new InvalidArgumentError("keepAliveMs: must be above 0 and at most 25000");
  }
  const next: FetchHandler = typeof endpoint === "function" ? endpoint : (request, more) => endpoint.fetch(request, more);
  const listeners = new Listeners(hub, maxListeners, keepAliveMs);

  const front = async (request: Request, more: FetchOptions = {}): Promise<Response> => {
    if (request.method === "POST" && request.headers.get("mcp-method") === wire.LISTEN) {
      const body = more.parsedBody ?? (await json(request));
      const answer = await listen(next, listeners, principal, request, body, more.authInfo);
      if (answer !== undefined) return answer;
    }
    return next(request, more);
  };
  return Object.assign(front, { fetch: front, endListeners: () => listeners.end() });
}

/** The parsed body, of which the request keeps a copy; `undefined` for one that is none of ours. */
async function json(request: Request): Promise<unknown> {
  if (Number(request.headers.get("content-length") ?? 0) > MAX_BODY) return undefined;
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of (request.clone().body ?? []) as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength;
    if (size > MAX_BODY) return undefined;
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString("utf8"));
  } catch {
    return undefined;
  }
}

interface ListenRequest {
  jsonrpc?: unknown;
  id?: unknown;
  method?: unknown;
  params?: { notifications?: unknown; _meta?: Params };
}

/** `undefined`: the endpoint answers, in its own words. */
async function listen(
  next: FetchHandler,
  listeners: Listeners,
  named: PrincipalOf,
  request: Request,
  body: unknown,
  authInfo: AuthInfo | undefined,
): Promise<Response | undefined> {
  const { id, method, params } = (body ?? {}) as ListenRequest;
  const meta = params?._meta;
  if (method !== wire.LISTEN || (typeof id !== "string" && typeof id !== "number") || typeof meta !== "object") {
    return undefined;
  }
  // The endpoint says what the server can do, and whether this request is one that it would serve.
  const server = await discover(next, request, id, meta, authInfo);
  if (server === undefined) return undefined;
  try {
    return listeners.serve({
      id,
      version: String(meta[wire.PROTOCOL_VERSION]),
      filter: params?.notifications,
      client: (meta[wire.CLIENT_CAPABILITIES] ?? {}) as Params,
      server: server.capabilities,
      serverInfo: server.info,
      principal: (authInfo && named(authInfo)) ?? `connection:${randomUUID()}`,
      signal: request.signal,
    });
  } catch (error) {
    if (!(error instanceof wire.JsonRpcError)) throw error;
    const status = error.code === wire.MISSING_CAPABILITY ? 400 : 200;
    return Response.json({ jsonrpc: "2.0", id, error }, { status });
  }
}

async function discover(
  next: FetchHandler,
  request: Request,
  id: string | number,
  meta: Params,
  authInfo: AuthInfo | undefined,
): Promise<{ capabilities: Params; info: unknown } | undefined> {
  const parsedBody = { jsonrpc: "2.0", id, method: wire.DISCOVER, params: { _meta: meta } };
  const headers = new Headers(request.headers);
  headers.set("mcp-method", wire.DISCOVER);
  headers.set("accept", "application/json, text/event-stream");
  for (const name of ["mcp-name", "content-length", "transfer-encoding"]) headers.delete(name);
  const asked = new Request(request.url, { method: "POST", headers, body: JSON.stringify(parsedBody) });
  const answer = await next(asked, authInfo === undefined ? { parsedBody } : { authInfo, parsedBody });
  const text = await answer.text();
  if (!answer.ok) return undefined;
  const { result } = (messages(answer, text).at(-1) ?? {}) as { result?: { capabilities?: Params; _meta?: Params } };
  if (typeof result?.capabilities !== "object") return undefined;
  return { capabilities: result.capabilities, info: result._meta?.[wire.SERVER_INFO] };
}

/** The messages of a response, as one JSON text or as events. */
function messages(response: Response, text: string): unknown[] {
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return [JSON.parse(text)];
  const data = text.split("\n\n").map((event) =>
    event
      .split("\n")
      .filter((line) => line.startsWith("data:"))
      .map((line) => line.slice(5).trimStart())
      .join("\n"),
  );
  return data.filter((json) => json !== "").map((json) => JSON.parse(json) as unknown);
}
