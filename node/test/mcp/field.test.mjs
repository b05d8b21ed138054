// Faults that others reported in public, by their numbers, on servers of both SDKs.
import assert from "node:assert/strict";
import { test } from "node:test";

import { eventStore } from "tidings/mcp";

import { Client, deferred, hub } from "../harness.mjs";
import { mcp, SDKS } from "./servers.mjs";

const said = (message) => ({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: message } });
const data = (events) => events.filter(({ message }) => message?.params).map(({ message }) => message.params.data);

async function back(client, id) {
  let resumed = await client.get(id);
  while (resumed.status === 409) resumed = await client.get(id);
  return resumed;
}

test("B01, B20: a stream is what was stored of it, whatever its id is made of", async (t) => {
  const h = await hub(t);
  const store = eventStore(h, () => ({ sessionId: "s" }));
  const names = ["_GET_stream", "a_b", "a-b", "a:b", "a/b", "a b", "", "a", "a_b_1767225600123_ab12cd34", "é🎉", "x".repeat(300)];
  const ids = new Map();
  for (let n = 0; n < 3; n++) {
    for (const name of names) ids.set(`${name} ${n}`, await store.storeEvent(name, said(`${name} ${n}`)));
  }
  for (const name of names) {
    const id = ids.get(`${name} 0`);
    assert.match(id, /^[\x21-\x7e]+$/, "safe in a header");
    assert.equal(await store.getStreamIdForEventId(id), name);
    const got = [];
    assert.equal(await store.replayEventsAfter(id, { send: async (_id, { params }) => void got.push(params.data) }), name);
    assert.deepEqual(got, [`${name} 1`, `${name} 2`]);
  }
  for (const unknown of ["nope", "", "_GET_stream_1767225600123_ab12cd34", `${ids.get("a 0")}x`]) {
    assert.equal(await store.getStreamIdForEventId(unknown), undefined);
    const sent = [];
    await store.replayEventsAfter(unknown, { send: async (id) => void sent.push(id) });
    assert.deepEqual(sent, []);
  }
});

for (const sdk of SDKS) {
  test(`${sdk}: B02: a client of before 2025-11-25 gets no event without data`, async (t) => {
    const h = await hub(t);
    const { url, steps } = await mcp(t, sdk, h);
    for (const [version, primed] of [["2025-06-18", false], ["2025-11-25", true]]) {
      const client = new Client(url);
      const params = { protocolVersion: version, capabilities: {}, clientInfo: { name: "test", version: "1" } };
      const hello = await client.request("initialize", params);
      client.more = { "mcp-protocol-version": version };
      client.sessionId = hello.response.headers.get("mcp-session-id");
      Object.defineProperty(client, "headers", {
        get: () => ({
          accept: "application/json, text/event-stream",
          "content-type": "application/json",
          "mcp-session-id": client.sessionId,
          "mcp-protocol-version": version,
        }),
      });
      await hello.rest();
      await client.post({ jsonrpc: "2.0", method: "notifications/initialized" });
      steps.allow(2);
      const events = await (await client.request("tools/call", { name: "count", arguments: { total: 1 } })).rest();
      assert.equal(events[0].message === undefined, primed);
      // And nothing of it comes again with a replay.
      const again = await (await back(client, events.find(({ message }) => message).id)).rest();
      assert.ok(again.every(({ message }) => message !== undefined));
    }
  });

  test(`${sdk}: B10, B12: a resume that cannot work is refused at once, with a status`, async (t) => {
    const h = await hub(t);
    const { url, steps } = await mcp(t, sdk, h);
    const client = await new Client(url).initialize();
    steps.allow(2);
    const events = await (await client.request("tools/call", { name: "count", arguments: { total: 1 } })).rest();
    const dead = new Client(url);
    dead.sessionId = "00000000-0000-4000-8000-000000000000";
    assert.equal((await dead.get(events[0].id)).status, 404);
    const [{ id: first }] = events;
    const another = first.replace(/^./, first.startsWith("0") ? "1" : "0");
    for (const id of ["9", "abc", another]) assert.equal((await client.get(id)).status, 400);
    // Nothing is left to be said after the result: the response is complete, and ends.
    const over = await back(client, events.at(-1).id);
    assert.deepEqual([over.status, await over.rest()], [200, []]);
  });

  test(`${sdk}: B11: a request's stream that resumes leaves the session's own stream be`, async (t) => {
    const h = await hub(t);
    const { url, steps, sessions } = await mcp(t, sdk, h);
    const client = await new Client(url).initialize();
    const own = await client.get();
    steps.allow(2);
    const events = await (await client.request("tools/call", { name: "count", arguments: { total: 1 } })).rest();
    for (let round = 0; round < 3; round++) {
      const resumed = await (await back(client, events[0].id)).rest();
      assert.deepEqual(data(resumed), [0]);
      await sessions.get(client.sessionId).transport.send(said(round));
      assert.equal((await own.next()).message.params.data, round);
    }
    // The session's own stream is taken over by whoever comes back for it.
    own.cut();
    await sessions.get(client.sessionId).transport.send(said("while nobody listens"));
    // Until the SDK has noticed that it was cut, it says 409, and before any 200.
    assert.equal((await back(client)).status, 200);
  });

  test(`${sdk}: B23: what is said while nobody listens is kept, the result too`, async (t) => {
    const h = await hub(t);
    const { url, steps } = await mcp(t, sdk, h);
    const client = await new Client(url).initialize();
    const stream = await client.request("tools/call", { name: "count", arguments: { total: 2 } });
    steps.allow(1);
    let first;
    do first = await stream.next();
    while (first.message === undefined);
    stream.cut();
    steps.allow(2);
    const rest = await (await back(client, first.id)).rest();
    assert.deepEqual(data(rest), [1]);
    assert.equal(rest.at(-1).message.result.content[0].text, "done");
  });

  test(`${sdk}: B31: nothing is accepted that is not served, and the tool does not run`, async (t) => {
    const h = await hub(t);
    const heard = deferred();
    h.registerCallback("heard", heard.resolve);
    const { url, steps } = await mcp(t, sdk, h, { attached: { routes: ["callback"], open: ["heard"] } });
    let ran = false;
    void steps.started.promise.then(() => (ran = true));
    const client = await new Client(url).initialize();
    const good = { id: "r", type: "callback", endpoint: "heard", triggers: ["completed"] };
    for (const routes of [
      [{ id: "p", type: "pager", triggers: ["completed"] }],
      [good, { id: "s", type: "signal", triggers: ["completed"], signal: "SIGUSR2" }],
      [good, good],
      [],
    ]) {
      const call = { name: "count", arguments: { total: 0 }, notificationConfig: { routes } };
      const { error } = (await (await client.request("tools/call", call)).rest()).at(-1).message;
      assert.equal(error.code, -32602);
      assert.ok(error.data.faults[0].path.startsWith("/routes"));
    }
    assert.equal(ran, false);
    // A trigger that nobody knows is kept, never fires, and is named.
    steps.allow(1);
    const routes = [{ ...good, triggers: ["completed", "later"] }];
    const call = { name: "count", arguments: { total: 0 }, notificationConfig: { routes } };
    const { result } = (await (await client.request("tools/call", call)).rest()).at(-1).message;
    assert.deepEqual(result._meta["io.tidings/acknowledged"].acceptedRoutes, ["r"]);
    assert.deepEqual(result._meta["io.tidings/acknowledged"].ignoredTriggers, ["later"]);
    await heard.promise;
  });
}
