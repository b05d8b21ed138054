// The defects that were proved on the SDKs with their own example stores, each against ours.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, hub } from "../harness.mjs";
import { mcp, SDKS } from "./servers.mjs";

const data = (events) => events.filter(({ message }) => message?.params).map(({ message }) => message.params.data);

for (const sdk of SDKS) {
  test(`${sdk}: a stream that is cut after any event resumes without a gap or a double`, async (t) => {
    const TOTAL = 12;
    const h = await hub(t);
    const { url, steps } = await mcp(t, sdk, h);
    const client = await new Client(url).initialize();
    for (let cut = 1; cut <= TOTAL; cut++) {
      const stream = await client.request("tools/call", { name: "count", arguments: { total: TOTAL } });
      const priming = await stream.next();
      assert.equal(priming.message, undefined);
      steps.allow(cut);
      const before = [];
      while (before.length < cut) before.push(await stream.next());
      stream.cut();
      // Some while nobody listens, the rest while the replay runs.
      steps.allow(Math.min(3, TOTAL - cut));
      const resuming = client.get(before.at(-1).id);
      steps.allow(Math.max(0, TOTAL - cut - 3) + 1);
      let resumed = await resuming;
      // The SDK answers 409 until it has noticed that the old connection is gone.
      while (resumed.status === 409) resumed = await client.get(before.at(-1).id);
      assert.equal(resumed.status, 200);
      const after = await resumed.rest();
      assert.deepEqual([...data(before), ...data(after)], [...Array(TOTAL).keys()]);
      assert.deepEqual(after.at(-1).message.result.content, [{ type: "text", text: "done" }]);
      // Once more, from the same event: the stream is over and told again from the store.
      const again = await (await client.get(before.at(-1).id)).rest();
      assert.deepEqual(again.map(({ id }) => id), after.map(({ id }) => id));
      // And from its priming event, all of it.
      const whole = await (await client.get(priming.id)).rest();
      assert.deepEqual(data(whole), [...Array(TOTAL).keys()]);
    }
  });

  test(`${sdk}: an event id of another session is refused and replays nothing`, async (t) => {
    const h = await hub(t);
    const { url, steps } = await mcp(t, sdk, h);
    const ann = await new Client(url).initialize();
    const bob = await new Client(url).initialize();
    steps.allow(3);
    const events = await (await ann.request("tools/call", { name: "count", arguments: { total: 2 } })).rest();
    const stolen = await bob.get(events[1].id);
    assert.equal(stolen.status, 400);
    assert.ok(!(await stolen.response.text()).includes("done"));
    const own = await (await ann.get(events[1].id)).rest();
    assert.equal(own.at(-1).message.result.content[0].text, "done");
    assert.equal((await bob.get("no event id")).status, 400);
  });

  test(`${sdk}: the sessions' own streams are two, though the SDK calls both by one name`, async (t) => {
    const h = await hub(t);
    const { url, sessions } = await mcp(t, sdk, h);
    const ann = await new Client(url).initialize();
    const bob = await new Client(url).initialize();
    const annStream = await ann.get();
    const bobStream = await bob.get();
    const tell = (client, data) =>
      sessions
        .get(client.sessionId)
        .transport.send({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data } });
    await tell(ann, "for ann 1");
    await tell(bob, "for bob 1");
    const first = await annStream.next();
    assert.equal(first.message.params.data, "for ann 1");
    assert.equal((await bobStream.next()).message.params.data, "for bob 1");
    annStream.cut();
    await tell(ann, "for ann 2");
    await tell(bob, "for bob 2");
    let resumed = await ann.get(first.id);
    while (resumed.status === 409) resumed = await ann.get(first.id);
    assert.equal((await resumed.next()).message.params.data, "for ann 2");
    // It goes on live, on the connection that was resumed.
    await tell(ann, "for ann 3");
    assert.equal((await resumed.next()).message.params.data, "for ann 3");
    resumed.cut();
    bobStream.cut();
  });

  test(`${sdk}: many messages at once keep their order on the wire`, async (t) => {
    const h = await hub(t);
    const { url, sessions } = await mcp(t, sdk, h);
    const client = await new Client(url).initialize();
    const stream = await client.get();
    const { transport } = sessions.get(client.sessionId);
    const sent = [...Array(500).keys()];
    await Promise.all(
      sent.map((data) => transport.send({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data } })),
    );
    const got = [];
    while (got.length < sent.length) got.push((await stream.next()).message.params.data);
    assert.deepEqual(got, sent);
    stream.cut();
  });

  test(`${sdk}: a store that is closed costs the resumption and not the call`, async (t) => {
    const h = await hub(t);
    const { url, steps, sessions } = await mcp(t, sdk, h);
    const client = await new Client(url).initialize();
    await h.close();
    const warned = new Promise((resolve) => process.once("warning", resolve));
    steps.allow(3);
    const events = await (await client.request("tools/call", { name: "count", arguments: { total: 2 } })).rest();
    assert.equal(events.at(-1).message.result.content[0].text, "done");
    assert.deepEqual(data(events), [0, 1]);
    assert.equal((await warned).code, "TIDINGS_EVENT_STORE");
    assert.ok(sessions.get(client.sessionId).store.failures > 0);
  });

  test(`${sdk}: what retention took is told before what is left`, async (t) => {
    const h = await hub(t, { retention: { maxEvents: 4 } });
    const { url, steps, sessions } = await mcp(t, sdk, h);
    const client = await new Client(url).initialize();
    steps.allow(31);
    const events = await (await client.request("tools/call", { name: "count", arguments: { total: 30 } })).rest();
    const store = sessions.get(client.sessionId).store;
    // Until the store has trimmed: it does so in the background.
    for (;;) {
      const told = [];
      await store.replayEventsAfter(events[0].id, { send: async (id, message) => void told.push(message) });
      if (told[0].method === "notifications/io.tidings/gap") {
        assert.equal(told[0].params.reason, "evicted");
        assert.equal(told.at(-1).result.content[0].text, "done");
        break;
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  });
}
