// npm fastmcp: its own sessions with our event stores and `attach`, and the one store that it takes for all of them.
import assert from "node:assert/strict";
import { after, test } from "node:test";

import { FastMCP } from "fastmcp";
import { eventStore, instrument, sharedEventStore } from "tidings/mcp";

import { Client, deferred, freePort, hub } from "../harness.mjs";

const alive = setInterval(() => {}, 1_000);
after(() => clearInterval(alive));

const QUIET = Object.fromEntries(["debug", "error", "info", "log", "warn"].map((level) => [level, () => {}]));

/** Starts one with a tool of three steps, each of which waits to be let go. */
async function start(t, { prepare, httpStream = {} }) {
  const gates = [deferred(), deferred(), deferred()];
  const server = new FastMCP({ name: "test", version: "1.0.0", logger: QUIET, ping: { enabled: false } });
  server.addTool({
    name: "count",
    description: "Counts to three.",
    execute: async (_arguments, { reportProgress }) => {
      for (const [n, gate] of gates.entries()) {
        await gate.promise;
        await reportProgress({ progress: n + 1, total: gates.length });
      }
      return "done";
    },
  });
  prepare?.(server);
  const port = await freePort();
  await server.start({ transportType: "httpStream", httpStream: { host: "127.0.0.1", port, ...httpStream } });
  t.after(() => server.stop());
  return { url: `http://127.0.0.1:${port}/mcp`, gates, server };
}

/** A call that is cut after its first step, and what its client comes back to. */
async function cut(client, gates) {
  const params = { name: "count", arguments: {}, _meta: { progressToken: "p" } };
  const stream = await client.request("tools/call", params);
  gates[0].resolve();
  let first;
  do first = await stream.next();
  while (first.message?.method !== "notifications/progress");
  stream.cut();
  for (const gate of gates) gate.resolve();
  return first.id;
}

async function back(client, id) {
  let resumed = await client.get(id);
  while (resumed.status === 409) resumed = await client.get(id);
  return resumed;
}

const steps = (events) => events.filter(({ message }) => message?.params).map(({ message }) => message.params.progress);

const STORES = {
  "instrument gives each session its own store": (h) => ({ prepare: (server) => instrument(server, h) }),
  "its option takes one store for all": (h) => ({ httpStream: { eventStore: sharedEventStore(h) } }),
};

for (const [what, options] of Object.entries(STORES)) {
  test(`fastmcp: ${what}, and a cut stream resumes`, async (t) => {
    const h = await hub(t);
    const { url, gates } = await start(t, options(h));
    const client = await new Client(url).initialize();
    const id = await cut(client, gates);
    assert.match(id, /^[0-9a-z]{26}\./, "a cursor of ours");
    const rest = await (await back(client, id)).rest();
    assert.deepEqual(steps(rest), [2, 3]);
    assert.equal(rest.at(-1).message.result.content[0].text, "done");
  });
}

test("fastmcp: an event of one session is nothing to another, and each own stream is apart", async (t) => {
  const h = await hub(t);
  const { url, gates, server } = await start(t, { prepare: (server) => instrument(server, h) });
  const [ann, bob] = [await new Client(url).initialize(), await new Client(url).initialize()];
  const id = await cut(ann, gates);
  assert.equal((await bob.get(id)).status, 400);
  const [annStream, bobStream] = [await ann.get(), await bob.get()];
  await Promise.all(server.sessions.map((session) => session.server.sendToolListChanged()));
  const told = await annStream.next();
  assert.equal(told.message.method, "notifications/tools/list_changed");
  assert.equal((await bobStream.next()).message.method, "notifications/tools/list_changed");
  annStream.cut();
  await Promise.all(server.sessions.map((session) => session.server.sendToolListChanged()));
  assert.match((await (await back(ann, told.id)).next()).message.method, /list_changed$/);
  assert.equal((await bob.get(told.id)).status, 400);
  bobStream.cut();
});

test("fastmcp: the one store keeps nothing of the streams that it cannot tell apart", async (t) => {
  const h = await hub(t);
  const store = sharedEventStore(h);
  assert.equal(await store.storeEvent("_GET_stream", { jsonrpc: "2.0", method: "x" }), "");
  const id = await store.storeEvent("a", { jsonrpc: "2.0", method: "x" });
  assert.equal(await store.getStreamIdForEventId(id), "a");
  // The stores of sessions know nothing of it, and it nothing of theirs.
  const own = eventStore(h, () => ({ sessionId: "s" }));
  assert.equal(await own.getStreamIdForEventId(id), undefined);
  assert.equal(await store.getStreamIdForEventId(await own.storeEvent("a", { method: "x" })), undefined);
  assert.equal(store.failures, 0);
});

test("fastmcp: a call with a notificationConfig is acknowledged, and its end is told", async (t) => {
  const h = await hub(t);
  const heard = deferred();
  h.registerCallback("heard", (delivery) => heard.resolve(JSON.parse(delivery.body)));
  const options = { routes: ["callback"], open: ["heard"] };
  const { url, gates } = await start(t, { prepare: (server) => instrument(server, h, options) });
  const first = new Client(url);
  const hello = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } };
  const { capabilities } = (await (await first.request("initialize", hello)).rest()).at(-1).message.result;
  assert.deepEqual(capabilities.notificationConfig, { supportedRouteTypes: ["callback"] });
  const client = await new Client(url).initialize();
  for (const gate of gates) gate.resolve();
  const route = { id: "r", type: "callback", endpoint: "heard", triggers: ["completed"] };
  const params = { name: "count", arguments: {}, notificationConfig: { routes: [route] } };
  const events = await (await client.request("tools/call", params)).rest();
  const methods = events.map(({ message }) => message?.method);
  assert.ok(methods.includes("notifications/config/acknowledged"));
  const { result } = events.at(-1).message;
  assert.deepEqual(result._meta["io.tidings/acknowledged"].acceptedRoutes, ["r"]);
  const body = await heard.promise;
  assert.equal(body.name, "tool_call.completed");
  assert.equal(body.data.callId, result._meta["io.tidings/acknowledged"].callId);
});

test("fastmcp: a server is instrumented once, and its own store may stay", async (t) => {
  const h = await hub(t);
  const { url, gates } = await start(t, { prepare: (server) => instrument(server, h, { eventStore: false }) });
  const client = await new Client(url).initialize();
  assert.doesNotMatch(await cut(client, gates), /^[0-9a-z]{26}\./);
  const server = new FastMCP({ name: "test", version: "1.0.0", logger: QUIET });
  instrument(server, h);
  assert.throws(() => instrument(server, h), /instrumented already/);
});
