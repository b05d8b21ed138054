// The Tasks extension (SEP-2663) and tasks/stream (SEP-2694) as they are on the wire, on server 2.x.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { join } from "node:path";

import { McpServer } from "@modelcontextprotocol/server";
import { Hub } from "tidings";
import { attach } from "tidings/mcp";

import { Client, deferred, folder, hub } from "../harness.mjs";
import { bothEras, post } from "./eras.mjs";
import { DECLARED, Play, TaskClient, TASKS, taskServer } from "./task-server.mjs";

const alive = setInterval(() => {}, 1_000);
after(() => clearInterval(alive));

const TOOLS = ["work", "progress", "stubborn", "broken", "ask", "nowhere"];
const ALWAYS = { tools: Object.fromEntries(TOOLS.map((tool) => [tool, "always"])) };

/** For calls that are over soon, which on a busy machine may be later than the two seconds of "auto". */
const QUICK = { inlineMs: 60_000 };

/** A server with tasks, and a client of it. */
async function start(t, { tasks = ALWAYS, hubOptions, authInfo, ...attached } = {}) {
  const h = await hub(t, hubOptions);
  const play = new Play();
  t.after(() => play.gate.resolve());
  const make = (Server) => taskServer(play, Server);
  const served = await bothEras(t, h, { make, authInfo, attached: { tasks, tasksStream: true, ...attached } });
  return { ...served, h, play, client: new TaskClient(served.url) };
}

for (const [name, tasks] of [["always", ALWAYS], ["after a while", { inlineMs: 50 }]]) {
  test(`a long call becomes a task: ${name}`, async (t) => {
    const { client, play } = await start(t, { tasks });
    const created = await client.start("work");
    assert.equal(created.status, "working");
    assert.equal(created.ttlMs, 3_600_000);
    assert.equal(created.pollIntervalMs, 1_000);
    assert.ok(Number.isFinite(Date.parse(created.createdAt)));
    assert.equal(created._meta["io.modelcontextprotocol/serverInfo"].name, "tasks");
    const { taskId } = created;
    const { resultType, _meta, ...working } = await client.get(taskId);
    assert.equal(resultType, "complete");
    const { resultType: _, _meta: __, ...said } = created;
    assert.deepEqual(working, said);
    play.gate.resolve();
    const done = await client.finished(taskId);
    assert.equal(done.status, "completed");
    assert.equal(done.result.content[0].text, "done");
    assert.equal(done.createdAt, created.createdAt);
  });
}

test("a short call is answered as ever and costs the store nothing", async (t) => {
  const { client, h } = await start(t, { tasks: QUICK });
  const { result } = await client.call("quick");
  assert.equal(result.resultType, "complete");
  assert.equal(result.content[0].text, "at once");
  assert.equal(h.stats().groups, 0);
});

test("only a request that declares the extension gets a task, and a tool may require it", async (t) => {
  const { url, play, client } = await start(t, { tasks: { tools: { work: "always", quick: "required", progress: "never" } } });
  play.gate.resolve();
  const plain = new TaskClient(url, { declares: false });
  assert.equal((await plain.call("work")).result.resultType, "complete");
  assert.equal((await client.call("progress")).result.resultType, "complete");
  const { error } = await plain.call("quick");
  assert.equal(error.code, -32021);
  assert.deepEqual(error.data.requiredCapabilities, { extensions: { [TASKS]: {} } });
  assert.equal((await client.call("quick")).result.content[0].text, "at once");
  const refused = await plain.one("tasks/get", { taskId: "any" });
  assert.equal(refused.error.code, -32021);
});

test("discover tells of the extension, and to an older client it does not exist", async (t) => {
  const { url, client } = await start(t);
  const { result } = await client.one("server/discover", {});
  assert.deepEqual(result.capabilities.extensions[TASKS], { eventStreams: {} });
  const old = new Client(url);
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } };
  const initialized = (await (await old.request("initialize", params)).rest()).at(-1).message.result;
  assert.equal(initialized.capabilities.extensions?.[TASKS], undefined);
  await old.initialize();
  for (const method of ["tasks/get", "tasks/update", "tasks/cancel"]) {
    const { error } = (await (await old.request(method, { taskId: "any" })).rest()).at(-1).message;
    assert.equal(error.code, -32601);
  }
});

