// An MCP server whose users watch a dashboard: what becomes of their tool calls arrives there, over a WebSocket.
//
//     node dashboard.mjs [PORT]        prints its port; needs `npm install tidings @modelcontextprotocol/server
//                                      @modelcontextprotocol/node zod ws`
//
// One process serves both, on one port: `/mcp` for MCP clients (Streamable HTTP) and `/dashboard?token=…` for browsers. A call
// names its user's dashboard as a route of type `message`:
//
//     {"routes": [{"id": "d", "type": "message", "endpoint": "dashboard/ann", "triggers": ["completed", "failed"]}]}
//
// The session of a user opens the dashboard of that user and no other, so that nobody reaches somebody else's. A dashboard
// that is not open, or that does not read, holds nothing up: the delivery goes to the next route, or is tried again.
import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";

import { NodeStreamableHTTPServerTransport } from "@modelcontextprotocol/node";
import { McpServer } from "@modelcontextprotocol/server";
import { Hub, type Registration } from "tidings";
import { attach, eventStore } from "tidings/mcp";
import { type WebSocket, WebSocketServer } from "ws";
import { z } from "zod";

/** Stands in for your login. */
const TOKENS = new Map([
  ["token-of-ann", "ann"],
  ["token-of-bob", "bob"],
]);
const ISSUER = "https://login.example";
/** A dashboard that takes nothing for so long is closed: its browser may come back. */
const MS_TO_READ = 5_000;

const hub = new Hub("memory:");

// -- dashboards

/** The open dashboards of a user, and the place that deliveries for them go to. */
interface Watching {
  readonly sockets: Set<WebSocket>;
  readonly place: Registration;
}
const watching = new Map<string, Watching>();

/** Resolves to whether the browser's side of the connection has taken it. */
function send(socket: WebSocket, frame: string): Promise<boolean> {
  return new Promise((resolve) => {
    const slow = setTimeout(() => {
      socket.terminate(); // a closing frame would stand behind what it does not read
      resolve(false);
    }, MS_TO_READ);
    socket.send(frame, (error) => {
      clearTimeout(slow);
      resolve(error === undefined || error === null);
    });
  });
}

function begin(user: string): Watching {
  const sockets = new Set<WebSocket>();
  const place = hub.registerSink(
    `dashboard/${user}`,
    async (delivery) => {
      // One delivery at a time: nothing queues up for a browser that is slow.
      const frame = delivery.frame();
      const taken = await Promise.all([...sockets].map((socket) => send(socket, frame)));
      if (!taken.includes(true)) throw new Error("no dashboard has taken it");
    },
    { timeoutMs: MS_TO_READ + 1_000 },
  );
  const made = { sockets, place };
  watching.set(user, made);
  return made;
}

function watch(user: string, socket: WebSocket): void {
  const { sockets, place } = watching.get(user) ?? begin(user);
  sockets.add(socket);
  socket.on("error", () => socket.terminate());
  socket.on("close", () => {
    sockets.delete(socket);
    if (sockets.size > 0) return;
    // Nobody watches: the place is gone, and a route that names it is not deliverable.
    place.close();
    watching.delete(user);
  });
}

// -- the MCP server

interface Session {
  readonly user: string;
  readonly transport: NodeStreamableHTTPServerTransport;
}
const sessions = new Map<string, Session>();

async function open(user: string): Promise<Session> {
  const transport: NodeStreamableHTTPServerTransport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    eventStore: eventStore(hub, () => transport),
    onsessioninitialized: (id) => void sessions.set(id, session),
    onsessionclosed: (id) => void sessions.delete(id),
  });
  const session = { user, transport };
  const server = new McpServer({ name: "reports", version: "1.0.0" });
  server.registerTool("report", { inputSchema: z.object({ quarter: z.string() }) }, ({ quarter }) => ({
    content: [{ type: "text", text: `The report of ${quarter} is ready.` }],
  }));
  attach(server, hub, { routes: ["webhook", "message"], open: [`dashboard/${user}`] });
  await server.connect(transport);
  return session;
}

function userOf(request: IncomingMessage): string | undefined {
  return TOKENS.get(request.headers.authorization?.replace(/^Bearer /, "") ?? "");
}

const http = createServer(async (request, response) => {
  const user = userOf(request);
  if (user === undefined) return response.writeHead(401, { "www-authenticate": "Bearer" }).end();
  const id = request.headers["mcp-session-id"];
  const session = typeof id === "string" ? sessions.get(id) : await open(user);
  // A session of somebody else is no session.
  if (session === undefined || session.user !== user) return response.writeHead(404).end();
  const auth = { token: "", clientId: "any", scopes: [], extra: { iss: ISSUER, sub: user } };
  return session.transport.handleRequest(Object.assign(request, { auth }), response);
});

const browsers = new WebSocketServer({ noServer: true });
http.on("upgrade", (request, socket, head) => {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://localhost");
  const user = TOKENS.get(searchParams.get("token") ?? "");
  if (pathname !== "/dashboard" || user === undefined) return socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
  return browsers.handleUpgrade(request, socket, head, (browser) => watch(user, browser));
});

http.listen(Number(process.argv[2] ?? 0), "127.0.0.1", () => console.log((http.address() as AddressInfo).port));
