// An MCP server with one slow tool, for demo/run.py: demo-server.mjs DATABASE RECEIVER_PORT PORT_FILE.
import { randomUUID } from "node:crypto";
import { renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import { NodeStreamableHTTPServerTransport } from "@modelcontextprotocol/node";
import { McpServer } from "@modelcontextprotocol/server";
import { Hub } from "tidings";
import { attach, eventStore } from "tidings/mcp";
import { z } from "zod";

const STEPS = ["open the ledger", "read the entries", "add them up", "check the sums", "write the report"];
/** Milliseconds each step takes. */
const PAUSE = 400;

const [, , database, receiverPort, portFile] = process.argv;
if (portFile === undefined) throw new Error("a database, the receiver's port and a file for the port are needed");

// The receiver of the demo is on this machine and speaks plain HTTP; by default neither is allowed.
const hub = new Hub(`sqlite:${database}`, {
  allowNetworks: ["127.0.0.0/8"],
  allowHttp: true,
  allowPorts: [Number(receiverPort)],
});
hub.open(); // so that what an earlier process left is done, before anybody calls

const sessions = new Map<string, NodeStreamableHTTPServerTransport>();

async function open(): Promise<NodeStreamableHTTPServerTransport> {
  const transport: NodeStreamableHTTPServerTransport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    eventStore: eventStore(hub, () => transport),
    onsessioninitialized: (id) => void sessions.set(id, transport),
  });
  const server = new McpServer({ name: "demo", version: "1" });
  server.registerTool(
    "report",
    { description: "Work on the report of a quarter, step by step.", inputSchema: z.object({ quarter: z.string() }) },
    async ({ quarter }, { mcpReq }) => {
      for (const [n, message] of STEPS.entries()) {
        await sleep(PAUSE);
        const progressToken = mcpReq._meta?.progressToken;
        if (progressToken === undefined) continue;
        const params = { progressToken, progress: n + 1, total: STEPS.length, message };
        await mcpReq.notify({ method: "notifications/progress", params });
      }
      return { content: [{ type: "text", text: `The report of ${quarter} is ready.` }] };
    },
  );
  attach(server, hub, { routes: ["webhook"] });
  await server.connect(transport);
  return transport;
}

const http = createServer(async (request, response) => {
  const known = request.headers["mcp-session-id"];
  const transport = typeof known === "string" ? sessions.get(known) : await open();
  if (transport === undefined) response.writeHead(404).end();
  else await transport.handleRequest(request, response);
});
http.listen(0, "127.0.0.1", () => {
  writeFileSync(`${portFile}.new`, String((http.address() as AddressInfo).port));
  renameSync(`${portFile}.new`, portFile);
});
process.on("SIGTERM", () => void hub.close().finally(() => process.exit(0)));
