import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";

import {
  AheadError,
  ClosedError,
  ConfigError,
  CursorError,
  Event,
  FencedError,
  Gap,
  Hub,
  InvalidArgumentError,
  Profile,
  TidingsError,
} from "tidings";

import { deferred, folder, hub } from "./harness.mjs";

const HERE = fileURLToPath(new URL(".", import.meta.url));

test("an appended event is there at once for its cursor and read after its commit", async (t) => {
  const h = await hub(t);
  const writer = h.newWriter("session:a", "log");
  const first = writer.append('{"n":0}');
  writer.append(Buffer.from('{"n":1}'), { type: "vendor.x" });
  await writer.flush();
  const page = await h.stream("session:a", "log").read(first);
  assert.deepEqual(
    page.events.map((event) => [event.seq, event.type, event.payload]),
    [[1, "vendor.x", '{"n":1}']],
  );
  assert.equal(page.headSeq, 1);
  assert.equal(page.ended, false);
  assert.equal(page.gap, undefined);
});

test("a tail replays, goes on live and ends with the stream", async (t) => {
  const h = await hub(t);
  const writer = h.newWriter("s", "n");
  const cursor = writer.append("0");
  await writer.flush();
  const tail = h.resume("s", cursor);
  const got = [];
  const reading = (async () => {
    for await (const item of tail) got.push(item.payload);
  })();
  writer.append("1");
  await writer.flush();
  writer.append("2", { close: true });
  await reading;
  assert.deepEqual(got, ["1", "2"]);
  assert.throws(() => writer.append("3"), ClosedError);
});

test("leaving the loop closes the tail, and an aborted wait loses nothing", async (t) => {
  const h = await hub(t);
  const writer = h.newWriter("s", "n");
  const cursor = writer.append("0");
  await writer.flush();

  const tail = h.resume("s", cursor);
  const abort = new AbortController();
  const wait = tail.next({ signal: abort.signal });
  abort.abort(new Error("enough"));
  await assert.rejects(wait, /enough/);
  writer.append("1");
  assert.equal((await tail.next()).payload, "1");

  writer.append("2");
  for await (const item of tail) {
    assert.equal(item.payload, "2");
    break;
  }
  assert.equal(await tail.next(), undefined);
});

test("the user's own handler of a signal stays", async (t) => {
  const h = await hub(t);
  const writer = h.newWriter("s", "n");
  const tail = h.resume("s", writer.append("0"));
  const abort = new AbortController();
  let called = 0;
  abort.signal.onabort = () => (called += 1);
  const wait = tail.next({ signal: abort.signal });
  abort.abort();
  await assert.rejects(wait, { name: "AbortError" });
  assert.equal(called, 1);
});

test("what retention took is told as a gap", async (t) => {
  const h = await hub(t, { retention: { maxEvents: 2 } });
  const stream = h.stream("s", "n");
  await stream.append(["0", "1", "2", "3", "4"]);
  const page = await stream.read(0);
  // Trimmed or not yet: what is missing is told, what is there comes in order up to the newest.
  assert.equal(page.events.at(-1).payload, "4");
  if (page.events[0].seq !== 1) {
    assert.ok(page.gap instanceof Gap);
    assert.equal(page.gap.reason, "evicted");
    assert.equal(page.gap.earliestSeq, page.events[0].seq);
  }
});

test("errors are classes with a code, and one base", async (t) => {
  const h = await hub(t);
  const stream = h.stream("s", "n");
  await stream.append("0");
  await assert.rejects(stream.read(5), (error) => {
    assert.ok(error instanceof AheadError && error instanceof CursorError && error instanceof TidingsError);
    assert.equal(error.code, "ahead");
    assert.equal(error.retryable, false);
    return true;
  });
  assert.throws(() => h.resume("s", "no cursor"), CursorError);
  assert.throws(() => new Hub("ftp://x"), (error) => error instanceof InvalidArgumentError && /^url: /.test(error.message));
  assert.throws(() => new Hub("memory:", { workerLeaseMs: 0.5 }), /workerLeaseMs: must be a whole number of milliseconds/);
  assert.throws(() => new Hub("memory:", { allowPorts: [70_000] }), /allowPorts: 70000 is no port/);
  assert.throws(() => new Hub("memory:", { proxy: "socks5://u:hunter2@proxy:1" }), (error) => {
    assert.match(error.message, /^proxy: must begin with http:/);
    return !error.message.includes("hunter2");
  });
  await assert.rejects(stream.read(2 ** 53), /after: must be a whole number, 0 to 2\^53 - 1/);
  await assert.rejects(stream.read(undefined, 0), InvalidArgumentError);
});

