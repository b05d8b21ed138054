// The server that the official conformance suite is run against: the SDK's own, with our adapter or without.
//
//   server.mjs plain              the SDK alone, with a store of events in memory as its examples have
//   server.mjs attached DATABASE  with our event store and everything that `attach` can bring, on that store
//
// It says its port and serves until its standard input ends.
import { randomBytes, randomUUID } from "node:crypto";
import { createServer } from "node:http";

import { BUS, call, DATA, get, read, TASKS } from "./fixture.mjs";
import * as sdk from "./packages.mjs";

const [, , mode, database] = process.argv;
const ours = mode === "attached" ? sdk.tidings() : undefined;
const hub = ours && new ours.Hub(`sqlite:${database}`);

const codec = sdk.createRequestStateCodec({ key: randomBytes(32) });
const described = (name) => ({ name, description: `The suite's ${name}.` });

function makeServer() {
  const capabilities = {
    tools: { listChanged: true },
    prompts: { listChanged: true },
    resources: { listChanged: true, subscribe: true },
    logging: {},
    completions: {},
  };
  const info = { name: "conformance", version: "1" };
  const server = new sdk.Server(info, { capabilities, requestState: { verify: codec.verify } });
  server.setRequestHandler("tools/list", () => ({
    tools: Object.entries(DATA.tools).map(([name, { inputSchema }]) => ({ ...described(name), inputSchema })),
  }));
  server.setRequestHandler("tools/call", ({ params }, ctx) => {
    const tool = DATA.tools[params.name];
    if (tool === undefined) throw new sdk.ProtocolError(-32602, `Unknown tool: ${params.name}`);
    return call(ctx, tool, params.arguments ?? {}, (state) => codec.mint(state, ctx));
  });
  server.setRequestHandler("prompts/list", () => ({
    prompts: Object.entries(DATA.prompts).map(([name, { arguments: names = [] }]) => ({
      ...described(name),
      arguments: names.map((argument) => ({ name: argument, required: true })),
    })),
  }));
  server.setRequestHandler("prompts/get", ({ params }, ctx) => {
    const prompt = DATA.prompts[params.name];
    if (prompt === undefined) throw new sdk.ProtocolError(-32602, `Unknown prompt: ${params.name}`);
    return get(ctx, prompt, params.arguments ?? {}, (state) => codec.mint(state, ctx));
  });
  server.setRequestHandler("resources/list", () => ({
    resources: Object.entries(DATA.resources).map(([uri, { mimeType }]) => ({ uri, ...described(uri), mimeType })),
  }));
  server.setRequestHandler("resources/templates/list", () => ({
    resourceTemplates: Object.keys(DATA.templates).map((uriTemplate) => ({ uriTemplate, ...described("template") })),
  }));
  server.setRequestHandler("resources/read", ({ params }) => read(params.uri));
  server.setRequestHandler("resources/subscribe", () => ({}));
  server.setRequestHandler("resources/unsubscribe", () => ({}));
  server.setRequestHandler("completion/complete", () => ({ completion: DATA.completion }));
  server.setRequestHandler("logging/setLevel", () => ({}));
  const tasks = { inlineMs: 250, tools: TASKS };
  ours?.attach(server, hub, { routes: ["webhook"], timeoutMs: 60_000, tasks, tasksStream: true });
  return server;
}

/** Events of one session, in memory. */
class Kept {
  #events = [];

  async storeEvent(streamId, message) {
    return String(this.#events.push({ streamId, message }));
  }

  async getStreamIdForEventId(eventId) {
    return this.#events[Number(eventId) - 1]?.streamId;
  }

  async replayEventsAfter(lastEventId, { send }) {
    const { streamId } = this.#events[Number(lastEventId) - 1];
    for (let n = Number(lastEventId); n < this.#events.length; n++) {
      const { streamId: of, message } = this.#events[n];
      if (of === streamId && Object.keys(message).length > 0) await send(String(n + 1), message);
    }
    return streamId;
  }
}

const sessions = new Map();
const bus = ours ? ours.eventBus(hub) : BUS;
if (ours) BUS.subscribe((event) => bus.publish(event));
const handler = sdk.createMcpHandler(makeServer, { bus, legacy: "reject" });
const modern = ours ? ours.durableFetch(handler, hub) : handler;

async function answer(request) {
  if (!(await sdk.isLegacyRequest(request))) return modern.fetch(request);
  const known = request.headers.get("mcp-session-id");
  const found = sessions.get(known);
  if (found !== undefined) return found.handleRequest(request);
  if (known !== null) return new Response("no such session", { status: 404 });
  const transport = new sdk.WebStandardStreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    onsessioninitialized: (id) => void sessions.set(id, transport),
    onsessionclosed: (id) => void sessions.delete(id),
    eventStore: ours ? ours.eventStore(hub, () => transport) : new Kept(),
    retryInterval: 200,
  });
  await makeServer().connect(transport);
  return transport.handleRequest(request);
}

/** Of this machine only, as the suite wants it of a server on a loopback address. */
function isLocal(value) {
  return value === undefined || /^(https?:\/\/)?(127\.0\.0\.1|localhost)(:\d+)?$/.test(value);
}

const serve = sdk.toNodeHandler({ fetch: answer });
const http = createServer((request, response) => {
  const { host, origin } = request.headers;
  if (isLocal(host) && isLocal(origin)) return serve(request, response);
  response.writeHead(403).end();
});
http.listen(0, "127.0.0.1", () => console.log(http.address().port));
process.stdin.resume();
process.stdin.on("end", async () => {
  http.closeAllConnections();
  http.close();
  await hub?.close();
  process.exit(0);
});
