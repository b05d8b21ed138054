// What the SDKs call, in which order, and what of theirs the adapter relies on and is not public: a release that changes it
// is noticed here.
import assert from "node:assert/strict";
import { test } from "node:test";

import { eventStore } from "tidings/mcp";

import { Client, deferred, hub } from "../harness.mjs";
import { mcp, SDKS } from "./servers.mjs";

/** A message by its kind. */
function kind(message) {
  if (Object.keys(message).length === 0) return "priming";
  return message.method ?? ("result" in message ? "result" : "error");
}

/** Writes down the calls of a session's store: each stream by the order of its first message. */
function record(store) {
  const calls = [];
  const names = new Map([["_GET_stream", "GET"]]);
  const name = (id) => {
    if (!names.has(id)) names.set(id, `stream ${names.size - 1}`);
    return names.get(id);
  };
  const { storeEvent, getStreamIdForEventId, replayEventsAfter } = store;
  store.storeEvent = (streamId, message) => {
    calls.push(`store ${name(streamId)} ${kind(message)}`);
    return storeEvent.call(store, streamId, message);
  };
  store.getStreamIdForEventId = async (id) => {
    const found = await getStreamIdForEventId.call(store, id);
    calls.push(`find ${found === undefined ? "nothing" : name(found)}`);
    return found;
  };
  store.replayEventsAfter = async (id, { send }) => {
    const sent = [];
    const streamId = await replayEventsAfter.call(store, id, {
      send: (eventId, message) => {
        sent.push(kind(message));
        return send(eventId, message);
      },
    });
    calls.push(`replay ${name(streamId)}: ${sent.join(" ")}`);
    return streamId;
  };
  return calls;
}

const SAID = "notifications/message";

test("what is stored while a replay of its stream runs goes out after it, and other streams wait for nothing", async (t) => {
  const h = await hub(t);
  const store = eventStore(h, () => ({ sessionId: "s" }));
  const say = (data) => ({ jsonrpc: "2.0", method: SAID, params: { level: "info", data } });
  const [first] = [await store.storeEvent("a", say(0)), await store.storeEvent("a", say(1)), await store.storeEvent("a", say(2))];
  const order = [];
  const [reached, gate] = [deferred(), deferred()];
  const send = async (_id, { params }) => {
    order.push(`replayed ${params.data}`);
    reached.resolve();
    await gate.promise;
  };
  const replay = store.replayEventsAfter(first, { send }).then(() => order.push("replay over"));
  await reached.promise;
  const live = store.storeEvent("a", say(3)).then(() => order.push("live"));
  await store.storeEvent("b", say(0)).then(() => order.push("another stream"));
  gate.resolve();
  await Promise.all([replay, live]);
  // The SDK registers the stream for what is live in the turn after the replay.
  assert.deepEqual(order, ["replayed 1", "another stream", "replayed 2", "replay over", "live"]);
});

for (const sdk of SDKS) {
  test(`${sdk}: what is asked of an event store, in order`, async (t) => {
    const h = await hub(t);
    let calls;
    const { url, steps, sessions } = await mcp(t, sdk, h, { watchStore: (store) => (calls = record(store)) });
    const client = await new Client(url).initialize();
    assert.deepEqual(calls.splice(0), ["store stream 0 priming", "store stream 0 result"]);

    const stream = await client.request("tools/call", { name: "count", arguments: { total: 3 } });
    assert.equal((await stream.next()).message, undefined);
    steps.allow(1);
    const first = await stream.next();
    assert.deepEqual(calls.splice(0), ["store stream 1 priming", `store stream 1 ${SAID}`]);
    stream.cut();
    steps.allow(1);
    let resumed = await client.get(first.id);
    while (resumed.status === 409) resumed = await client.get(first.id);
    assert.equal((await resumed.next()).message.params.data, 1);
    // It is looked for before each 409 too. No priming event anew.
    const seen = calls.splice(0);
    assert.deepEqual([...new Set(seen)], [`store stream 1 ${SAID}`, "find stream 1", `replay stream 1: ${SAID}`]);
    steps.allow(2);
    const rest = await resumed.rest();
    assert.equal(rest.at(-1).message.result.content[0].text, "done");
    assert.deepEqual(calls.splice(0), [`store stream 1 ${SAID}`, "store stream 1 result"]);

    // Nobody listens to the session's own stream, and what is said there is stored all the same.
    const { server, transport } = sessions.get(client.sessionId);
    await server.server.sendToolListChanged();
    assert.deepEqual(calls.splice(0), ["store GET notifications/tools/list_changed"]);
    assert.equal((await client.get("abc")).status, 400);
    assert.deepEqual(calls.splice(0), ["find nothing"]);

    const inside = transport._webStandardTransport ?? transport;
    assert.ok(inside._streamMapping instanceof Map);
    assert.equal(typeof inside._eventStore.storeEvent, "function");
    for (const handlers of ["_requestHandlers", "_notificationHandlers"]) assert.ok(server.server[handlers] instanceof Map);
    assert.ok(server.server._requestHandlers.has("tools/call"));
  });

  test(`${sdk}: a cancelled call is answered by nothing of the SDK's, and by an error of ours`, async (t) => {
    for (const attached of [undefined, { routes: ["callback"], open: ["heard"] }]) {
      const h = await hub(t);
      let calls;
      const { url, steps } = await mcp(t, sdk, h, { attached, watchStore: (store) => (calls = record(store)) });
      const client = await new Client(url).initialize();
      const route = { id: "r", type: "callback", endpoint: "heard", triggers: ["cancelled"] };
      const notificationConfig = attached && { routes: [route] };
      const stream = await client.request("tools/call", { name: "count", arguments: { total: 1 }, notificationConfig });
      const signal = await steps.started.promise;
      const aborted = new Promise((resolve) => signal.addEventListener("abort", resolve));
      calls.splice(0);
      const params = { requestId: client.nextId, reason: "enough" };
      await client.post({ jsonrpc: "2.0", method: "notifications/cancelled", params });
      await aborted;
      steps.allow(2);
      if (attached) {
        const { message } = (await stream.rest()).at(-1);
        assert.equal(message.error.data.reason, "cancelled");
        assert.equal(calls.at(-1), "store stream 1 error");
      } else {
        // The stream stays open for ever: another request is answered, and nothing was stored for this one.
        await (await client.request("tools/list", {})).rest();
        assert.deepEqual(calls.filter((call) => /^store stream 1 (result|error)$/.test(call)), []);
      }
      stream.cut();
    }
  });
}