test("an error result completes the task with its outcome, a JSON-RPC error fails it", async (t) => {
  const { client, play } = await start(t);
  const { taskId } = await client.start("broken");
  play.gate.resolve();
  const done = await client.finished(taskId);
  assert.equal(done.status, "completed");
  assert.equal(done.result.isError, true);
  const lost = await client.finished((await client.start("nowhere")).taskId);
  assert.equal(lost.status, "failed");
  assert.equal(lost.error.code, -32602);
});

for (const tool of ["work", "stubborn"]) {
  test(`a cancel is final whatever the tool does: ${tool}`, async (t) => {
    const { client, play } = await start(t);
    const { taskId } = await client.start(tool);
    await play.reached.promise;
    assert.equal((await client.one("tasks/cancel", { taskId })).result.resultType, "complete");
    assert.equal((await client.get(taskId)).status, "cancelled");
    await play.stopped.promise;
    play.gate.resolve();
    assert.equal((await client.get(taskId)).status, "cancelled");
    const [events] = await client.events(taskId);
    assert.deepEqual(events.map(({ payload }) => payload.status), ["cancelled"]);
    assert.equal((await client.one("tasks/cancel", { taskId })).result.resultType, "complete");
  });
}

test("a task is its principal's, and nobody else's", async (t) => {
  const authInfo = (who) => who && { token: "t", clientId: who, scopes: [] };
  const { url } = await start(t, { authInfo });
  const ann = new TaskClient(url, { headers: { authorization: "ann" } });
  const bob = new TaskClient(url, { headers: { authorization: "bob" } });
  const { taskId } = await ann.start("work");
  for (const other of [bob, new TaskClient(url)]) {
    for (const method of ["tasks/get", "tasks/cancel", "tasks/stream"]) {
      const { error } = await other.one(method, { taskId });
      assert.deepEqual([error.code, error.message], [-32602, "Unknown task"]);
    }
    // Nor is it told of, and it does not hear that it was left out.
    const stream = await other.stream("subscriptions/listen", { notifications: { taskIds: [taskId] } });
    assert.deepEqual((await stream.next()).message.params.notifications.taskIds ?? [], []);
    stream.cut();
  }
  assert.equal((await ann.get(taskId)).status, "working");
});

test("who named the task hears of its end, with the whole task", async (t) => {
  const { client, play } = await start(t);
  const { taskId } = await client.start("work");
  const stream = await client.stream("subscriptions/listen", { notifications: { taskIds: [taskId, "unknown"] } });
  assert.deepEqual((await stream.next()).message.params.notifications, { taskIds: [taskId] });
  play.gate.resolve();
  const { message } = await stream.next();
  assert.equal(message.method, "notifications/tasks");
  assert.equal(message.params.taskId, taskId);
  assert.equal(message.params.status, "completed");
  stream.cut();
});

test("the events of a task are numbered, typed and related, from any number on", async (t) => {
  const { client, play } = await start(t);
  const { taskId } = await client.start("work", { before: 2, after: 1 });
  await play.reached.promise;
  const live = await client.stream("tasks/stream", { taskId, after: 0 });
  assert.equal((await live.next()).message.params.seq, 1);
  play.gate.resolve();
  const rest = (await live.rest()).map(({ message }) => message);
  assert.deepEqual(rest.slice(0, -1).map(({ params }) => params.seq), [2, 3]);
  assert.equal(rest.at(-1).result.resultType, "complete");
  const [events] = await client.events(taskId);
  assert.deepEqual(events.map(({ type }) => type), [...Array(3).fill("com.example.step"), "io.tidings.outcome"]);
  assert.deepEqual(events.slice(0, 3).map(({ payload }) => payload.n), [0, 1, 2]);
  for (const event of events) {
    assert.equal(event.taskId, taskId);
    assert.deepEqual(event._meta["io.modelcontextprotocol/related-task"], { taskId });
  }
  for (let last = 0; last <= 3; last++) {
    const [follow] = await client.events(taskId, last);
    assert.deepEqual(follow.map(({ seq }) => seq), [0, 1, 2, 3].slice(last + 1));
  }
  const [, ahead] = await client.events(taskId, 4);
  assert.deepEqual([ahead.error.code, ahead.error.data], [-32602, { reason: "ahead", headSeq: 3 }]);
  for (const bad of [-1, 1.5, "0", true, null, 2 ** 53, [], {}]) {
    assert.equal((await client.events(taskId, bad))[1].error.code, -32602);
  }
});

