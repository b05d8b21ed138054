// Faults that others reported in public, by their numbers, on this surface.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, test } from "node:test";
import { Worker } from "node:worker_threads";

import { ConfigError, Gap, Hub, InvalidArgumentError, TidingsError, Webhook } from "tidings";

import { deferred, folder, hub } from "./harness.mjs";

const alive = setInterval(() => {}, 1_000);
after(() => clearInterval(alive));

const SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const turn = () => new Promise((resolve) => setTimeout(resolve, 10));

const begin = (h, routes, more = {}) =>
  h.beginCall({ config: JSON.stringify({ routes }), principal: "p", requestId: 1, tool: "t", ...more });

/** A receiver that answers with these statuses, then with 204. */
async function receiver(t, ...statuses) {
  const posts = [];
  const waiting = [];
  const server = createServer(async (request, response) => {
    const post = { headers: request.headers, body: Buffer.concat(await request.toArray()).toString() };
    response.writeHead(statuses.shift() ?? 204).end();
    posts.push(post);
    waiting.shift()?.();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address();
  const nth = async (n) => {
    while (posts.length < n) await new Promise((resolve) => waiting.push(resolve));
    return posts[n - 1];
  };
  return { port, posts, nth, local: { allowNetworks: ["127.0.0.0/8"], allowHttp: true, allowPorts: [port] } };
}

test("B27: what is no database is a typed error, and never an empty store", async (t) => {
  const path = join(await folder(t), "tidings.db");
  await writeFile(path, Buffer.alloc(4_096, 0x2a));
  const h = new Hub(`sqlite:${path}`);
  t.after(() => h.close());
  for (const what of [() => h.open(), () => h.deliveries(), () => h.stream("s", "n").read()]) {
    await assert.rejects(async () => what(), (error) => {
      assert.ok(error instanceof TidingsError);
      assert.notEqual(error.code, "internal");
      return true;
    });
  }
  const elsewhere = new Hub(`sqlite:${join(path, "no", "folder.db")}`);
  assert.throws(() => elsewhere.open(), TidingsError);
});

test("B30: a place that does not take what it is given holds up nobody, and nothing of it is lost silently", async (t) => {
  const EACH = 20;
  const h = await hub(t);
  let inHand = 0;
  let most = 0;
  const stuck = deferred();
  const got = [];
  const all = deferred();
  h.registerSink("slow", () => {
    most = Math.max(most, ++inHand);
    return stuck.promise;
  }, { limit: 4, timeoutMs: 60_000 });
  h.registerSink("quick", (delivery) => {
    got.push(JSON.parse(delivery.body).data.requestId);
    if (got.length === EACH) all.resolve();
  });
  for (let n = 0; n < EACH; n++) {
    for (const endpoint of ["slow", "quick"]) {
      const route = { id: endpoint, type: "message", endpoint, triggers: ["completed"] };
      const call = await begin(h, [route], { routeTypes: ["message"], open: ["slow", "quick"], requestId: n });
      await call.complete("{}");
    }
  }
  await all.promise;
  assert.deepEqual(got, [...Array(EACH).keys()], "every one, in order");
  assert.equal(most, 1, "one at a time: the rest waits in the store");
  const left = h.deliveries({ limit: 100 }).filter(({ route, state }) => route === "slow" && state !== "delivered");
  assert.equal(left.length, EACH, "what it did not take is there to be seen");
  stuck.resolve(false);
});

test("B57: an address that is not public is refused, however it is written", async (t) => {
  const { port, posts } = await receiver(t);
  const h = await hub(t, { allowHttp: true, allowPorts: [port], verify: "address" });
  const hosts = ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0x7f000001", "2130706433", "0177.0.0.1", "127.1", "169.254.169.254"];
  const route = (host) => ({ id: "r", type: "webhook", endpoint: `http://${host}:${port}/`, triggers: ["completed"] });
  for (const host of hosts) await assert.rejects(begin(h, [route(host)]), ConfigError, host);
  // A name is looked up when it is connected to, and goes nowhere else.
  for (const host of ["localhost", "localhost."]) {
    let call;
    try {
      call = await begin(h, [route(host)]);
    } catch (error) {
      assert.ok(error instanceof ConfigError);
      continue;
    }
    await call.complete("{}");
    let delivery;
    do {
      await turn();
      [delivery] = h.deliveries({ callId: call.id });
    } while (delivery.lastError === undefined);
    assert.doesNotMatch(delivery.lastError, /127|address|private/, "it looks like a refused connection");
  }
  assert.equal(posts.length, 0);
});

test("B59: what would break a request's lines, or be too much, is refused with the config", async (t) => {
  const h = await hub(t);
  const good = { id: "r", type: "webhook", endpoint: "https://a.example/", triggers: ["completed"] };
  for (const bad of [
    { headers: { authorization: "Bearer abc\r\nX-Admin: 1" } },
    { headers: { authorization: "abc\n" } },
    { headers: { authorization: "abc\0" } },
    { headers: { authorization: "é" } },
    { headers: { "x-a\r\nx-b": "1" } },
    { headers: { "webhook-id": "mine" } },
    { endpoint: "https://u:hunter2@a.example/" },
    { endpoint: "https://a.example/\r\nX-Admin: 1" },
  ]) {
    await assert.rejects(begin(h, [{ ...good, ...bad }]), (error) => {
      assert.ok(error instanceof ConfigError, JSON.stringify(bad));
      assert.doesNotMatch(error.message + JSON.stringify(error.faults), /hunter2|abc/);
      return true;
    });
  }
  const many = Array.from({ length: 100 }, (_, n) => ({ ...good, id: `r${n}` }));
  await assert.rejects(begin(h, many), ConfigError);
});

test("B61: a result's numbers arrive as they were written", async (t) => {
  const h = await hub(t);
  const heard = deferred();
  h.registerCallback("heard", (delivery) => heard.resolve(delivery.body));
  const numbers =
    "[9007199254740993,18446744073709551615,123456789012345678901234567890,1e400,1.0,1E2,-0,0.1,9007199254740991.0," +
    "-1.7976931348623157e308]";
  const route = { id: "r", type: "callback", endpoint: "heard", triggers: ["completed"] };
  const call = await begin(h, [route], { routeTypes: ["callback"], open: ["heard"] });
  await call.complete(`{"content":[],"structuredContent":{"n":${numbers}}}`);
  assert.ok((await heard.promise).includes(numbers));
});

test("B62: a secret is one key, however it is written, and a weak one is refused", () => {
  const body = '{"p":1.0}';
  // Of the report itself.
  const expected = "v1,2MMOzszGbkbmaR4/zB0aW3wW7gxYYNblaCZMOvwIh5w=";
  const bare = SECRET.slice("whsec_".length);
  for (const secret of [SECRET, bare, SECRET.replace(/=$/, "")]) {
    const headers = new Webhook(secret).sign(body, { id: "evt_1", timestamp: 1_767_225_600_000 });
    assert.equal(headers["webhook-signature"], expected, secret);
  }
  const ofLength = (length) => `whsec_${Buffer.alloc(length, 7).toString("base64")}`;
  for (const length of [24, 64]) new Webhook(ofLength(length));
  for (const secret of [ofLength(23), ofLength(65), "", "whsec_", "whsec_!"]) {
    assert.throws(() => new Webhook(secret), (error) => {
      assert.ok(error instanceof InvalidArgumentError);
      return secret.length < 8 || !error.message.includes(secret);
    });
  }
  const rotated = new Webhook(SECRET, ofLength(32)).sign(body, { id: "evt_1" });
  assert.equal(rotated["webhook-signature"].split(" ").length, 2);
  for (const secret of [SECRET, ofLength(32)]) new Webhook(secret).verify(body, rotated);
});

test("B65: 410 ends what goes to the endpoint, and says so", async (t) => {
  const { port, posts, nth, local } = await receiver(t, 410);
  const h = await hub(t, { ...local, endpointConcurrency: 1 });
  const route = { id: "r", type: "webhook", endpoint: `http://127.0.0.1:${port}/`, triggers: ["completed"] };
  h.pause();
  for (const requestId of [1, 2]) await (await begin(h, [route], { requestId })).complete("{}");
  h.unpause();
  await nth(1);
  for (;;) {
    const states = h.deliveries().map(({ state }) => state);
    if (states.includes("dead")) break;
    await turn();
  }
  assert.equal(h.endpoints()[0].disabled, "gone");
  assert.equal(posts.length, 1, "the queued one is not sent");
});

test("B66: each attempt has the same id and bytes", async (t) => {
  const { port, nth, local } = await receiver(t, 500);
  const h = await hub(t, local);
  const endpoint = `http://127.0.0.1:${port}/`;
  const call = await begin(h, [{ id: "r", type: "webhook", endpoint, triggers: ["completed"], secret: SECRET }]);
  await call.complete("{}");
  const [first, second] = [await nth(1), await nth(2)];
  assert.equal(second.headers["webhook-id"], first.headers["webhook-id"]);
  assert.equal(second.body, first.body);
  for (const { headers, body } of [first, second]) new Webhook(SECRET).verify(body, headers);
});

test("B67: an endpoint that does not answer holds up no other, and its attempts end", async (t) => {
  const { port, posts, local } = await receiver(t);
  const hanging = [];
  // One says nothing, the other begins a body that has no end.
  const silent = createServer((request, response) => {
    hanging.push(response);
    if (request.url === "/endless") response.writeHead(200).write("x");
  });
  await new Promise((resolve) => silent.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    silent.closeAllConnections();
    silent.close();
  });
  const slow = silent.address().port;
  const h = await hub(t, { ...local, allowPorts: [port, slow], verify: "address", attemptTimeoutMs: 2_000 });
  const to = (port, path) => [{ id: "r", type: "webhook", endpoint: `http://127.0.0.1:${port}/${path}`, triggers: ["completed"] }];
  const slowCalls = [];
  for (const path of ["silent", "endless"]) {
    for (let n = 0; n < 5; n++) {
      const call = await begin(h, to(slow, path));
      slowCalls.push(call.id);
      await call.complete("{}");
    }
  }
  for (let n = 1; n <= 20; n++) await (await begin(h, to(port, ""), { requestId: n })).complete("{}");
  // Each arrives; one that this machine was too busy to answer in that time comes again.
  const arrived = () => new Set(posts.map(({ body }) => JSON.parse(body).data.requestId));
  while (arrived().size < 20) await turn();
  assert.deepEqual([...arrived()].sort((a, b) => a - b), [...Array(20).keys()].map((n) => n + 1));
  for (const callId of slowCalls) {
    let delivery;
    do {
      [delivery] = h.deliveries({ callId });
      await turn();
    } while (delivery.lastError === undefined && delivery.state !== "delivered");
    // A body without end is an answer all the same: its status has come, and of the rest no more is read than a little.
    assert.ok(delivery.lastError === "timeout" || delivery.state === "delivered", delivery.lastError);
  }
  assert.ok(h.attempts(h.deliveries({ callId: slowCalls[0] })[0].id).includes("timeout"));
});

test("B76: workers that are ended while they are called back leave the process and the others whole", async (t) => {
  const path = join(await folder(t), "tidings.db");
  const h = new Hub(`sqlite:${path}`);
  t.after(() => h.close());
  h.open();
  const threads = () => (process.platform === "linux" ? readdirSync("/proc/self/task").length : 0);
  const round = async (number) => {
    const ended = [];
    for (let n = 0; n < 10; n++) {
      const worker = new Worker(new URL("./worker-busy.mjs", import.meta.url), { workerData: { path, name: `w${number}.${n}` } });
      const gone = new Promise((resolve, reject) => worker.on("exit", resolve).on("error", reject));
      worker.once("message", () => void worker.terminate()); // inside of what it was called back for, or of the next
      ended.push(gone);
    }
    await Promise.all(ended);
  };
  await round(0);
  const before = threads();
  for (let number = 1; number <= 2; number++) await round(number);
  // Theirs go with them; a thread of the system's may take a moment to.
  // Node.js keeps a few of its own; each worker that stayed would have left more.
  while (threads() > before + 8) await turn();
  assert.equal(await h.stream("s", "main").append("1"), 0);
});

test("B78: a thread that is blocked misses nothing, and what waits for it waits in the store", async (t) => {
  const path = join(await folder(t), "tidings.db");
  const h = new Hub(`sqlite:${path}`);
  t.after(() => h.close());
  await h.stream("s", "n").append("0");
  const tail = h.stream("s", "n").tail();
  assert.equal((await tail.next()).payload, "0");
  const waiting = tail.nextBatch();
  const count = 20_000;
  const done = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(new URL("./worker-append.mjs", import.meta.url), { workerData: { path, count, done } });
  const exit = new Promise((resolve, reject) => worker.on("exit", resolve).on("error", reject));
  // A worker is started by the main thread's loop; from its first sign of life on, that is blocked.
  await new Promise((resolve) => worker.once("online", resolve));
  Atomics.wait(done, 0, 0, 60_000);
  let next = 1;
  let largest = 0;
  for (let batch = await waiting; batch !== undefined; batch = await tail.nextBatch()) {
    largest = Math.max(largest, batch.length);
    for (const item of batch) {
      assert.ok(!(item instanceof Gap));
      assert.equal(item.payload, String(next++));
    }
  }
  assert.equal(next, count + 1);
  assert.ok(largest < count, "in batches that have a bound");
  assert.equal(await exit, 0);
});
