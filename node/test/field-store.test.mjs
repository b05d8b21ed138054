// Faults that others reported of their stores, by their numbers, on this surface.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { after, test } from "node:test";
import { Worker } from "node:worker_threads";

import { Hub } from "tidings";
import { eventStore } from "tidings/mcp";

import { Client, folder, hub } from "./harness.mjs";
import { bothEras } from "./mcp/eras.mjs";

const alive = setInterval(() => {}, 1_000);
after(() => clearInterval(alive));

test("B24: what is kept is bounded, by stream and in total; what went is told, and reads come in pages", async (t) => {
  const h = await hub(t, { retention: { maxEvents: 100, maxBytes: 40_000, maxTotalEvents: 300, maxTotalBytes: 90_000 } });
  // However well it is packed, each holds 500 bytes that cannot be made fewer.
  const payload = () => JSON.stringify(randomBytes(500).toString("hex"));
  const streams = ["a", "b", "c", "d", "e"].map((name) => h.stream("s", name));
  const count = 500;
  for (const stream of streams) {
    const writer = await stream.claim();
    for (let n = 0; n < count; n++) writer.append(payload(), { giveUp: true });
    await writer.flush();
  }
  // Retention goes on beside the appends, in small steps.
  const kept = async () => {
    let events = 0;
    for (const stream of streams) events += (await stream.read(undefined, 10_000)).events.length;
    return events;
  };
  while ((await kept()) * 500 > 90_000) await new Promise((resolve) => setTimeout(resolve, 10));
  for (const stream of streams) {
    const { events, gap, headSeq } = await stream.read(0, 7);
    assert.equal(headSeq, count - 1, "what is gone is numbered all the same");
    assert.deepEqual([gap.reason, gap.headSeq], ["evicted", count - 1]);
    assert.ok(events.length <= 7, "a page");
    if (events.length > 0) assert.equal(events[0].seq, gap.earliestSeq);
    // A reader goes on from page to page to the end, without a hole that it is not told of: retention may still be at work.
    let next = gap.earliestSeq;
    for (let cursor = gap.cursor; ; ) {
      const page = await stream.read(cursor, 7);
      if (page.gap !== undefined) {
        assert.ok(page.gap.earliestSeq > next, "a gap skips something");
        next = page.gap.earliestSeq;
      }
      if (page.events.length === 0) break;
      for (const { seq } of page.events) assert.equal(seq, next++);
      cursor = page.cursor;
    }
    assert.equal(next, count, "to the end");
  }
});

test("B24: a session without a store of ours keeps nothing", async (t) => {
  const h = await hub(t);
  const { url } = await bothEras(t, h, { store: false });
  const client = await new Client(url).initialize();
  const { events } = h.stats();
  const stream = await client.request("tools/call", { name: "noop", arguments: {} });
  assert.ok((await stream.rest()).at(-1).message.result);
  await h.flush();
  assert.equal(h.stats().events, events);
  // And one that has it keeps what it says, so that the above can fail.
  const kept = eventStore(h, () => ({ sessionId: "s" }));
  await kept.storeEvent("a", { jsonrpc: "2.0", method: "a" });
  await h.flush();
  assert.equal(h.stats().events, events + 1);
});

test("B25: a reader who asks for what is new misses nothing of writers in several threads", async (t) => {
  const path = join(await folder(t), "tidings.db");
  const h = new Hub(`sqlite:${path}`);
  t.after(() => h.close());
  const count = 60;
  const workers = [1, 2].map(() => {
    const worker = new Worker(new URL("worker-shared.mjs", import.meta.url), { workerData: { path, count } });
    return new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject));
  });
  const stream = h.stream("s", "n");
  const own = (async () => {
    const numbers = [];
    for (let n = 0; n < count; n++) numbers.push(await stream.append("{}"));
    return numbers;
  })();
  const seen = [];
  let after;
  while (seen.length < 3 * count) {
    const page = await stream.read(after);
    seen.push(...page.events.map(({ seq }) => seq));
    if (page.events.length > 0) after = seen.at(-1);
    else await new Promise((resolve) => setImmediate(resolve));
  }
  assert.deepEqual(seen, seen.map((_, n) => n));
  const numbers = (await Promise.all([own, ...workers])).flat().sort((a, b) => a - b);
  assert.deepEqual(numbers, seen);
});