test("what a task says is recorded, though its client gave no token and wants no log", async (t) => {
  const { client, play } = await start(t);
  const { taskId } = await client.start("progress");
  play.gate.resolve();
  await client.finished(taskId);
  const [events] = await client.events(taskId);
  assert.deepEqual(events.slice(0, 2).map(({ type, payload }) => [type, payload]), [
    ["io.tidings.progress", { progress: 1, total: 2, message: "half" }],
    ["io.tidings.log", { level: "debug", data: { said: "debug" }, logger: "it" }],
  ]);
});

test("what was emitted before it was a task is in the stream", async (t) => {
  const { client, play } = await start(t, { tasks: { inlineMs: 50 } });
  const { taskId } = await client.start("work", { before: 3, after: 1 });
  play.gate.resolve();
  await client.finished(taskId);
  const [events] = await client.events(taskId);
  assert.deepEqual(events.map(({ payload }) => payload.n), [0, 1, 2, 3, undefined]);
});

test("evicted events are gone, and it is said so", async (t) => {
  const { client, play } = await start(t, { tasks: { ...ALWAYS, resumes: 1e6 }, hubOptions: { retention: { maxEvents: 3 } } });
  const { taskId } = await client.start("work", { before: 10 });
  play.gate.resolve();
  await client.finished(taskId);
  while ((await client.events(taskId))[0].length > 3); // retention is in the background
  const [, { error }] = await client.events(taskId, 6);
  assert.equal(error.code, -32010);
  assert.deepEqual(error.data, { reason: "events_gone", taskId, earliestSeq: 8 });
  assert.deepEqual((await client.events(taskId, 7))[0].map(({ seq }) => seq), [8, 9, 10]);
  assert.equal((await client.get(taskId)).result.content[0].text, "done");
});

test("a client has so many streams, and asks so often, and no more", async (t) => {
  const { client } = await start(t, { tasks: { ...ALWAYS, streams: 1, resumes: 2 } });
  const { taskId } = await client.start("work", { before: 1 });
  const one = await client.stream("tasks/stream", { taskId });
  await one.next();
  assert.deepEqual((await client.events(taskId))[1].error.data, { reason: "limit", limit: "streams", max: 1 });
  one.cut();
  let error;
  do [, { error }] = await client.events(taskId, 7);
  while (error.data.limit === "streams"); // until the server has noticed that the first one went
  [, { error }] = await client.events(taskId, 7);
  assert.equal(error.data.limit, "resumes");
  assert.ok(error.data.retryAfterMs > 0);
});

test("a legacy session may read a stream of a task whose id it knows, one at a time", async (t) => {
  const { client, url, play } = await start(t);
  const { taskId } = await client.start("work", { before: 1 });
  const old = await new Client(url).initialize();
  const stream = await old.request("tasks/stream", { taskId });
  let event;
  do event = await stream.next();
  while (event.message === undefined);
  assert.equal(event.message.method, "notifications/tasks/event");
  const busy = (await (await old.request("tasks/stream", { taskId })).rest()).at(-1).message;
  assert.equal(busy.error.data.reason, "busy");
  play.gate.resolve();
  assert.deepEqual((await stream.rest()).at(-1).message.result, {});
});

test("a task with a config is acknowledged, and its end is told", async (t) => {
  const { client, h, play } = await start(t, { routes: ["callback"], open: ["heard"] });
  const fired = deferred();
  h.registerCallback("heard", (delivery) => fired.resolve(JSON.parse(delivery.body)));
  const notificationConfig = { routes: [{ id: "r", type: "callback", endpoint: "heard", triggers: ["completed"] }] };
  const created = await client.start("work", {}, { notificationConfig });
  assert.equal(created._meta["io.tidings/acknowledged"].callId, created.taskId);
  play.gate.resolve();
  const { data } = await fired.promise;
  assert.deepEqual([data.taskId, data.taskStatus, data.outcome.status], [created.taskId, "completed", "completed"]);
});

