// A Python process and this one on one SQLite file.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { Hub } from "tidings";
import { StoredSeen } from "tidings/webhook";

import { folder } from "../harness.mjs";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const PYTHON = process.env.TIDINGS_PYTHON ?? join(ROOT, ".cache", "venv", "bin", "python");
// `make test` makes it first.
const skip = existsSync(PYTHON) ? false : `there is no ${PYTHON}: tools/python-env makes it`;

/** The Python process; it answers one question after the other. */
class Peer {
  constructor(t, path, port) {
    const script = fileURLToPath(new URL("peer.py", import.meta.url));
    this.process = spawn(PYTHON, [script, path, String(port)], { stdio: ["pipe", "pipe", "inherit"] });
    this.lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
    this.last = Promise.resolve();
    t.after(() => this.end());
  }

  ask(op, given = {}) {
    const asked = this.last.then(async () => {
      this.process.stdin.write(`${JSON.stringify({ op, ...given })}\n`);
      const { value, done } = await this.lines.next();
      if (done) throw new Error("the Python process has ended");
      const { out, error } = JSON.parse(value);
      if (error !== undefined) throw Object.assign(new Error(error), { code: error });
      return out;
    });
    this.last = asked.catch(() => {});
    return asked;
  }

  async end(signal) {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const ended = once(this.process, "exit");
    if (signal) this.process.kill(signal);
    else this.process.stdin.end();
    await ended;
  }
}

/** Both on a new file; webhooks go to `hook`, whose posts are in `posts`. */
async function stage(t) {
  const posts = [];
  const watchers = new Set();
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString();
    response.writeHead(204).end();
    posts.push({ id: request.headers["webhook-id"], body });
    for (const watch of watchers) watch();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address();
  const path = join(await folder(t), "tidings.db");
  const local = { allowNetworks: ["127.0.0.0/8"], allowHttp: true, allowPorts: [port] };
  const h = new Hub(`sqlite:${path}`, local);
  t.after(() => h.close());
  h.open();
  const python = new Peer(t, path, port);
  await python.ask("open");
  const route = { id: "r", type: "webhook", endpoint: `http://127.0.0.1:${port}/`, triggers: ["completed", "failed"] };
  const arrived = (found) =>
    new Promise((resolve) => {
      const watch = () => {
        const value = found(posts);
        if (value) {
          watchers.delete(watch);
          resolve(value);
        }
      };
      watchers.add(watch);
      watch();
    });
  return { h, python, posts, arrived, config: { routes: [route] } };
}

const nodeCall = async (h, config) => {
  const call = await h.beginCall({ config: JSON.stringify(config), principal: "p", requestId: 1, tool: "t" });
  await call.complete("{}");
  return call.id;
};
const callIds = (posts) => posts.map(({ body }) => JSON.parse(body).data.callId);

test("each language tails what the other writes, live and to the end", { skip }, async (t) => {
  const { h, python } = await stage(t);
  await python.ask("append", { scope: "s", name: "from-python", payload: "0" });
  const tail = h.stream("s", "from-python").tail();
  await h.stream("s", "from-node").append("0");
  await python.ask("tail", { scope: "s", name: "from-node" });
  for (let n = 1; n <= 20; n++) {
    assert.equal((await tail.next()).payload, String(n - 1)); // live, while the other still writes
    await python.ask("append", { scope: "s", name: "from-python", payload: String(n) });
    await h.stream("s", "from-node").append(String(n));
  }
  await h.stream("s", "from-node").close();
  const told = await python.ask("rest", { name: "from-node" });
  assert.deepEqual(told, [...Array(21).keys()].map(String));
  await python.ask("close_stream", { scope: "s", name: "from-python" });
  assert.equal((await tail.next()).payload, "20");
  assert.equal(await tail.next(), undefined);
});

