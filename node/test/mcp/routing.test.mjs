// Who may be told where: `message` routes into the calling session, and the operator's policy, on both SDKs.
import assert from "node:assert/strict";
import { after, test } from "node:test";

import { attach } from "tidings/mcp";

import { Client, deferred, hub, Sse } from "../harness.mjs";
import { author, bothEras, post } from "./eras.mjs";

const alive = setInterval(() => {}, 1_000);
after(() => clearInterval(alive));

const TRIGGERED = "notifications/io.tidings/triggered";

async function call(client, routes) {
  const stream = await client.request("tools/call", { name: "noop", arguments: {}, notificationConfig: { routes } });
  return (await stream.rest()).at(-1).message;
}

async function supported(url) {
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } };
  const { result } = (await (await new Client(url).request("initialize", params)).rest()).at(-1).message;
  return result.capabilities.notificationConfig.supportedRouteTypes;
}

const MESSAGE = { id: "m", type: "message", triggers: ["completed"] };

/** A call that runs until `gate` opens, and then tells its session, or else who has `fired`. */
async function running(t, sdk, options = {}) {
  const h = await hub(t);
  const [gate, reached, fired] = [deferred(), deferred(), deferred()];
  const make = (Server) => {
    const server = new Server({ name: "test", version: "1" });
    server.registerTool("noop", {}, async () => {
      reached.resolve();
      await gate.promise;
      return { content: [] };
    });
    return server;
  };
  const attached = { routes: ["message", "callback"], open: ["heard"] };
  const { url, sessions } = await bothEras(t, h, { sdk, make, attached, ...options });
  h.registerCallback("heard", (delivery) => fired.resolve(JSON.parse(delivery.body)));
  const client = await new Client(url).initialize();
  const routes = [MESSAGE, { id: "c", type: "callback", endpoint: "heard", triggers: ["completed"] }];
  await client.request("tools/call", { name: "noop", arguments: {}, notificationConfig: { routes } });
  await reached.promise;
  return { client, sessions, gate, fired };
}