test("the time limit fails a task, and answers a call that is none yet", async (t) => {
  const { client, play } = await start(t, { timeoutMs: 1_000 });
  const { taskId } = await client.start("work");
  const done = await client.finished(taskId);
  assert.equal(done.status, "failed");
  assert.equal(done.error.data.reason, "timeout");
  await play.stopped.promise;
  const other = await start(t, { tasks: { inlineMs: 60_000 }, timeoutMs: 1_000 });
  const { error } = await other.client.call("work");
  assert.deepEqual(error.data, { reason: "timeout", timeoutMs: 1_000 });
  await other.play.stopped.promise;
});

test("a client that leaves before there is a task cancels its call", async (t) => {
  const { url, play, h } = await start(t, { tasks: QUICK });
  const abort = new AbortController();
  const left = post(url, "tools/call", { name: "work", arguments: {} }, { capabilities: DECLARED, signal: abort.signal });
  await play.reached.promise;
  abort.abort();
  await assert.rejects(left);
  await play.stopped.promise;
  assert.equal(h.stats().groups, 0);
});

test("a client with too many tasks waits for the next result", async (t) => {
  const { client, play } = await start(t, { tasks: { inlineMs: 1 }, detachedCalls: 1 });
  await client.start("work");
  const second = client.call("stubborn");
  play.gate.resolve();
  assert.equal((await second).result.resultType, "complete");
});

test("tasks and calls whose clients have gone count together", async (t) => {
  const tasks = { tools: { work: "never", stubborn: "always" } };
  const terms = { tasks, routes: ["callback"], open: ["heard"], detachedCalls: 1 };
  const leaving = (trigger) => ({
    name: "work",
    arguments: {},
    notificationConfig: { routes: [{ id: "r", type: "callback", endpoint: "heard", triggers: [trigger] }] },
  });
  // A call whose client has gone takes the place of the task.
  const first = await start(t, terms);
  const gone = deferred();
  first.h.registerCallback("heard", gone.resolve);
  const left = await first.client.stream("tools/call", leaving("io.tidings/disconnected"));
  await first.play.reached.promise;
  left.cut();
  await gone.promise;
  first.play.reached = deferred();
  const second = first.client.call("stubborn");
  await first.play.reached.promise; // by then it is decided what it is
  first.play.gate.resolve();
  assert.equal((await second).result.resultType, "complete");
  // When it has ended there is room again.
  for (;;) {
    const { result } = await first.client.call("stubborn");
    if (result.resultType === "task") break;
  }
  // And the other way round.
  const other = await start(t, terms);
  const cancelled = deferred();
  other.h.registerCallback("heard", ({ body }) => cancelled.resolve(JSON.parse(body).data.outcome));
  await other.client.start("stubborn");
  await other.play.reached.promise;
  const leaves = await other.client.stream("tools/call", leaving("cancelled"));
  // Its acknowledgement comes before it runs.
  assert.equal((await leaves.next()).message.method, "notifications/config/acknowledged");
  leaves.cut();
  assert.equal((await cancelled.promise).reason, "detach_limit");
});

test("a task whose process was killed failed, and its events are there", async (t) => {
  const path = join(await folder(t), "tidings.db");
  const process = spawn("node", [fileURLToPath(new URL("process.mjs", import.meta.url)), path], { stdio: ["pipe", "pipe", "inherit"] });
  t.after(() => process.kill("SIGKILL"));
  const lines = createInterface({ input: process.stdout })[Symbol.asyncIterator]();
  const port = (await lines.next()).value;
  const first = new TaskClient(`http://127.0.0.1:${port}/mcp`);
  const { taskId } = await first.start("work", { before: 2 });
  const stream = await first.stream("tasks/stream", { taskId });
  assert.equal((await stream.next()).message.params.seq, 0);
  assert.equal((await stream.next()).message.params.seq, 1);
  const exited = new Promise((resolve) => process.once("exit", resolve));
  process.kill("SIGKILL");
  await exited;
  const h = new Hub(`sqlite:${path}`);
  t.after(() => h.close());
  const play = new Play();
  const make = (Server) => taskServer(play, Server);
  const { url } = await bothEras(t, h, { make, attached: { tasks: ALWAYS, tasksStream: true } });
  const client = new TaskClient(url);
  const done = await client.finished(taskId);
  assert.equal(done.status, "failed");
  assert.deepEqual(done.error.data, { reason: "server_lost" });
  const [events] = await client.events(taskId);
  assert.deepEqual(events.map(({ type }) => type), ["com.example.step", "com.example.step", "io.tidings.outcome"]);
});

