// A notificationConfig on tools/call, on both SDKs, over real HTTP. Outcomes are heard by a callback route.
import assert from "node:assert/strict";
import { after, test } from "node:test";

import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler } from "@modelcontextprotocol/server";
import { attach } from "tidings/mcp";

import { Client, deferred, hub, serve } from "../harness.mjs";
import { mcp, mcpServer, SDKS, Steps } from "./servers.mjs";

const alive = setInterval(() => {}, 1_000);
after(() => clearInterval(alive));

const ROUTES = { routes: ["callback"], open: ["heard"] };

function config(...triggers) {
  return { routes: [{ id: "r", type: "callback", endpoint: "heard", triggers }] };
}

/** Resolves to the first firing. */
function heard(h) {
  const fired = deferred();
  h.registerCallback("heard", (delivery) => fired.resolve(JSON.parse(delivery.body)));
  return fired.promise;
}

for (const sdk of SDKS) {
  test(`${sdk}: the capability is told, under both its names`, async (t) => {
    const h = await hub(t);
    const { url } = await mcp(t, sdk, h, { attached: ROUTES });
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } };
    const events = await (await new Client(url).request("initialize", params)).rest();
    const { capabilities } = events.at(-1).message.result;
    const capability = { supportedRouteTypes: ["callback"] };
    assert.deepEqual(capabilities.notificationConfig, capability);
    assert.deepEqual(capabilities.extensions["io.tidings/notification-config"], capability);
  });

  test(`${sdk}: a call is acknowledged before its tool runs, and its end is told`, async (t) => {
    const h = await hub(t);
    const firing = heard(h);
    const { url, steps } = await mcp(t, sdk, h, { attached: ROUTES });
    const client = await new Client(url).initialize();
    const call = { name: "count", arguments: { total: 1 }, notificationConfig: config("completed") };
    const stream = await client.request("tools/call", call);
    assert.equal((await stream.next()).message, undefined);
    const { message } = await stream.next();
    assert.equal(message.method, "notifications/config/acknowledged");
    assert.deepEqual(message.params.acceptedRoutes, ["r"]);
    assert.equal(message.params.requestId, client.nextId);
    steps.allow(2);
    const rest = await stream.rest();
    assert.equal(rest[0].message.params.data, 0);
    const { result } = rest.at(-1).message;
    assert.deepEqual(result._meta["io.tidings/acknowledged"], message.params);
    const body = await firing;
    assert.equal(body.name, "tool_call.completed");
    assert.equal(body.data.callId, message.params.callId);
    assert.deepEqual(body.data.outcome.result.content, result.content);
    // What the tool said is kept with the call.
    const { events } = await h.stream(`call:${message.params.callId}`, "events").read();
    assert.deepEqual(events.map(({ type }) => type), ["io.tidings.log", "io.tidings.outcome"]);
  });

  test(`${sdk}: a bad config is refused whole with its faults, and no tool runs`, async (t) => {
    const h = await hub(t);
    const { url } = await mcp(t, sdk, h, { attached: ROUTES });
    const client = await new Client(url).initialize();
    const notificationConfig = { routes: [{ id: "r", type: "webhook", endpoint: "https://example.com", triggers: ["completed"] }] };
    const call = { name: "count", arguments: { total: 0 }, notificationConfig };
    const { error } = (await (await client.request("tools/call", call)).rest()).at(-1).message;
    assert.equal(error.code, -32602);
    assert.equal(error.data.total, error.data.faults.length);
    assert.equal(error.data.faults[0].path, "/routes/0/type");
  });

  test(`${sdk}: a cancel stops the tool, is told as cancelled, and ends the stream`, async (t) => {
    const h = await hub(t);
    const firing = heard(h);
    const { url, steps } = await mcp(t, sdk, h, { attached: ROUTES });
    const client = await new Client(url).initialize();
    const call = { name: "count", arguments: { total: 5 }, notificationConfig: config("cancelled", "completed") };
    const stream = await client.request("tools/call", call);
    const signal = await steps.started.promise;
    const stopped = new Promise((resolve) => signal.addEventListener("abort", resolve));
    await client.post({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: client.nextId, reason: "user" } });
    await stopped;
    assert.equal((await firing).name, "tool_call.cancelled");
    const last = (await stream.rest()).at(-1).message;
    assert.equal(last.id, client.nextId);
    assert.equal(last.error.data.reason, "cancelled");
  });

  test(`${sdk}: the server's time limit stops the tool and answers with an error`, async (t) => {
    const h = await hub(t);
    const firing = heard(h);
    const { url, steps } = await mcp(t, sdk, h, { attached: { ...ROUTES, timeoutMs: { count: 1_000 } } });
    const client = await new Client(url).initialize();
    const call = { name: "count", arguments: { total: 5 }, notificationConfig: config("timeout") };
    const stream = await client.request("tools/call", call);
    const signal = await steps.started.promise;
    const { error } = (await stream.rest()).at(-1).message;
    assert.equal(error.data.reason, "timeout");
    assert.equal(signal.aborted, true);
    assert.equal((await firing).name, "tool_call.timeout");
  });

  test(`${sdk}: a session that closes does not end its call`, async (t) => {
    const h = await hub(t);
    const firing = heard(h);
    const { url, steps, sessions } = await mcp(t, sdk, h, { attached: ROUTES });
    const client = await new Client(url).initialize();
    const call = { name: "count", arguments: { total: 1 }, notificationConfig: config("completed", "cancelled") };
    await client.request("tools/call", call);
    const signal = await steps.started.promise;
    await sessions.get(client.sessionId).transport.close();
    steps.allow(2);
    assert.equal((await firing).name, "tool_call.completed");
    assert.equal(signal.aborted, false);
  });

  test(`${sdk}: a call without a config is left alone`, async (t) => {
    const h = await hub(t);
    const { url, steps } = await mcp(t, sdk, h, { attached: ROUTES });
    const client = await new Client(url).initialize();
    steps.allow(1);
    const { result } = (await (await client.request("tools/call", { name: "count", arguments: { total: 0 } })).rest()).at(-1).message;
    assert.equal(result._meta, undefined);
  });
}

test("2026-07-28: a client that leaves has its call go on, and is told how it ended", async (t) => {
  const h = await hub(t);
  const firing = heard(h);
  const steps = new Steps();
  const handler = createMcpHandler(() => {
    const server = mcpServer("server 2.4", steps);
    attach(server, h, ROUTES);
    return server;
  });
  t.after(() => handler.close());
  const url = await serve(t, (request, response, body) => toNodeHandler(handler)(request, response, body));
  const abort = new AbortController();
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const params = { name: "count", arguments: { total: 1 }, notificationConfig: config("completed", "cancelled"), _meta: meta };
  const asked = fetch(url, {
    method: "POST",
    headers: {
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/call",
      "mcp-name": "count",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: "a", method: "tools/call", params }),
    signal: abort.signal,
  }).then((response) => response.text(), () => undefined);
  const signal = await Promise.race([steps.started.promise, asked.then((text) => assert.fail(text))]);
  abort.abort();
  await asked;
  // The SDK has noticed once the hub counts the call as detached; the tool goes on either way.
  steps.allow(2);
  const body = await firing;
  assert.equal(body.name, "tool_call.completed");
  assert.equal(body.data.requestId, "a");
  assert.equal(signal.aborted, false);
});
