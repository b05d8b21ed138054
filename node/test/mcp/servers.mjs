// The same MCP server on both SDKs: a tool whose steps the test lets go, over the SDK's own Streamable HTTP transport.
import { McpServer as McpServer2 } from "@modelcontextprotocol/server";
import { NodeStreamableHTTPServerTransport } from "@modelcontextprotocol/node";
import { McpServer as McpServer1 } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

import { attach, eventStore } from "tidings/mcp";

import { deferred, randomUUID, serve } from "../harness.mjs";

export const SDKS = ["server 2.4", "sdk 1.32"];

/** Lets the tool `count` go on, step by step. */
export class Steps {
  /** The tool runs; resolves to its signal. */
  started = deferred();
  #waiting = [];
  #let = 0;

  allow(count) {
    this.#let += count;
    while (this.#let > 0 && this.#waiting.length > 0) {
      this.#let -= 1;
      this.#waiting.shift().resolve();
    }
  }

  async taken() {
    if (this.#let > 0) {
      this.#let -= 1;
      return;
    }
    const step = deferred();
    this.#waiting.push(step);
    await step.promise;
  }
}

export function mcpServer(sdk, steps) {
  const info = { name: "test", version: "1" };
  const capabilities = { capabilities: { logging: {}, tools: { listChanged: true } } };
  const schema = { total: z.number() };
  const run = async (total, notify, signal) => {
    steps.started.resolve(signal);
    for (let n = 0; n < total; n++) {
      await steps.taken();
      await notify({ method: "notifications/message", params: { level: "info", data: n } });
    }
    await steps.taken();
    return { content: [{ type: "text", text: "done" }] };
  };
  if (sdk === "sdk 1.32") {
    const server = new McpServer1(info, capabilities);
    server.registerTool("count", { inputSchema: schema }, ({ total }, extra) => run(total, extra.sendNotification, extra.signal));
    return server;
  }
  const server = new McpServer2(info, capabilities);
  server.registerTool("count", { inputSchema: z.object(schema) }, ({ total }, ctx) =>
    run(total, (notification) => ctx.mcpReq.notify(notification), ctx.mcpReq.signal),
  );
  return server;
}

/** Sessions by id, one transport and one store each, on one hub. */
export async function mcp(t, sdk, hub, { retryInterval, attached, watchStore } = {}) {
  const sessions = new Map();
  const steps = new Steps();
  const Transport = sdk === "sdk 1.32" ? StreamableHTTPServerTransport : NodeStreamableHTTPServerTransport;
  const url = await serve(t, async (request, response, body) => {
    const id = request.headers["mcp-session-id"];
    let session = sessions.get(id);
    if (session === undefined && id !== undefined) {
      response.writeHead(404).end();
      return;
    }
    if (session === undefined) {
      const store = eventStore(hub, () => transport);
      watchStore?.(store);
      const transport = new Transport({
        sessionIdGenerator: () => randomUUID(),
        eventStore: store,
        retryInterval,
        onsessioninitialized: (sessionId) => void sessions.set(sessionId, session),
      });
      session = { transport, store, server: mcpServer(sdk, steps) };
      if (attached) attach(session.server, hub, attached);
      await session.server.connect(transport);
    }
    await session.transport.handleRequest(request, response, body);
  });
  t.after(async () => {
    for (const { transport } of sessions.values()) await transport.close();
  });
  return { url, steps, sessions };
}
