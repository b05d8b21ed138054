// A config in the `_meta` of a call, of a client whose SDK has no room for it in the parameters: as the Go adapter has it. On both SDKs
// and both eras, over real HTTP.
import assert from "node:assert/strict";
import { after, test } from "node:test";

import { Client, deferred, hub } from "../harness.mjs";
import { bothEras, official, post } from "./eras.mjs";
import { DECLARED } from "./task-server.mjs";

const alive = setInterval(() => {}, 1_000);
after(() => clearInterval(alive));

const NAME = "io.tidings/notification-config";
const ROUTES = { routes: ["callback"], open: ["heard"] };
const PLACES = [
  { name: "sdk 1.32", sdk: 1, era: "legacy" },
  { name: "server 2.4", sdk: 2, era: "legacy" },
  { name: "2026-07-28", sdk: 2, era: "modern" },
];
/** What else is in the `_meta`, and reaches the tool. */
const KEPT = { "com.example/kept": { n: 1 } };

const config = (id) => ({ routes: [{ id, type: "callback", endpoint: "heard", triggers: ["completed"] }] });

/** A server whose tool says what reaches it, and how a test calls it. */
async function start(t, { sdk, era }, attached) {
  const h = await hub(t);
  const firings = [];
  const waiting = [];
  h.registerCallback("heard", ({ body }) => {
    const told = JSON.parse(body);
    if (waiting.length > 0) waiting.shift().resolve(told);
    else firings.push(told);
  });
  /** The next firing. */
  const told = async () => {
    if (firings.length > 0) return firings.shift();
    waiting.push(deferred());
    return waiting.at(-1).promise;
  };
  /** What each call reached the tool with: its parameters, and the `_meta` of its context. */
  const seen = [];
  const make = (Server) => {
    const server = new Server({ name: "test", version: "1" });
    server.registerTool("noop", {}, (context) => {
      seen.at(-1).push((context.mcpReq ?? context)._meta);
      return { content: [] };
    });
    const handlers = server.server._requestHandlers;
    const handler = handlers.get("tools/call");
    handlers.set("tools/call", (message, context) => {
      seen.push([message.params]);
      return handler(message, context);
    });
    return server;
  };
  const { url } = await bothEras(t, h, { make, sdk, attached });
  const session = era === "legacy" ? await new Client(url).initialize() : undefined;
  /** All messages of the answer. */
  const call = async (params, meta, capabilities) => {
    const asked = { name: "noop", arguments: {}, ...params };
    if (session !== undefined) {
      const stream = await session.request("tools/call", { ...asked, _meta: { ...KEPT, ...meta } });
      return (await stream.rest()).map(({ message }) => message).filter((message) => message !== undefined);
    }
    const response = await post(url, "tools/call", asked, { meta: { ...KEPT, ...meta }, capabilities });
    if (!response.headers.get("content-type").startsWith("text/event-stream")) return [await response.json()];
    const data = (await response.text()).split("\n").filter((line) => line.startsWith("data:"));
    return data.map((line) => JSON.parse(line.slice(5)));
  };
  return { h, url, seen, told, call };
}

/** One tool ran, which saw what else is there, and no config. */
function sawNothingOfIt(seen) {
  assert.equal(seen.length, 1);
  const [params, meta] = seen[0];
  for (const there of [params._meta, meta]) {
    assert.deepEqual(there["com.example/kept"], { n: 1 });
    assert.ok(!(NAME in there));
  }
  assert.ok(!("notificationConfig" in params));
  seen.length = 0;
}

/** The routes that were acknowledged before the tool ran and with its result. */
function accepted(messages) {
  const acknowledged = messages[0];
  assert.equal(acknowledged.method, "notifications/config/acknowledged");
  assert.deepEqual(messages.at(-1).result._meta["io.tidings/acknowledged"], acknowledged.params);
  return acknowledged.params.acceptedRoutes;
}

for (const place of PLACES) {
  const { name, era } = place;

  test(`${name}: a config in the _meta is taken as one in the parameters is`, async (t) => {
    const { call, seen, told } = await start(t, place, ROUTES);
    const messages = await call({}, { [NAME]: config("r") });
    assert.deepEqual(accepted(messages), ["r"]);
    const body = await told();
    assert.equal(body.name, "tool_call.completed");
    assert.equal(body.data.callId, messages[0].params.callId);
    sawNothingOfIt(seen);
  });

  test(`${name}: the config in the parameters is preferred`, async (t) => {
    const { call, seen } = await start(t, place, ROUTES);
    for (const other of [config("other"), "nonsense", null]) {
      assert.deepEqual(accepted(await call({ notificationConfig: config("own") }, { [NAME]: other })), ["own"]);
      sawNothingOfIt(seen);
    }
    // Also where that is refused.
    for (const bad of [null, "nonsense", { routes: [] }]) {
      const [{ error }] = await call({ notificationConfig: bad }, { [NAME]: config("other") });
      assert.equal(error.code, -32602);
      assert.ok(error.data.faults.length > 0);
    }
    assert.deepEqual(seen, []);
  });

  test(`${name}: a bad config in the _meta is refused whole, and no tool runs`, async (t) => {
    const { call, seen } = await start(t, place, ROUTES);
    for (const bad of [null, [], "webhook", 1, false, {}]) {
      const [{ error }] = await call({}, { [NAME]: bad });
      assert.equal(error.code, -32602, JSON.stringify(bad));
      assert.equal(error.data.total, error.data.faults.length);
    }
    assert.deepEqual(seen, []);
  });

  for (const attached of [{}, { fanout: false, timeoutMs: 60_000 }]) {
    test(`${name}: a server without routes ignores it: ${JSON.stringify(attached)}`, async (t) => {
      const { call, seen } = await start(t, place, attached);
      for (const given of [config("r"), null]) {
        const { result } = (await call({}, { [NAME]: given })).at(-1);
        assert.equal(result._meta?.["io.tidings/acknowledged"], undefined);
        sawNothingOfIt(seen);
      }
    });
  }

  test(`${name}: the server's own routes are for calls without one`, async (t) => {
    const { call, told } = await start(t, place, { ...ROUTES, defaultRoutes: config("own").routes });
    await call({}, { [NAME]: config("theirs") });
    assert.equal((await told()).data.route, "theirs");
    await call({}, {});
    assert.equal((await told()).data.route, "own");
  });

  test(`${name}: the SDK's own client brings it`, async (t) => {
    const { url, seen, told } = await start(t, place, ROUTES);
    const client = await official(t, url, era);
    const result = await client.callTool({ name: "noop", arguments: {}, _meta: { ...KEPT, [NAME]: config("r") } });
    assert.deepEqual(result._meta["io.tidings/acknowledged"].acceptedRoutes, ["r"]);
    assert.equal((await told()).name, "tool_call.completed");
    sawNothingOfIt(seen);
  });
}

test("a task has it too", async (t) => {
  const { call, seen, told } = await start(t, PLACES[2], { ...ROUTES, tasks: { tools: { noop: "always" } } });
  const { result } = (await call({}, { [NAME]: config("r") }, DECLARED)).at(-1);
  assert.equal(result.resultType, "task");
  assert.equal(result._meta["io.tidings/acknowledged"].callId, result.taskId);
  assert.equal((await told()).data.taskId, result.taskId);
  sawNothingOfIt(seen);
  const [{ error }] = await call({}, { [NAME]: null }, DECLARED);
  assert.equal(error.code, -32602);
  assert.deepEqual(seen, []);
});
