/** `durableFetch` and `durableFront`: what has to be answered before a server is there, in front of an MCP endpoint. */
import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";

import { InvalidArgumentError } from "../errors";
import type { Hub } from "../hub";
import type { AuthInfo } from "./context";
import type { Params } from "./intercept";
import { Listeners } from "./listen";
import { HttpListener } from "./listen-http";
import { bodiless, type NodeRequest, write } from "./node-http";
import { authenticated, type PrincipalOf } from "./principal";
import { Resumer, wanted } from "./resume";
import { livesHere } from "./sessions";
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

/** Options of `durableFront`. */
export interface FrontOptions {
  /** Who asks, from what the server's authentication found; the same as in `attach`. */
  principal?: PrincipalOf;
  /**
   * Whether this process holds a session, so that its requests go to the endpoint. Without it, those of servers that were
   * attached live here, and no others.
   */
  lives?: (sessionId: string) => boolean;
  /** Between two comments on a silent stream, at most 25,000. Default: 15,000. */
  keepAliveMs?: number;
}

/** Options of `durableFetch`. */
export interface DurableFetchOptions extends FrontOptions {
  /** How many listeners of 2026-07-28 are served at a time. Default: 1,024. */
  maxListeners?: number;
}

/** What answers for sessions that this process does not hold; see `durableFront`. */
export interface DurableFront {
  /** The answer to a request in the form of fetch; `undefined`: it is the endpoint's. */
  answer(request: Request, options?: FetchOptions): Promise<Response | undefined>;
  /** The same for node:http and Express: `true` when it was answered, else nothing was read or written. */
  answerNode(request: NodeRequest, response: ServerResponse): Promise<boolean>;
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

const NOT_FOUND = { jsonrpc: "2.0", error: { code: -32_001, message: "Session not found" }, id: null };

/**
 * Answers for the sessions (up to 2025-11-25) that this process does not hold, in front of an MCP endpoint over node:http, Express
 * or fetch.
 *
 * A GET with `Last-Event-ID` gets the rest of its stream from the hub, then follows it live, whichever process or language holds
 * or held the session, also after a restart: where the session is on record (`attach` and our `eventStore` put it there), belongs
 * to the one who asks, and has something left to say. Every other request of a session that does not live here gets 404, upon
 * which a client starts a new one; the SDKs themselves answer 400, which clients take for a fault.
 *
 * ```ts
 * const front = durableFront(hub);
 * createServer(async (request, response) => {
 *   if (await front.answerNode(request, response)) return;
 *   …
 * });
 * ```
 *
 * Host, Origin and authentication are not checked here: put it inside whatever checks them. What was found is `request.auth` or
 * `authInfo`. A session of somebody is never served to nobody, nor the other way round.
 */
export function durableFront(hub: Hub, options: FrontOptions = {}): DurableFront {
  const { principal = authenticated, lives = livesHere, keepAliveMs = KEEP_ALIVE_MS } = options;
  if (!(keepAliveMs > 0 && keepAliveMs <= 25_000)) {
    throw new InvalidArgumentError("keepAliveMs: must be above 0 and at most 25000");
  }
  const resumer = new Resumer(hub, keepAliveMs);
  const answer = async (request: Request, { authInfo }: FetchOptions = {}): Promise<Response | undefined> => {
    const sessionId = request.headers.get("mcp-session-id");
    if (sessionId === null || lives(sessionId)) return undefined;
    const asked = wanted(request.method, (name) => request.headers.get(name));
    const who = authInfo === undefined ? undefined : principal(authInfo as AuthInfo);
    const resumed = asked && (await resumer.serve(asked, who, request.signal));
    return resumed ?? Response.json(NOT_FOUND, { status: 404 });
  };
  return {
    answer,
    answerNode: async (request, response) => {
      const sessionId = request.headers["mcp-session-id"];
      if (typeof sessionId !== "string" || lives(sessionId)) return false;
      const asked = bodiless(request, response);
      const found = await answer(asked, request.auth === undefined ? {} : { authInfo: request.auth });
      if (found === undefined) return false;
      request.resume();
      await write(found, response);
      return true;
    },
  };
}

/**
 * Puts a front before an MCP endpoint in the form of fetch, which does what `durableFront` does and answers from the hub
 *
 * - `subscriptions/listen` (2026-07-28): within the filter, for what the server declares, tasks by `taskIds` included; coalesced
 *   rather than cut when a client lags, and told what other processes publish.
 *
 * Everything else goes to the endpoint as it is.
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
  const front = durableFront(hub, options);
  const next: FetchHandler = typeof endpoint === "function" ? endpoint : (request, more) => endpoint.fetch(request, more);
  const listeners = new Listeners(hub, maxListeners);

  const durable = async (request: Request, more: FetchOptions = {}): Promise<Response> => {
    if (request.method === "POST" && request.headers.get("mcp-method") === wire.LISTEN) {
      const body = more.parsedBody ?? (await json(request));
      const answer = await listen(next, listeners, keepAliveMs, principal, request, body, more.authInfo);
      if (answer !== undefined) return answer;
    }
    return (await front.answer(request, more)) ?? next(request, more);
  };
  return Object.assign(durable, { fetch: durable, endListeners: () => listeners.end() });
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
  keepAliveMs: number,
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
    const asked = {
      id,
      version: String(meta[wire.PROTOCOL_VERSION]),
      filter: params?.notifications,
      client: (meta[wire.CLIENT_CAPABILITIES] ?? {}) as Params,
      server: server.capabilities,
      serverInfo: server.info,
      principal: (authInfo && named(authInfo)) ?? `connection:${randomUUID()}`,
    };
    return listeners.serve(asked, (place) => new HttpListener(place, keepAliveMs, request.signal)).response;
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