test("a server keeps tasks of its own, and attach says what it does not take", async (t) => {
  const h = await hub(t);
  const server = () => new McpServer({ name: "own", version: "1" }, { capabilities: { extensions: { [TASKS]: {} } } });
  const warned = new Promise((resolve) => process.once("warning", resolve));
  attach(server(), h, { tasks: "auto" });
  assert.equal((await warned).code, "TIDINGS_TASKS");
  assert.throws(() => attach(server(), h, { tasks: {} }), /tasks already/);
  const plain = () => new McpServer({ name: "plain", version: "1" });
  for (const tasks of ["on", 1, { inlineMs: 0 }, { tools: { a: "maybe" } }, { eventsGoneCode: 1.5 }]) {
    assert.throws(() => attach(plain(), h, { tasks }), { code: "invalid_argument" });
  }
  assert.throws(() => attach(plain(), h, { tasksStream: true }), { code: "invalid_argument" });
});

const answer = (value) => ({ action: "accept", content: { value } });

test("a task asks, its listeners hear of it, and it is answered piece by piece", async (t) => {
  const { client, play } = await start(t);
  const { taskId } = await client.start("ask");
  const listener = await client.stream("subscriptions/listen", { notifications: { taskIds: [taskId] } });
  await listener.next();
  assert.deepEqual((await client.one("tasks/update", { taskId, inputResponses: { early: answer("x") } })).result.resultType, "complete");
  play.gate.resolve();
  const asks = (task, ...keys) => task.status === "input_required" && Object.keys(task.inputRequests).sort().join() === keys.join();
  const asked = await client.until(taskId, (task) => asks(task, "colour", "name"));
  assert.equal(asked.inputRequests.name.method, "elicitation/create");
  const { message } = await listener.next();
  assert.equal(message.params.status, "input_required");
  await client.one("tasks/update", { taskId, inputResponses: { colour: answer("red"), other: answer("?") } });
  await client.until(taskId, (task) => asks(task, "name"));
  await client.one("tasks/update", { taskId, inputResponses: { name: answer("me") } });
  const again = await client.until(taskId, (task) => task.status === "input_required" && !("name" in task.inputRequests));
  const [key] = Object.keys(again.inputRequests); // the tool's "name" once more, under a name that is new
  await client.one("tasks/update", { taskId, inputResponses: { [key]: answer("yes") } });
  const done = await client.finished(taskId);
  assert.equal(done.result.content[0].text, "asked");
  assert.deepEqual(play.rounds, [
    [0, {}],
    [1, { name: { value: "me" }, colour: { value: "red" } }],
    [2, { name: { value: "yes" } }],
  ]);
  listener.cut();
});

test("a task that waits for an answer can be cancelled", async (t) => {
  const { client, play } = await start(t);
  const { taskId } = await client.start("ask");
  play.gate.resolve();
  await client.until(taskId, ({ status }) => status === "input_required");
  await client.one("tasks/cancel", { taskId });
  const task = await client.get(taskId);
  assert.equal(task.status, "cancelled");
  assert.equal("inputRequests" in task, false);
});

test("answers have to be there, and a call that is no task asks its client as ever", async (t) => {
  const { client, play } = await start(t);
  const { taskId } = await client.start("work");
  // What is there and no object the SDK takes for an empty one.
  assert.equal((await client.one("tasks/update", { taskId })).error.code, -32602);
  play.gate.resolve();
  const other = await start(t, { tasks: QUICK });
  other.play.gate.resolve();
  const { result } = await other.client.call("ask");
  assert.equal(result.resultType, "input_required");
  assert.deepEqual(Object.keys(result.inputRequests).sort(), ["colour", "name"]);
});
