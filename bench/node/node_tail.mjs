// A live tail in Node.js: batches of events, pulled, beside a thread-safe function that is called for each event, as bindings have
// it that give every event to a callback.
//
// Ours: a producer on the same loop appends to a stream in memory, and the tail reads what was committed, in batches of `Event`
// objects; and a tail that reads what is there already. The peer has no stream and no store: a thread calls with a ready text.
import { existsSync } from "node:fs";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";

import { inTurns, machine, quick, ratios, spread } from "./_report.mjs";

const { Hub } = await import("../../node/dist/index.mjs");

const EVENTS = quick ? 20_000 : 500_000;
const ROUNDS = quick ? 2 : 7;
const CHUNK = 256;
const TEXT = JSON.stringify({
  jsonrpc: "2.0",
  method: "notifications/progress",
  params: { progressToken: "t", progress: 1, total: 100, message: "a message of about the length that progress messages have" },
});

/** The peer's extension module, as `bench/run` builds it, or else that of a debug build. */
function peer() {
  const name = process.platform === "darwin" ? "libtidings_bench_node.dylib" : "libtidings_bench_node.so";
  const target = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL("../../target", import.meta.url));
  const file = ["release", "debug"].map((profile) => `${target}/${profile}/${name}`).find((path) => existsSync(path));
  if (file === undefined) throw new Error("cargo build --release --package tidings-bench-node has not been run");
  const module = { exports: {} };
  process.dlopen(module, file, constants.dlopen.RTLD_NOW);
  return module.exports;
}
const { perEvent } = peer();

/** Appends in chunks and reads each; `read` answers how many events it got. */
async function tailed(read) {
  const hub = new Hub("memory:");
  const writer = hub.newWriter("s", "n");
  const first = writer.append(TEXT);
  await writer.flush();
  const next = read(hub, first);
  const began = performance.now();
  let seen = 0;
  for (let sent = 0; sent < EVENTS; ) {
    for (let n = 0; n < CHUNK; n++, sent++) writer.append(TEXT);
    while (seen < sent) seen += await next();
  }
  const perSecond = seen / ((performance.now() - began) / 1_000);
  await hub.close();
  return perSecond;
}

/** What is read of events that are there already: no append, no commit. */
async function replayed() {
  const hub = new Hub("memory:", { retention: { maxEvents: 2 * EVENTS } });
  const stream = hub.stream("s", "n");
  for (let sent = 0; sent < EVENTS; sent += 10_000) await stream.append(Array(10_000).fill(TEXT));
  const tail = stream.tail();
  const began = performance.now();
  let seen = 0;
  while (seen < EVENTS) seen += (await tail.nextBatch()).length;
  const perSecond = seen / ((performance.now() - began) / 1_000);
  await hub.close();
  return perSecond;
}

const objects = (hub, cursor) => {
  const tail = hub.resume("s", cursor);
  return async () => (await tail.nextBatch()).length;
};

const texts = (hub, cursor) => {
  const tail = hub.resume("s", cursor);
  return async () => {
    let bytes = 0;
    const batch = await tail.nextBatch();
    for (const { payload } of batch) bytes += payload.length;
    return bytes > 0 ? batch.length : 0;
  };
};

function threadSafe() {
  return new Promise((resolve) => {
    let seen = 0;
    const began = performance.now();
    perEvent(TEXT, EVENTS, (text) => {
      if (text.length > 0 && ++seen === EVENTS) resolve(seen / ((performance.now() - began) / 1_000));
    });
  });
}

const sides = {
  "ours: appended, committed, read as batches": () => tailed(objects),
  "ours: the same, each payload looked at": () => tailed(texts),
  "ours: read only": replayed,
  "a thread-safe function for each event": threadSafe,
};
console.log(`${EVENTS} events of ${TEXT.length} bytes, ${ROUNDS} rounds in turns; thousands a second. ${machine()}\n`);
console.log("| | thousand events a second | times the function |\n|---|---|---|");
const runs = await inTurns(sides, ROUNDS);
const theirs = runs["a thread-safe function for each event"];
for (const [name, rates] of Object.entries(runs)) {
  console.log(`| ${name} | ${spread(rates.map((rate) => rate / 1_000))} | ${spread(ratios(rates, theirs), 2)} |`);
}