test("a payload that is no UTF-8 keeps its bytes", async (t) => {
  const h = await hub(t);
  const stream = h.stream("s", "n");
  await stream.append(Buffer.from([0x22, 0xff, 0x22]));
  const [event] = (await stream.read()).events;
  assert.deepEqual([...event.bytes], [0x22, 0xff, 0x22]);
  assert.equal(event.payload, '"\ufffd"');
});

test("a key appends once, identity comes back, and a stream is exported as it is", async (t) => {
  const h = await hub(t);
  const stream = h.stream("s", "n");
  const identity = { task: "t1", toolCall: "c1" };
  assert.equal(await stream.append(["1.0", "2"], { key: "k", identity, close: false }), 0);
  assert.equal(await stream.append(["1.0", "2"], { key: "k" }), 0);
  assert.equal(await stream.append("3", { type: "x", close: true }), 2);
  const page = await stream.read();
  assert.deepEqual(page.events.map((event) => event.payload), ["1.0", "2", "3"]);
  assert.deepEqual(page.events[0].identity, identity);
  assert.equal(page.events[2].identity, undefined);
  assert.equal(page.ended, true);
  const lines = [...stream.export()];
  assert.equal(lines.length, 3);
  assert.ok(lines.every((line) => line.endsWith("\n")));
  assert.match(lines[0], /"payload":1\.0/);
  assert.deepEqual(lines.map((line) => JSON.parse(line).seq), [0, 1, 2]);
  await assert.rejects(stream.append("4", { identity: { owner: "x" } }), /^InvalidArgumentError: identity: /);
});

test("a newer claim fences the writer", async (t) => {
  const h = await hub(t);
  const older = await h.stream("s", "n").claim();
  older.append("0");
  await older.flush();
  const newer = await h.stream("s", "n").claim();
  older.append("lost");
  await assert.rejects(older.flush(), FencedError);
  newer.append("1");
  await newer.flush();
  assert.deepEqual(
    (await h.stream("s", "n").read()).events.map((event) => event.payload),
    ["0", "1"],
  );
});

