// One publish, everybody who asked: clients of both eras on one server, over real HTTP.
import assert from "node:assert/strict";
import { get } from "node:http";
import { after, test } from "node:test";

import { Hub } from "tidings";
import { eventBus, notify } from "tidings/mcp";

import { Client, deferred, folder, hub, Sse } from "../harness.mjs";
import { bothEras, official, post } from "./eras.mjs";

const alive = setInterval(() => {}, 1_000);
after(() => clearInterval(alive));

const TOOLS = "notifications/tools/list_changed";
const UPDATED = "notifications/resources/updated";

/** Opens a listener on the wire; resolves once it is acknowledged. */
async function listen(url, notifications, options = {}) {
  const abort = new AbortController();
  const answer = await post(url, "subscriptions/listen", { notifications }, { ...options, signal: abort.signal });
  const stream = new Sse(answer, abort);
  const { message } = await stream.next();
  return { stream, acknowledged: message };
}

/** Asks again in later turns of the loop until it is so: for what another side does in its own time. */
async function until(so) {
  while (!(await so())) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** A GET whose response nobody reads. */
async function openUnread(t, url, headers) {
  const opened = deferred();
  const request = get(url, { headers }, opened.resolve);
  request.on("error", () => {});
  t.after(() => request.destroy());
  const response = await opened.promise;
  response.on("error", () => {});
  return response;
}

/** Collects what a client is told of a method. */
function heard(client, method) {
  const got = [];
  let waiting;
  client.setNotificationHandler(method, (notification) => {
    got.push(notification.params);
    waiting?.resolve();
  });
  const first = async () => {
    if (got.length === 0) await (waiting = deferred()).promise;
    return got[0];
  };
  return { got, first };
}

for (const sdk of [2, 1]) {
  test(`sessions of sdk ${sdk}: official clients of both eras hear a publish once each, and the counts say so`, async (t) => {
    const h = await hub(t);
    const { url, sessions } = await bothEras(t, h, { sdk, store: false });
    const old = await official(t, url, "legacy");
    const quiet = await official(t, url, "legacy");
    const modern = await official(t, url, "modern");
    const subscribed = await official(t, url, "modern");
    const tools = [heard(old, TOOLS), heard(quiet, TOOLS), heard(modern, TOOLS)];
    const updates = [heard(old, UPDATED), heard(subscribed, UPDATED)];
    await modern.listen({ toolsListChanged: true });
    await subscribed.listen({ resourceSubscriptions: ["test://a"] });
    await old.subscribeResource({ uri: "test://a" });
    // A session counts once its client has opened its own stream. Nobody here listens for prompts but sessions.
    await until(() => h.notify("prompts").told === 2);

    // Everything is one way here: the two sessions and the listener that asked for tools, not the one that did not.
    assert.deepEqual(notify(h, "tools"), { told: 3, skipped: 1, failed: 0 });
    await Promise.all(tools.map((one) => one.first()));
    // The session that subscribed, and the listener.
    const { server } = sessions.values().next().value;
    assert.deepEqual(notify(server, { uri: "test://a" }), { told: 2, skipped: 2, failed: 0 });
    assert.deepEqual((await updates[0].first()).uri, "test://a");
    assert.deepEqual((await updates[1].first()).uri, "test://a");
    await old.unsubscribeResource({ uri: "test://a" });
    assert.equal(notify(h, { uri: "test://a" }).told, 1);
    assert.equal(notify(h, { uri: "test://b" }).told, 0);
    for (const { got } of tools) assert.equal(got.length, 1);
  });
}

test("what is published is coalesced, tagged with the listener's id in its own JSON type, and ends with a result", async (t) => {
  const h = await hub(t);
  const { url, durable } = await bothEras(t, h);
  const { stream, acknowledged } = await listen(url, { toolsListChanged: true, promptsListChanged: false }, { id: 7 });
  assert.equal(acknowledged.method, "notifications/subscriptions/acknowledged");
  assert.deepEqual(acknowledged.params.notifications, { toolsListChanged: true });
  assert.equal(acknowledged.params._meta["io.modelcontextprotocol/subscriptionId"], 7);
  for (let n = 0; n < 100; n++) assert.equal(h.notify("tools").told, 1);
  durable.endListeners();
  const rest = (await stream.rest()).map(({ message }) => message);
  const told = rest.filter(({ method }) => method === TOOLS);
  assert.ok(told.length >= 1 && told.length < 100, `${told.length}`);
  assert.deepEqual(told[0].params._meta, { "io.modelcontextprotocol/subscriptionId": 7 });
  const { id, result } = rest.at(-1);
  assert.equal(id, 7);
  assert.equal(result.resultType, "complete");
  assert.equal(result._meta["io.modelcontextprotocol/serverInfo"].name, "test");
});

test("a listener gets what the server declares only, and a bad filter is refused", async (t) => {
  const h = await hub(t);
  const make = (Server) => {
    const server = new Server({ name: "test", version: "1" }, { capabilities: { tools: { listChanged: false } } });
    server.registerTool("noop", {}, () => ({ content: [] }));
    return server;
  };
  const { url } = await bothEras(t, h, { make });
  const { stream, acknowledged } = await listen(url, { toolsListChanged: true, resourceSubscriptions: ["test://a"] });
  assert.deepEqual(acknowledged.params.notifications, {});
  stream.cut();
  for (const notifications of ["all", { toolsListChanged: "yes" }]) {
    const answer = await (await post(url, "subscriptions/listen", { notifications })).json();
    assert.equal(answer.error.code, -32602);
  }
  const { error } = await (await post(url, "subscriptions/listen", { notifications: { taskIds: ["a"] } })).json();
  assert.equal(error.code, -32021);
  // What the endpoint itself refuses it refuses in its own words.
  const broken = await post(url, "subscriptions/listen", {}, { headers: { "mcp-protocol-version": "2025-11-25" } });
  assert.equal(broken.status, 400);
});

for (const sdk of [2, 1]) {
  test(`sessions of sdk ${sdk}: one that does not read silences nobody, is named, and has the rest when it comes back`, async (t) => {
    const h = await hub(t);
    const { url, sessions } = await bothEras(t, h, { sdk });
    const good = await new Client(url).initialize();
    const stream = await good.get();
    const { stream: listener } = await listen(url, { toolsListChanged: true });
    const { stream: gone } = await listen(url, { toolsListChanged: true });
    gone.cut();
    const dead = await new Client(url).initialize();
    const unread = await openUnread(t, url, dead.headers);
    // The listener that left is noticed when its connection is. Nobody listens for events: this tells nobody.
    const all = () => Object.values(h.notify("events")).reduce((sum, count) => sum + count);
    await until(() => all() === 3);
    assert.equal(h.notify("tools").told, 3);
    for (const one of [listener, stream]) assert.equal((await one.next()).message.method, TOOLS);

    const data = "x".repeat(65_536);
    // More than the kernel's buffers take, and then more than may wait for one client.
    const { server } = sessions.get(dead.sessionId).server;
    for (let n = 0; n < 400; n++) {
      await server.notification({ method: "notifications/com.example/big", params: { data } });
    }
    // It counts until a write to it is tried.
    assert.equal(h.notify("tools").told, 3);
    const failed = [];
    await until(() => failed.push(...h.failedSinks()) > 0);
    assert.equal(failed.length, 1);
    assert.equal((await listener.next()).message.method, TOOLS);
    assert.equal((await stream.next()).message.method, TOOLS);
    // Its stream was closed under it, and it is a peer again: the event store keeps what it is sent.
    unread.destroy();
    assert.equal(h.notify("prompts").told, 2);
    assert.equal((await stream.next()).message.method, "notifications/prompts/list_changed");
    listener.cut();
  });
}

test("a session whose client can be told nothing is skipped, unless the event store keeps it for later", async (t) => {
  const h = await hub(t);
  const without = await bothEras(t, h, { store: false });
  const client = await new Client(without.url).initialize();
  assert.deepEqual(h.notify("tools"), { told: 0, skipped: 1, failed: 0 });
  const stream = await client.get();
  assert.deepEqual(h.notify("tools"), { told: 1, skipped: 0, failed: 0 });
  assert.equal((await stream.next()).message.method, TOOLS);
  await fetch(without.url, { method: "DELETE", headers: client.headers });
  assert.deepEqual(h.notify("tools"), { told: 0, skipped: 0, failed: 0 });

  const other = await hub(t);
  const kept = await bothEras(t, other);
  const later = await new Client(kept.url).initialize();
  const first = await later.get();
  assert.equal(other.notify("tools").told, 1);
  const { id } = await first.next();
  first.cut();
  assert.equal(other.notify("prompts").told, 1);
  let resumed;
  await until(async () => {
    resumed = await later.get(id);
    return resumed.status === 200; // until the server has noticed that the first one went
  });
  assert.equal((await resumed.next()).message.method, "notifications/prompts/list_changed");
});

test("only who it is for hears of it", async (t) => {
  const h = await hub(t);
  const authInfo = (given) => given && { token: "t", clientId: given, scopes: [] };
  const { url } = await bothEras(t, h, { authInfo });
  const named = (who) => Object.assign(new Client(url), { who });
  for (const client of [named("ann"), named("bob")]) {
    Object.defineProperty(client, "headers", {
      get() {
        const own = Object.getOwnPropertyDescriptor(Client.prototype, "headers").get.call(client);
        return { ...own, authorization: client.who };
      },
    });
    await client.initialize();
  }
  const ann = 'auth:[null,null,"ann"]';
  assert.deepEqual(h.notify("tools", { audience: ann }), { told: 1, skipped: 1, failed: 0 });
  const listener = await listen(url, { toolsListChanged: true }, { headers: { authorization: "ann" } });
  assert.equal(h.notify("tools", { audience: ann }).told, 2);
  listener.stream.cut();
});

test("another process's publish reaches the peers of both eras here, and the SDK's own bus", async (t) => {
  const path = await folder(t);
  const here = new Hub(`sqlite:${path}/tidings.db`);
  const there = new Hub(`sqlite:${path}/tidings.db`);
  t.after(async () => {
    await here.close();
    await there.close();
  });
  const { url, handler } = await bothEras(t, here);
  const client = await new Client(url).initialize();
  const stream = await client.get();
  const { stream: listener } = await listen(url, { toolsListChanged: true });
  const bus = eventBus(here);
  const events = [];
  const onBus = deferred();
  const unsubscribe = bus.subscribe((event) => {
    events.push(event);
    onBus.resolve();
  });
  // Nobody listens there, so that nobody is told in that process.
  assert.deepEqual(there.notify("tools"), { told: 0, skipped: 0, failed: 0 });
  assert.equal((await stream.next()).message.method, TOOLS);
  assert.equal((await listener.next()).message.method, TOOLS);
  await onBus.promise;
  assert.deepEqual(events, [{ kind: "tools_list_changed" }]);
  unsubscribe();
  // What the SDK's own handler says goes the same way.
  handler.notify.promptsChanged();
  assert.equal((await stream.next()).message.method, "notifications/prompts/list_changed");
  listener.cut();
});

test("a kind that there is not is refused, and so is a server that is not attached", async (t) => {
  const h = await hub(t);
  assert.throws(() => h.notify("spoons"), { code: "invalid_argument" });
  assert.throws(() => notify({ registerCapabilities() {} }, "tools"), TypeError);
});
