// Tasks of the 2025-11-25 experiment on sdk 1.32, kept in a hub, over real HTTP.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { ElicitResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { Hub, InvalidArgumentError } from "tidings";
import { eventStore, TaskMessageQueue, TaskStore } from "tidings/mcp";

import { Client, deferred, folder, hub, randomUUID, serve } from "../harness.mjs";

/** A server whose one tool is a task that goes on when `go` says how; sessions share the stores. */
async function stage(t, h, options) {
  const store = new TaskStore(h, options);
  const queue = new TaskMessageQueue(h);
  const sessions = new Map();
  const go = deferred();
  const url = await serve(t, async (request, response, body) => {
    const known = request.headers["mcp-session-id"];
    let session = sessions.get(known);
    if (session === undefined) {
      const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: () => randomUUID(),
        eventStore: eventStore(h, () => transport),
        onsessioninitialized: (id) => void sessions.set(id, session),
      });
      const info = { name: "test", version: "1" };
      const server = new McpServer(info, {
        capabilities: { tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } },
        taskStore: store,
        taskMessageQueue: queue,
      });
      server.experimental.tasks.registerToolTask(
        "work",
        { execution: { taskSupport: "required" } },
        {
          createTask: async (extra) => {
            const task = await extra.taskStore.createTask({ ttl: extra.taskRequestedTtl, pollInterval: 20 });
            void go.promise.then((how) => how(extra, task.taskId)).catch((error) => session.failed.resolve(error));
            return { task };
          },
          getTask: async (extra) => extra.taskStore.getTask(extra.taskId),
          getTaskResult: async (extra) => extra.taskStore.getTaskResult(extra.taskId),
        },
      );
      session = { transport, server, failed: deferred() };
      await server.connect(transport);
    }
    await session.transport.handleRequest(request, response, body);
  });
  t.after(() => Promise.all([...sessions.values()].map(({ transport }) => transport.close())));
  return { url, go, store, queue, sessions };
}

/** The response to a request; other messages of its stream go to `seen`. */
async function ask(client, method, params, seen = []) {
  for await (const { message } of await client.request(method, params)) {
    if (message === undefined) continue;
    if (message.id === client.nextId && ("result" in message || "error" in message)) return message.result ?? message.error;
    seen.push(message);
  }
  throw new Error("the stream ended without an answer");
}

const begin = (client) => ask(client, "tools/call", { name: "work", arguments: {}, task: { ttl: 60_000 } });
const result = (text) => ({ content: [{ type: "text", text }] });

