// One endpoint for both eras, as a TypeScript author serves them: sessions up to 2025-11-25, `createMcpHandler` from 2026-07-28.
import { Client as SdkClient, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { NodeStreamableHTTPServerTransport, toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer as McpServer2 } from "@modelcontextprotocol/server";
import { McpServer as McpServer1 } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { attach, durableFetch, eventBus, eventStore } from "tidings/mcp";

import { randomUUID, serve } from "../harness.mjs";

export const MODERN = "2026-07-28";

/** The `_meta` of a request of 2026-07-28. */
export function envelope(capabilities = {}) {
  return {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": capabilities,
  };
}

/** A server with a tool, a prompt and a resource. */
export function author(Server) {
  const server = new Server({ name: "test", version: "1" });
  server.registerTool("noop", {}, () => ({ content: [] }));
  server.registerPrompt("hello", {}, () => ({ messages: [] }));
  server.registerResource("a", "test://a", {}, () => ({ contents: [] }));
  return server;
}

/**
 * Serves both eras on one URL. `attached`: options of `attach`; `store`: sessions get our event store; `sdk`: which SDK has the
 * sessions; `authInfo`: by the request's `authorization`; `ending`: waited for when a client ends its session; `watchStore`: gets
 * the event store of each.
 */
export async function bothEras(t, hub, options = {}) {
  const { attached = {}, store = true, sdk = 2, make = author, authInfo, front = {}, ending, watchStore } = options;
  const sessions = new Map();
  const handler = createMcpHandler(
    () => {
      const server = make(McpServer2);
      attach(server, hub, attached);
      return server;
    },
    { bus: eventBus(hub), legacy: "reject" },
  );
  const durable = durableFetch(handler, hub, front);
  t.after(() => handler.close());
  const modern = toNodeHandler(durable);
  const [Server, Transport] =
    sdk === 1 ? [McpServer1, StreamableHTTPServerTransport] : [McpServer2, NodeStreamableHTTPServerTransport];
  const url = await serve(t, async (request, response, body) => {
    request.auth = authInfo?.(request.headers.authorization);
    const id = request.headers["mcp-session-id"];
    if (id === undefined && body?.method !== "initialize") return modern(request, response, body);
    let session = sessions.get(id);
    if (session === undefined && id !== undefined) return modern(request, response, body);
    if (session === undefined) {
      const own = store ? eventStore(hub, () => transport) : undefined;
      if (own !== undefined) watchStore?.(own);
      const transport = new Transport({
        sessionIdGenerator: () => randomUUID(),
        ...(store ? { eventStore: own } : {}),
        onsessioninitialized: (sessionId) => void sessions.set(sessionId, session),
        onsessionclosed: (sessionId) => {
          sessions.delete(sessionId);
          return ending?.();
        },
      });
      session = { transport, server: make(Server) };
      attach(session.server, hub, attached);
      await session.server.connect(transport);
    }
    await session.transport.handleRequest(request, response, body);
  });
  t.after(async () => {
    for (const { transport } of sessions.values()) await transport.close();
  });
  return { url, sessions, handler, durable };
}

/** An official client, of either era, closed after the test. */
export async function official(t, url, era, options = {}) {
  const mode = era === "modern" ? { pin: MODERN } : "legacy";
  const client = new SdkClient({ name: "test", version: "1" }, { versionNegotiation: { mode }, ...options });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  t.after(() => client.close());
  return client;
}

/** A request of 2026-07-28 on the wire. */
export function post(url, method, params, { capabilities, signal, id = randomUUID(), headers = {}, meta = {} } = {}) {
  const name = params?.name ?? params?.taskId;
  return fetch(url, {
    method: "POST",
    headers: {
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
      "mcp-protocol-version": MODERN,
      "mcp-method": method,
      ...(name === undefined ? {} : { "mcp-name": name }),
      ...headers,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id, method, params: { ...params, _meta: { ...envelope(capabilities), ...meta } } }),
    signal,
  });
}