test("a cursor of one language resumes in the other, byte for byte", { skip }, async (t) => {
  const { h, python } = await stage(t);
  const payloads = ['{"n":1.0}', "9007199254740993", '{"é":"\\u00e9 🎉"}', "1E2", '" "'];
  const cursors = await python.ask("write", { scope: "s", name: "a", payloads, close: true });
  for (const [n, cursor] of cursors.entries()) {
    const got = [];
    for await (const event of h.resume("s", cursor)) got.push(event.payload);
    assert.deepEqual(got, payloads.slice(n + 1));
  }
  const writer = h.newWriter("s", "b");
  const mine = payloads.map((payload) => writer.append(payload));
  writer.close();
  await writer.flush();
  await python.ask("resume", { scope: "s", name: "b", cursor: mine[1] });
  assert.deepEqual(await python.ask("rest", { name: "b" }), payloads.slice(2));
  await assert.rejects(python.ask("resume", { scope: "another", name: "b", cursor: mine[1] }), { code: "unknown_cursor" });
  assert.throws(() => h.resume("another", cursors[0]), { code: "unknown_cursor" });
});

test("a webhook is claimed by one of them, exactly once", { skip }, async (t) => {
  const { h, python, posts, arrived, config } = await stage(t);
  const EACH = 30;
  const mine = (async () => {
    const ids = [];
    for (let n = 0; n < EACH; n++) ids.push(await nodeCall(h, config));
    return ids;
  })();
  const theirs = [];
  for (let n = 0; n < EACH; n++) theirs.push(await python.ask("call", { config, end: true, task: false }));
  const all = [...(await mine), ...theirs];
  await arrived((posts) => posts.length >= all.length);
  // All are settled; whoever had claimed one too would have counted an attempt of its own.
  for (;;) {
    const attempts = h.stats().attempts + (await python.ask("attempts"));
    if (attempts >= all.length && h.deliveries({ state: "delivered", limit: 100 }).length === all.length) {
      assert.equal(attempts, all.length);
      break;
    }
  }
  assert.deepEqual(callIds(posts).sort(), all.sort());
  assert.equal(new Set(posts.map(({ id }) => id)).size, all.length);
});

test("what one of them fires and may not send, the other does", { skip }, async (t) => {
  const { h, python, posts, arrived, config } = await stage(t);
  h.pause();
  const mine = await nodeCall(h, config);
  await arrived((posts) => callIds(posts).includes(mine));
  h.unpause();
  await python.ask("pause", { paused: true });
  const theirs = await python.ask("call", { config, end: true, task: false });
  await arrived((posts) => callIds(posts).includes(theirs));
  assert.deepEqual(callIds(posts), [mine, theirs]);
});

test("a call of a Python process that was killed is ended by this one, and told", { skip }, async (t) => {
  const { python, posts, arrived, config } = await stage(t);
  const id = await python.ask("call", { config, end: false, task: false });
  await python.end("SIGKILL");
  await arrived((posts) => posts.length > 0);
  const { data } = JSON.parse(posts[0].body);
  assert.deepEqual([data.callId, data.outcome.status, data.outcome.reason], [id, "failed", "server_lost"]);
});

test("a call or a task of one is found and cancelled by the other", { skip }, async (t) => {
  const { h, python } = await stage(t);
  const theirs = await python.ask("call", { config: null, end: false, task: true });
  assert.equal(h.task(theirs, { principal: "p" }).status, "working");
  assert.equal(h.task(theirs, { principal: "q" }), undefined);
  assert.equal(await h.cancelTask(theirs, { principal: "p" }), true);
  assert.deepEqual(await python.ask("ended", { id: theirs }), ["cancelled", null]);
  const call = await h.beginCall({ principal: "p", requestId: 1, tool: "t", taskTtlMs: 60_000 });
  assert.equal(await python.ask("task", { id: call.id, principal: "p" }), "working");
  assert.equal(await python.ask("task", { id: call.id, principal: "q" }), null);
  assert.equal(await python.ask("cancel_call", { id: call.id }), true);
  assert.equal((await call.ended()).outcome, "cancelled");
});

test("both receive webhooks with one window", { skip }, async (t) => {
  const { h, python } = await stage(t);
  const seen = new StoredSeen(h);
  assert.equal(await seen.has("a"), false);
  await python.ask("add", { id: "a" });
  assert.equal(await seen.has("a"), true);
  await seen.add("b");
  assert.equal(await python.ask("has", { id: "b" }), true);
  assert.equal(await python.ask("has", { id: "c" }), false);
});