test("a task from its beginning to its result", async (t) => {
  const h = await hub(t);
  const { url, go } = await stage(t, h);
  const client = await new Client(url).initialize();
  const { task } = await begin(client);
  assert.equal(task.status, "working");
  assert.equal(task.ttl, 60_000);
  assert.equal(task.pollInterval, 20);
  assert.match(task.createdAt, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  const { taskId } = task;
  assert.equal((await ask(client, "tasks/get", { taskId })).status, "working");
  const waiting = ask(await other(client), "tasks/result", { taskId });
  const said = deferred();
  go.resolve(async ({ taskStore }) => {
    await taskStore.updateTaskStatus(taskId, "working", "half of it");
    const { statusMessage } = await taskStore.getTask(taskId);
    said.resolve(statusMessage);
    await taskStore.storeTaskResult(taskId, "completed", result("done"));
  });
  assert.equal(await said.promise, "half of it");
  const got = await waiting;
  assert.deepEqual(got.content, result("done").content);
  assert.deepEqual(got._meta, { "io.modelcontextprotocol/related-task": { taskId } });
  const ended = await ask(client, "tasks/get", { taskId });
  assert.deepEqual([ended.status, ended.statusMessage], ["completed", "half of it"]);
  assert.deepEqual((await ask(client, "tasks/list", {})).tasks.map((task) => task.taskId), [taskId]);
  assert.match((await ask(client, "tasks/cancel", { taskId })).message, /terminal status/);
});

/** The same session on another connection: one request waits there. */
async function other(client) {
  const copy = new Client(client.url);
  copy.sessionId = client.sessionId;
  copy.nextId = 1_000;
  return copy;
}

test("a task is nobody else's", async (t) => {
  const h = await hub(t);
  const { url } = await stage(t, h);
  const [ann, bob] = [await new Client(url).initialize(), await new Client(url).initialize()];
  const { task } = await begin(ann);
  for (const method of ["tasks/get", "tasks/result", "tasks/cancel"]) {
    assert.match((await ask(bob, method, { taskId: task.taskId })).message, /not found/i);
  }
  assert.deepEqual((await ask(bob, "tasks/list", {})).tasks, []);
  assert.equal((await ask(ann, "tasks/get", { taskId: task.taskId })).status, "working");
});

test("a principal has its tasks in every session", async (t) => {
  const h = await hub(t);
  const { url } = await stage(t, h, { principal: () => "auth:ann" });
  const [one, two] = [await new Client(url).initialize(), await new Client(url).initialize()];
  const { task } = await begin(one);
  assert.equal((await ask(two, "tasks/get", { taskId: task.taskId })).status, "working");
  assert.equal((await ask(two, "tasks/cancel", { taskId: task.taskId })).status, "cancelled");
  assert.equal((await ask(one, "tasks/get", { taskId: task.taskId })).status, "cancelled");
});

test("a task that is cancelled stays so, and its work is too late", async (t) => {
  const h = await hub(t);
  const { store } = await stage(t, h);
  const { taskId } = await store.createTask({}, 1, {}, "s");
  await store.updateTaskStatus(taskId, "cancelled", "enough", "s");
  await store.storeTaskResult(taskId, "completed", result("late"), "s");
  await store.updateTaskStatus(taskId, "working", "late", "s");
  const task = await store.getTask(taskId, "s");
  assert.deepEqual([task.status, task.statusMessage], ["cancelled", "enough"]);
  await assert.rejects(store.getTaskResult(taskId, "s"), /no result/);
});

test("a task that failed keeps what its work said about it", async (t) => {
  const h = await hub(t);
  const { store } = await stage(t, h);
  const made = async () => (await store.createTask({}, 1, {}, "s")).taskId;
  const [by, isError, told, plain] = [await made(), await made(), await made(), await made()];
  await store.storeTaskResult(by, "failed", result("no"), "s");
  await store.storeTaskResult(isError, "completed", { ...result("no"), isError: true }, "s");
  await store.updateTaskStatus(told, "failed", "out of paper", "s");
  await store.updateTaskStatus(plain, "failed", undefined, "s");
  for (const id of [by, isError, told, plain]) assert.equal((await store.getTask(id, "s")).status, "failed");
  assert.deepEqual(await store.getTaskResult(by, "s"), result("no"));
  assert.equal((await store.getTaskResult(isError, "s")).isError, true);
  await assert.rejects(store.getTaskResult(told, "s"), { code: -32603, message: "out of paper" });
  assert.equal((await store.getTask(told, "s")).statusMessage, "out of paper");
  await assert.rejects(store.getTaskResult(plain, "s"), { code: -32603 });
});

test("what a task asks its client is answered", async (t) => {
  const h = await hub(t);
  const { url, go } = await stage(t, h);
  const client = await new Client(url).initialize();
  const { task } = await begin(client);
  const { taskId } = task;
  const requestedSchema = { type: "object", properties: { name: { type: "string" } } };
  go.resolve(async (extra) => {
    const params = { message: "Who?", requestedSchema, mode: "form" };
    const answer = extra.sendRequest({ method: "elicitation/create", params }, ElicitResultSchema, { relatedTask: { taskId } });
    const { content } = await answer;
    await extra.taskStore.storeTaskResult(taskId, "completed", result(`Hello, ${content.name}!`));
  });
  const stream = await client.request("tasks/result", { taskId });
  let asked;
  for await (const { message } of stream) if ((asked = message)?.method === "elicitation/create") break;
  assert.equal(asked.params._meta["io.modelcontextprotocol/related-task"].taskId, taskId);
  await client.post({ jsonrpc: "2.0", id: asked.id, result: { action: "accept", content: { name: "Ann" } } });
  let answer;
  for await (const { message } of stream) if ((answer = message)?.result) break;
  assert.equal(answer.result.content[0].text, "Hello, Ann!");
});

test("messages are handed out once and in order, and the queue has its limit", async (t) => {
  const h = await hub(t);
  const queue = new TaskMessageQueue(h);
  const message = (n) => ({ type: "notification", timestamp: n, message: { jsonrpc: "2.0", method: `m${n}` } });
  await Promise.all([0, 1, 2].map((n) => queue.enqueue("t", message(n))));
  await assert.rejects(queue.enqueue("t", message(3), undefined, 3), /full: 3 messages wait/);
  const taken = await Promise.all([queue.dequeue("t"), queue.dequeue("t")]);
  assert.deepEqual(taken, [message(0), message(1)]);
  await queue.enqueue("t", message(3), undefined, 3);
  assert.deepEqual(await queue.dequeueAll("t"), [message(2), message(3)]);
  assert.equal(await queue.dequeue("t"), undefined);
  assert.equal(await queue.dequeue("another"), undefined);
  // Another process on the store, or one that was started anew: nothing of it is lost.
  assert.deepEqual((await new TaskMessageQueue(h).dequeueAll("t")).length, 4);
});

test("a list goes on where a page ends, and a principal has a limit", async (t) => {
  const h = await hub(t);
  const store = new TaskStore(h, { maxRunning: 51 });
  const made = [];
  for (let n = 0; n < 51; n++) made.push((await store.createTask({ ttl: null }, n, {}, "s")).taskId);
  await assert.rejects(store.createTask({}, 1, {}, "s"), { code: -32603, data: { reason: "limit", retryable: false } });
  const first = await store.listTasks(undefined, "s");
  const second = await store.listTasks(first.nextCursor, "s");
  assert.deepEqual([...first.tasks, ...second.tasks].map(({ taskId }) => taskId), made);
  assert.equal(second.nextCursor, undefined);
  await assert.rejects(store.listTasks("x", "s"), /Invalid cursor/);
  await assert.rejects(store.listTasks("5000", "s"), /Invalid cursor/);
  // What has no session is listed for nobody, and found by who knows its id.
  const { taskId } = await store.createTask({}, 1, {});
  assert.deepEqual(await store.listTasks(), { tasks: [] });
  assert.equal((await new TaskStore(h).getTask(taskId)).status, "working");
});

test("a task whose server was killed has failed", async (t) => {
  const path = join(await folder(t), "tidings.db");
  const script = fileURLToPath(new URL("child-task.mjs", import.meta.url));
  const child = spawn(process.execPath, [script, path], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = await once(child.stdout, "data");
  const taskId = line.toString().trim();
  const h = new Hub(`sqlite:${path}`);
  t.after(() => h.close());
  const store = new TaskStore(h);
  assert.equal((await store.getTask(taskId, "s")).status, "working");
  await assert.rejects(store.storeTaskResult(taskId, "completed", {}, "s"), /runs in another process/);
  child.kill("SIGKILL");
  await once(child, "exit");
  // The hub finds that its worker is gone, by a lock that died with it.
  let task;
  do task = await store.getTask(taskId, "s");
  while (task.status === "working" && (await new Promise((resolve) => setTimeout(() => resolve(true), 20))));
  assert.equal(task.status, "failed");
});

test("numbers out of range are refused, and a closed hub is an error to answer with", async (t) => {
  const h = await hub(t);
  for (const options of [{ ttlMs: 0 }, { pollMs: 0.5 }, { maxRunning: Number.NaN }]) {
    assert.throws(() => new TaskStore(h, options), InvalidArgumentError);
  }
  const store = new TaskStore(h);
  await h.close();
  await assert.rejects(store.createTask({}, 1, {}, "s"), { code: -32603, message: "The store of tasks does not answer" });
});
