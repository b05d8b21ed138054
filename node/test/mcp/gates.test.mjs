// What a server says about its requests is held to the protocol: progress and log messages, on both SDKs and in both eras.
import assert from "node:assert/strict";
import { test } from "node:test";

import { attach } from "tidings/mcp";

import { Client, deferred, hub } from "../harness.mjs";
import { bothEras, post } from "./eras.mjs";

const PROGRESS = "notifications/progress";
const MESSAGE = "notifications/message";

/** A tool that does what the test says with `notify` and its server; capabilities with logging. */
function speaking(run) {
  return (Server) => {
    const server = new Server({ name: "test", version: "1" }, { capabilities: { logging: {} } });
    server.registerTool("noop", {}, async (context) => {
      const notify = context.sendNotification ?? ((notification) => context.mcpReq.notify(notification));
      await run({ notify, server: server.server });
      return { content: [] };
    });
    return server;
  };
}

const call = (meta) => ({ name: "noop", arguments: {}, ...(meta === undefined ? {} : { _meta: meta }) });
const said = (events, method) => events.filter(({ message }) => message?.method === method).map(({ message }) => message.params);

for (const sdk of [2, 1]) {
  test(`sdk ${sdk}: B47, B49: progress rises, under the token of its request and on its stream, and ends with it`, async (t) => {
    const h = await hub(t);
    let after;
    const make = speaking(async ({ notify, server }) => {
      const report = (progressToken, progress) => notify({ method: PROGRESS, params: { progressToken, progress, total: 9 } });
      await report("invented", 1);
      await report("invented", 3);
      await report(0, 2);
      await report(0, 3);
      // Of no request in particular, but by its token.
      await server.notification({ method: PROGRESS, params: { progressToken: 0, progress: 4 } });
      await server.notification({ method: PROGRESS, params: { progressToken: "0", progress: 5 } });
      await assert.rejects(async () => report(0, Number.NaN), { code: "invalid_argument", message: /^progress: / });
      await report(0, 9);
      after = () => report(0, 10);
    });
    const { url } = await bothEras(t, h, { sdk, make });
    const client = await new Client(url).initialize();
    const own = await client.get();
    const events = await (await client.request("tools/call", call({ progressToken: 0 }))).rest();
    const told = said(events, PROGRESS);
    assert.deepEqual(told.map(({ progress }) => progress), [1, 3, 4, 9]);
    assert.deepEqual(new Set(told.map(({ progressToken }) => progressToken)), new Set([0]));
    assert.equal(told[0].total, 9);
    await after();
    const without = await (await client.request("tools/call", call())).rest();
    assert.deepEqual(said(without, PROGRESS), [], "nobody asked for it");
    // The first thing that the session's own stream hears is what is for it.
    h.notify("tools");
    assert.equal((await own.next()).message.method, "notifications/tools/list_changed");
  });

  test(`sdk ${sdk}: B55: a session hears the levels that it asked for, and no other session does`, async (t) => {
    const h = await hub(t);
    const make = speaking(async ({ notify, server }) => {
      for (const level of ["info", "warning", "emergency"]) await notify({ method: MESSAGE, params: { level, data: level } });
      await server.sendLoggingMessage({ level: "info", data: "beside the request" });
      await server.sendLoggingMessage({ level: "error", data: "beside the request" });
    });
    const { url } = await bothEras(t, h, { sdk, make });
    const levels = async (level) => {
      const client = await new Client(url).initialize();
      if (level !== undefined) await (await client.request("logging/setLevel", { level })).rest();
      const own = await client.get();
      const events = await (await client.request("tools/call", call())).rest();
      return [said(events, MESSAGE).map(({ data }) => data), (await own.next()).message.params.level];
    };
    assert.deepEqual(await levels("warning"), [["warning", "emergency"], "error"]);
    assert.deepEqual(await levels("debug"), [["info", "warning", "emergency"], "info"]);
    assert.deepEqual(await levels(undefined), [["info", "warning", "emergency"], "info"]);
    const client = await new Client(url).initialize();
    const [{ message }] = await (await client.request("logging/setLevel", { level: "loud" })).rest().then((all) => all.slice(-1));
    assert.ok(message.error, "a level that there is not");
  });
}

test("B55: 2026-07-28: a request hears the levels that it asked for itself, or none", async (t) => {
  const h = await hub(t);
  const make = speaking(async ({ notify }) => {
    for (const level of ["info", "warning"]) await notify({ method: MESSAGE, params: { level, data: level } });
  });
  const { url } = await bothEras(t, h, { make });
  const levels = async (meta) => {
    const response = await post(url, "tools/call", { name: "noop", arguments: {} }, { meta });
    const text = await response.text();
    return ["info", "warning"].filter((level) => text.includes(`"data":"${level}"`));
  };
  assert.deepEqual(await levels({}), []);
  assert.deepEqual(await levels({ "io.modelcontextprotocol/logLevel": "warning" }), ["warning"]);
  assert.deepEqual(await levels({ "io.modelcontextprotocol/logLevel": "debug" }), ["info", "warning"]);
});

test("a watched call has on record what its client did not ask for", async (t) => {
  const h = await hub(t);
  const make = speaking(async ({ notify }) => {
    await notify({ method: MESSAGE, params: { level: "debug", data: "quiet" } });
    await notify({ method: PROGRESS, params: { progressToken: "invented", progress: 1 } });
  });
  const { url } = await bothEras(t, h, { make, attached: { routes: ["callback"], open: ["heard"] } });
  const heard = deferred();
  h.registerCallback("heard", (delivery) => heard.resolve(JSON.parse(delivery.body).data));
  const client = await new Client(url).initialize();
  await (await client.request("logging/setLevel", { level: "error" })).rest();
  const routes = [{ id: "c", type: "callback", endpoint: "heard", triggers: ["completed"] }];
  const events = await (await client.request("tools/call", { ...call(), notificationConfig: { routes } })).rest();
  assert.deepEqual([...said(events, MESSAGE), ...said(events, PROGRESS)], []);
  const { seq } = await heard.promise;
  assert.equal(seq, 2, "its outcome is the third event");
});

test("progress that comes too often is left out, but for its end; an interval that is none is refused", async (t) => {
  const h = await hub(t);
  const make = speaking(async ({ notify }) => {
    for (let progress = 1; progress <= 50; progress++) {
      await notify({ method: PROGRESS, params: { progressToken: "t", progress, total: 50 } });
    }
  });
  const { url } = await bothEras(t, h, { make, attached: { progressIntervalMs: 3_600_000 } });
  const client = await new Client(url).initialize();
  const events = await (await client.request("tools/call", call({ progressToken: "t" }))).rest();
  assert.deepEqual(said(events, PROGRESS).map(({ progress }) => progress), [1, 50]);
  for (const progressIntervalMs of [-1, 0.5, Number.NaN]) {
    await assert.rejects(
      async () => attach(speaking(() => {})((await import("@modelcontextprotocol/server")).McpServer), h, { progressIntervalMs }),
      { code: "invalid_argument", message: /^progressIntervalMs: / },
    );
  }
});
