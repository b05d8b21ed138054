// A server over stdio in a process of its own: node stdio-server.mjs 1|2|serve FILE. `serve`: by `serveStdio`, with the hub before its
// listeners. Rings and messages are offered. Tools: `noop`, `grow` (a new tool), `publish` (how many were told), `finish` (the listeners).
import { McpServer as McpServer2 } from "@modelcontextprotocol/server";
import { serveStdio, StdioServerTransport as Stdio2 } from "@modelcontextprotocol/server/stdio";
import { McpServer as McpServer1 } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport as Stdio1 } from "@modelcontextprotocol/sdk/server/stdio.js";

import { Hub } from "tidings";
import { attach, durableTransport } from "tidings/mcp";

const [, , sdk, file] = process.argv;
const hub = new Hub(file === undefined ? "memory:" : `sqlite:${file}`, { undeliverable: "annotate" });

function make(Server) {
  const server = new Server({ name: "test", version: "1" });
  const text = (value) => ({ content: [{ type: "text", text: String(value) }] });
  server.registerTool("noop", {}, () => text("done"));
  server.registerTool("grow", {}, () => {
    server.registerTool("grown", {}, () => text("grown"));
    return text("grown");
  });
  server.registerTool("publish", {}, () => text(hub.notify("tools").told));
  server.registerTool("finish", {}, () => {
    transport.endListeners();
    return text("finished");
  });
  attach(server, hub, { routes: ["signal", "message"], signalAsRoot: true });
  return server;
}

const transport = sdk === "serve" ? durableTransport(new Stdio2(), hub) : sdk === "1" ? new Stdio1() : new Stdio2();
if (sdk === "serve") serveStdio(() => make(McpServer2), { transport });
else await make(sdk === "1" ? McpServer1 : McpServer2).connect(transport);