test("a call ends once, and a bad config names every fault", async (t) => {
  const h = await hub(t);
  const call = await h.beginCall({ principal: "p", requestId: "1", tool: "add" });
  assert.match(call.acknowledgement(), /^\{"requestId":"1",/);
  const ended = call.ended();
  const won = await call.complete('{"content":[]}');
  assert.deepEqual(won, { outcome: "completed", reason: undefined, ours: true, committed: true, undelivered: undefined });
  assert.equal((await ended).outcome, "completed");
  assert.equal((await call.cancel()).ours, false);

  const config = JSON.stringify({ routes: [{ id: "a", type: "pigeon" }] });
  await assert.rejects(h.beginCall({ config, principal: "p", requestId: 1, tool: "add" }), (error) => {
    assert.ok(error instanceof ConfigError);
    assert.equal(error.code, "invalid_config");
    assert.ok(error.total >= 1 && error.faults.every((fault) => fault.path.startsWith("/routes")));
    return true;
  });
});

test("a request id keeps what JavaScript's numbers cannot hold", async (t) => {
  const h = await hub(t);
  const call = await h.beginCall({ principal: "p", requestId: 9007199254740993n, tool: "add" });
  assert.equal(JSON.stringify(call.acknowledgement()).includes("9007199254740993"), true);
  await call.complete("{}");
});

test("a task is found by its principal only", async (t) => {
  const h = await hub(t);
  const call = await h.beginCall({ principal: "ann", requestId: 1, tool: "add" });
  assert.equal(await call.becomeTask(60_000), true);
  assert.equal(h.task(call.id, { principal: "ann" }).status, "working");
  assert.equal(h.task(call.id, { principal: "bob" }), undefined);
  assert.equal(await h.cancelTask(call.id, { principal: "ann" }), true);
  assert.equal(h.task(call.id, { principal: "ann" }).status, "cancelled");
});

test("numbers of connections and listeners are of one outbox, also where they are used again", async (t) => {
  const h = await hub(t);
  const [one, two] = [h.outbox(), h.outbox()];
  const profile = new Profile("2025-11-25", '{"tools":{"listChanged":true}}', "{}");
  const sink = one.addSink();
  const listener = one.attend(sink, profile);
  assert.notEqual(sink, two.addSink());
  const foreign = (what) => (error) =>
    error instanceof InvalidArgumentError && error.message === `${what}: is of another outbox`;
  for (const use of [
    () => two.attend(sink, profile),
    () => two.setReachable(sink, false),
    () => two.written(sink),
    () => two.broke(sink),
    () => two.dropSink(sink),
  ]) {
    assert.throws(use, foreign("sink"));
  }
  for (const use of [
    () => two.open(listener),
    () => two.subscribe(listener, profile, "test://a"),
    () => two.unsubscribe(listener, profile, "test://a"),
    () => two.end(listener),
    () => two.cancel(listener),
  ]) {
    assert.throws(use, foreign("listener"));
  }
  // The same place, used again: another number, which is a whole one all the same.
  assert.equal(one.dropSink(sink), 1);
  const again = one.addSink();
  assert.notEqual(again, sink);
  assert.ok(Number.isSafeInteger(again));
  assert.equal(one.written(sink), false);
});

test("two processes share a file: what one kills -9 left committed, the other reads", async (t) => {
  const path = join(await folder(t), "tidings.db");
  const child = spawn(process.execPath, [join(HERE, "child-append.mjs"), path], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = await once(child.stdout, "data");
  const cursor = line.toString().trim();
  child.kill("SIGKILL");
  await once(child, "exit");

  const h = new Hub(`sqlite:${path}`);
  t.after(() => h.close());
  const page = await h.stream("session:x", "log").read(cursor);
  assert.deepEqual(
    page.events.map((event) => event.payload),
    ["1", "2"],
  );
});

test("the process exits by itself with hubs open, and what was appended is there", async (t) => {
  const path = join(await folder(t), "tidings.db");
  const child = spawnSync(process.execPath, [join(HERE, "child-exit.mjs"), path], { encoding: "utf8", timeout: 100_000 });
  assert.equal(child.status, 0, child.stderr);
  const h = new Hub(`sqlite:${path}`);
  t.after(() => h.close());
  assert.deepEqual(
    (await h.stream("s", "n").read()).events.map((event) => event.payload),
    ["0", "1"],
  );
});

test("20 workers make and drop 100 hubs each, end with a tail that waits, and leave nothing behind", async () => {
  const source = new URL("./worker-hubs.mjs", import.meta.url);
  const held = (what) => (process.platform === "linux" ? readdirSync(`/proc/self/${what}`).length : 0);
  const before = { task: held("task"), fd: held("fd") };
  const done = [];
  for (let n = 0; n < 20; n++) {
    const ended = deferred();
    const worker = new Worker(source, { workerData: { rounds: 100 } });
    worker.on("error", ended.reject);
    worker.on("exit", ended.resolve);
    done.push(ended.promise);
  }
  assert.deepEqual(await Promise.all(done), Array(20).fill(0));
  // Two threads for each hub, gone with it; Node.js may keep a few of its own, and of its descriptors.
  for (const [what, number] of Object.entries(before)) {
    while (held(what) > number + 16) await new Promise((resolve) => setTimeout(resolve, 10));
  }
});

test("events that were read at once come as one batch", async (t) => {
  const h = await hub(t);
  const stream = h.stream("s", "n");
  await stream.append(["0", "1", "2"]);
  const tail = stream.tail();
  const batch = await tail.nextBatch();
  assert.equal(batch.length, 3);
  assert.ok(batch.every((event) => event instanceof Event));
  assert.equal(tail.cursor, batch[2].cursor);
  tail.close();
});