for (const sdk of [2, 1]) {
  test(`sdk ${sdk}: a message goes into the calling session, and into no other`, async (t) => {
    const h = await hub(t);
    const { url } = await bothEras(t, h, { sdk, attached: { routes: ["webhook", "message"] } });
    const [mine, other] = [await new Client(url).initialize(), await new Client(url).initialize()];
    const [stream, theirs] = [await mine.get(), await other.get()];
    const { result } = await call(mine, [MESSAGE]);
    const { callId } = result._meta["io.tidings/acknowledged"];
    const { message } = await stream.next();
    assert.equal(message.method, TRIGGERED);
    assert.equal(message.params.name, "tool_call.completed");
    assert.equal(message.params.data.callId, callId);
    assert.deepEqual(message.params.data.outcome.result.content, result.content);
    // The next thing that the other session hears is what everybody hears.
    h.notify("tools");
    assert.equal((await theirs.next()).message.method, "notifications/tools/list_changed");
  });

  test(`sdk ${sdk}: a message to a session that is over goes to the next route`, async (t) => {
    const { client, sessions, gate, fired } = await running(t, sdk);
    await sessions.get(client.sessionId).transport.close();
    gate.resolve();
    assert.equal((await fired.promise).data.route, "c");
  });

  test(`sdk ${sdk}: a message goes to the next route while a host takes its time with a session that its client ended`, async (t) => {
    const [ended, told] = [deferred(), deferred()];
    const ending = () => {
      ended.resolve();
      return told.promise;
    };
    const { client, gate, fired } = await running(t, sdk, { ending });
    const deleted = client.delete();
    await ended.promise;
    // The SDK still takes what is sent.
    gate.resolve();
    assert.equal((await fired.promise).data.route, "c");
    told.resolve();
    assert.equal((await deleted).status, 200);
  });

  test(`sdk ${sdk}: a message that is on its way when a client ends its session goes to the next route`, async (t) => {
    const [onItsWay, stored] = [deferred(), deferred()];
    const watchStore = (store) => {
      const storeEvent = store.storeEvent.bind(store);
      store.storeEvent = async (streamId, message) => {
        if (message.method === TRIGGERED) {
          onItsWay.resolve();
          await stored.promise;
        }
        return storeEvent(streamId, message);
      };
    };
    const { client, gate, fired } = await running(t, sdk, { watchStore });
    gate.resolve();
    await onItsWay.promise;
    assert.equal((await client.delete()).status, 200);
    stored.resolve();
    assert.equal((await fired.promise).data.route, "c");
  });

  test(`sdk ${sdk}: a client stops a call by its id, of its own session only`, async (t) => {
    const h = await hub(t);
    const stopped = deferred();
    const make = (Server) => {
      const server = new Server({ name: "test", version: "1" });
      server.registerTool("noop", {}, (context) => {
        const signal = context.signal ?? context.mcpReq.signal;
        return new Promise((_, reject) => signal.addEventListener("abort", () => reject(stopped.resolve())));
      });
      return server;
    };
    const { url } = await bothEras(t, h, { sdk, make, attached: { routes: ["callback"], open: ["heard"] } });
    const [mine, other] = [await new Client(url).initialize(), await new Client(url).initialize()];
    const routes = [{ id: "c", type: "callback", endpoint: "heard", triggers: ["completed"] }];
    const stream = await mine.request("tools/call", { name: "noop", arguments: {}, notificationConfig: { routes } });
    let event;
    do event = await stream.next();
    while (event.message?.method !== "notifications/config/acknowledged");
    const { callId } = event.message.params;
    const cancel = async (client, params) =>
      (await (await client.request("io.tidings/calls/cancel", params)).rest()).at(-1).message;
    assert.equal((await cancel(other, { callId })).error.message, "Unknown call");
    assert.equal((await cancel(mine, {})).error.code, -32602);
    assert.deepEqual((await cancel(mine, { callId })).result, {});
    await stopped.promise;
    assert.equal((await stream.rest()).at(-1).message.error.data.reason, "cancelled");
  });

  test(`sdk ${sdk}: a session is offered what it can have`, async (t) => {
    const h = await hub(t);
    const routes = ["webhook", "message", "callback"];
    const kept = await bothEras(t, h, { sdk, attached: { routes } });
    assert.deepEqual(await supported(kept.url), ["webhook", "message"]);
    const without = await bothEras(t, h, { sdk, store: false, attached: { routes } });
    assert.deepEqual(await supported(without.url), ["webhook"]);
    // The process at the other end of stdin is not who calls over HTTP.
    const rung = await bothEras(t, h, { sdk, attached: { routes: ["signal", "message"], signalAsRoot: true } });
    assert.deepEqual(await supported(rung.url), ["message"]);
    const { error } = await call(await new Client(without.url).initialize(), [MESSAGE]);
    assert.deepEqual([error.code, error.data.faults[0].path], [-32602, "/routes/0/type"]);
    const judged = await bothEras(t, h, { sdk, store: false, attached: { routes, policy: () => true } });
    assert.deepEqual(await supported(judged.url), routes);
  });

  test(`sdk ${sdk}: a policy allows, denies, rewrites, and refuses where it fails`, async (t) => {
    const h = await hub(t);
    const asked = [];
    const decisions = {
      plain: true,
      no: false,
      never: { deny: "not you" },
      opened: { open: ["heard"] },
      elsewhere: { open: ["heard"], rewrite: { routes: [{ id: "x", type: "callback", endpoint: "heard", triggers: ["completed"] }] } },
      odd: "perhaps",
    };
    const policy = async (request) => {
      asked.push(request);
      const { id } = request.config.routes[0];
      request.config.routes = []; // a copy, which changes nothing
      if (!(id in decisions)) throw new Error("it broke");
      return decisions[id];
    };
    const { url } = await bothEras(t, h, { sdk, attached: { routes: ["callback"], policy } });
    const told = [];
    h.registerCallback("heard", (delivery) => void told.push(delivery.route));
    const client = await new Client(url).initialize();
    const callback = (id) => [{ id, type: "callback", endpoint: "heard", triggers: ["completed"] }];
    // Allowed, but not by that name.
    assert.equal((await call(client, callback("plain"))).error.data.faults[0].path, "/routes/0/endpoint");
    const no = (await call(client, callback("no"))).error;
    assert.deepEqual([no.code, no.data.faults[0].rule, no.data.total], [-32602, "denied", 1]);
    const never = (await call(client, callback("never"))).error;
    assert.deepEqual(never.data.faults, [{ path: "", rule: "denied", message: "not you" }]);
    for (const id of ["broken", "odd"]) {
      const { error } = await call(client, callback(id));
      assert.deepEqual([error.code, error.data], [-32603, { reason: "policy_failed", retryable: true }]);
    }
    assert.deepEqual((await call(client, callback("opened"))).result._meta["io.tidings/acknowledged"].acceptedRoutes, ["opened"]);
    assert.deepEqual((await call(client, callback("elsewhere"))).result._meta["io.tidings/acknowledged"].acceptedRoutes, ["x"]);
    while (told.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    assert.deepEqual(told.sort(), ["opened", "x"]);
    const { principal, session, tool } = asked[0];
    assert.deepEqual([principal, session, tool], [`session:${client.sessionId}`, client.sessionId, "noop"]);
  });
}

for (const era of ["legacy", "modern"]) {
  test(`the server's own routes are for calls without a config, and nobody is told of them: ${era}`, async (t) => {
    const h = await hub(t);
    const came = [];
    let more = deferred();
    h.registerCallback("mine", ({ route, body }) => {
      came.push([route, JSON.parse(body).data.tool]);
      more.resolve();
      more = deferred();
    });
    const make = (Server) => {
      const server = author(Server);
      server.registerTool("other", {}, () => ({ content: [] }));
      return server;
    };
    const own = { id: "own", type: "callback", endpoint: "mine", triggers: ["completed"] };
    const attached = { routes: ["callback"], open: ["mine"], policy: () => true, defaultRoutes: { noop: [own] } };
    const { url } = await bothEras(t, h, { make, attached });
    const session = era === "legacy" ? await new Client(url).initialize() : undefined;
    const run = async (params) => {
      const asked = { name: "noop", arguments: {}, ...params };
      if (session !== undefined) return messages(await session.request("tools/call", asked));
      const response = await post(url, "tools/call", asked);
      if (response.headers.get("content-type").startsWith("application/json")) return [await response.json()];
      return messages(new Sse(response));
    };
    const messages = async (stream) => (await stream.rest()).flatMap(({ message }) => message ?? []);
    let heard = more.promise;
    const [answer, ...others] = await run({});
    await heard;
    assert.deepEqual([others, answer.result._meta?.["io.tidings/acknowledged"]], [[], undefined]);
    // A client that brings a config is told by that only, and other tools have no routes.
    heard = more.promise;
    await run({ notificationConfig: { routes: [{ ...own, id: "theirs" }] } });
    await heard;
    heard = more.promise;
    await run({ name: "other" });
    await run({});
    await heard;
    assert.deepEqual(came, [["own", "noop"], ["theirs", "noop"], ["own", "noop"]]);
  });
}

test("a message of the server's own goes into the calling session, and where there is none the call runs all the same", async (t) => {
  const h = await hub(t);
  const { url } = await bothEras(t, h, { make: author, attached: { defaultRoutes: [MESSAGE] } });
  const client = await new Client(url).initialize();
  const own = await client.get();
  await (await client.request("tools/call", { name: "noop", arguments: {} })).rest();
  const { message } = await own.next();
  assert.deepEqual([message.method, message.params.data.route], [TRIGGERED, "m"]);
  const { result } = await (await post(url, "tools/call", { name: "noop", arguments: {} })).json();
  assert.deepEqual(result.content, []);
});

test("routes of the server's own that could not be used are refused when it is attached", async (t) => {
  const h = await hub(t);
  const { McpServer } = await import("@modelcontextprotocol/server");
  for (const [defaultRoutes, field] of [
    ["message", "defaultRoutes"],
    [[{ id: "a" }], "defaultRoutes"],
    [{ noop: [{ id: "p", type: "pager", triggers: ["completed"] }] }, 'defaultRoutes["noop"]'],
    [{ noop: MESSAGE }, 'defaultRoutes["noop"]'],
  ]) {
    const wrong = () => attach(author(McpServer), h, { defaultRoutes });
    assert.throws(wrong, (error) => error.code === "invalid_argument" && error.message.startsWith(`${field}: `));
  }
});

test("2026-07-28 has no session that a message could go into", async (t) => {
  const h = await hub(t);
  const { url } = await bothEras(t, h, { make: author, attached: { routes: ["webhook", "message"] } });
  const discovered = await (await post(url, "server/discover", {})).json();
  assert.deepEqual(discovered.result.capabilities.notificationConfig.supportedRouteTypes, ["webhook"]);
  const params = { name: "noop", arguments: {}, notificationConfig: { routes: [MESSAGE] } };
  const { error } = await (await post(url, "tools/call", params)).json();
  assert.equal(error.data.faults[0].path, "/routes/0/type");
});
