// storeEvent, replay and live tail in Node.js on a SQLite file, beside the store of the SDK's examples, which keeps all in memory.
//
// Sides take turns in each round, in one process and on one event loop; the median of the rounds is told. The floor is what
// the event loop itself costs: an async function that does nothing, and JSON.stringify of the message.
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const require = createRequire(new URL("../../node/package.json", import.meta.url));
const sdk = require.resolve("@modelcontextprotocol/sdk/package.json").replace(/package\.json$/, "");
const { InMemoryEventStore } = await import(
  pathToFileURL(join(sdk.replace(/dist[\\/]cjs[\\/]$/, ""), "dist/esm/examples/shared/inMemoryEventStore.js"))
);
const { Hub } = await import("../../node/dist/index.mjs");
const { eventStore } = await import("../../node/dist/mcp/index.mjs");

const quick = process.argv.includes("--quick");
const EVENTS = quick ? 20_000 : 200_000;
const ROUNDS = quick ? 2 : 5;
const REPLAYS = quick ? 3 : 20;

const message = (n) => ({
  jsonrpc: "2.0",
  method: "notifications/progress",
  params: { progressToken: "t", progress: n, total: 100, message: "a message of about the length that progress messages have" },
});

const folder = mkdtempSync(join(tmpdir(), "tidings-bench-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const micros = (began, count) => (performance.now() - began) * 1_000 / count;

const encoder = new TextEncoder();
/** What goes out for one event, as the SDKs write it. */
const frame = (id, text) => encoder.encode(`event: message\nid: ${id}\ndata: ${text}\n\n`);

/** Appends by `append(hub, round)` and tells what it took to hand all over, and to commit it. */
async function onFile(name, round, begin) {
  const hub = new Hub(`sqlite:${join(folder, `${name}-${round}.db`)}`, { retention: { maxEvents: 1_000_000 } });
  hub.open();
  const append = begin(hub, round);
  const began = performance.now();
  for (let n = 0; n < EVENTS; n++) await append(message(n));
  const handed = micros(began, EVENTS);
  await hub.flush();
  const committed = micros(began, EVENTS);
  await hub.close();
  return [handed, committed];
}

const sides = {
  "an async function that does nothing": async () => {
    const nothing = async () => "";
    const began = performance.now();
    for (let n = 0; n < EVENTS; n++) await nothing();
    return [micros(began, EVENTS)];
  },
  "JSON.stringify": async () => {
    const began = performance.now();
    let bytes = 0;
    for (let n = 0; n < EVENTS; n++) bytes += JSON.stringify(message(n)).length;
    return [micros(began, EVENTS), bytes && undefined];
  },
  "SDK example, in memory": async () => {
    const store = new InMemoryEventStore();
    const began = performance.now();
    for (let n = 0; n < EVENTS; n++) await store.storeEvent("s", message(n));
    return [micros(began, EVENTS)];
  },
  "SDK example, then the SSE frame": async () => {
    const store = new InMemoryEventStore();
    const began = performance.now();
    let bytes = 0;
    for (let n = 0; n < EVENTS; n++) {
      const said = message(n);
      bytes += frame(await store.storeEvent("s", said), JSON.stringify(said)).length;
    }
    return [micros(began, EVENTS), bytes && undefined];
  },
  "tidings, on a file": (round) =>
    onFile("store", round, (hub) => {
      const store = eventStore(hub, () => ({ sessionId: `session-${round}` }));
      return (said) => store.storeEvent("s", said);
    }),
  // As behind the SDK's transport, which encodes the message for itself.
  "tidings, then the SSE frame": (round) =>
    onFile("framed", round, (hub) => {
      const store = eventStore(hub, () => ({ sessionId: `session-${round}` }));
      return async (said) => frame(await store.storeEvent("s", said), JSON.stringify(said));
    }),
  // In a host of one's own, which encodes once for the store and the wire.
  "tidings, one encoding for both": (round) =>
    onFile("once", round, (hub) => {
      const writer = hub.newWriter("s", "n");
      return (said) => {
        const text = JSON.stringify(said);
        return frame(writer.append(text), text);
      };
    }),
  "tidings, Writer.append of text that is ready": async (round) => {
    const hub = new Hub(`sqlite:${join(folder, `writer-${round}.db`)}`, { retention: { maxEvents: 1_000_000 } });
    const writer = hub.newWriter("s", "n");
    const text = JSON.stringify(message(1));
    const began = performance.now();
    for (let n = 0; n < EVENTS; n++) writer.append(text);
    const handed = micros(began, EVENTS);
    await writer.flush();
    const committed = micros(began, EVENTS);
    await hub.close();
    return [handed, committed];
  },
};

console.log(`Node.js ${process.version}, ${cpus().length} × ${cpus()[0].model.trim()}; ${EVENTS} events a run, ${ROUNDS} rounds\n`);
console.log("| storeEvent | µs an event, handed over | µs an event, committed |");
console.log("|---|---|---|");
const runs = Object.fromEntries(Object.keys(sides).map((name) => [name, []]));
for (let round = 0; round < ROUNDS; round++) {
  for (const [name, run] of Object.entries(sides)) {
    globalThis.gc?.();
    runs[name].push(await run(round));
  }
}
const told = {};
for (const [name, results] of Object.entries(runs)) {
  const handed = median(results.map(([first]) => first));
  const committed = results[0][1] === undefined ? undefined : median(results.map(([, second]) => second));
  told[name] = { handed, committed };
  console.log(`| ${name} | ${handed.toFixed(2)} | ${committed === undefined ? "–" : committed.toFixed(2)} |`);
}
const times = (theirs, ours, how) => (told[theirs].handed / told[ours][how]).toFixed(2);
const [plain, framed] = ["SDK example, in memory", "SDK example, then the SSE frame"];
console.log(`
| the example, which keeps an object in memory, takes … times as long | handed over | committed |
|---|---|---|
| as ours | ${times(plain, "tidings, on a file", "handed")} | ${times(plain, "tidings, on a file", "committed")} |
| with the frame, as ours behind the SDK | ${times(framed, "tidings, then the SSE frame", "handed")} | ${times(framed, "tidings, then the SSE frame", "committed")} |
| with the frame, as ours with one encoding | ${times(framed, "tidings, one encoding for both", "handed")} | ${times(framed, "tidings, one encoding for both", "committed")} |`);

// Replay of the last 100 events of a stream, with many retained.
console.log("\n| replay of 100 events | retained | ms |");
console.log("|---|---|---|");
for (const retained of quick ? [1_000, 10_000] : [1_000, 10_000, 50_000, 200_000]) {
  const example = new InMemoryEventStore();
  const hub = new Hub(`sqlite:${join(folder, `replay-${retained}.db`)}`, { retention: { maxEvents: 1_000_000 } });
  const store = eventStore(hub, () => ({ sessionId: "replay" }));
  for (let n = 0; n < retained - 100; n++) {
    await example.storeEvent(`other${n % 50}`, message(n));
    await store.storeEvent("long", message(n));
  }
  let theirs;
  let own;
  for (let n = 0; n <= 100; n++) {
    const [a, b] = [await example.storeEvent("last", message(n)), await store.storeEvent("long", message(n))];
    theirs ??= a;
    own ??= b;
  }
  await hub.flush();
  const time = async (from, id) => {
    const times = [];
    for (let n = 0; n < (from === example && retained > 10_000 ? 3 : REPLAYS); n++) {
      let count = 0;
      const began = performance.now();
      await from.replayEventsAfter(id, { send: async () => void count++ });
      times.push(performance.now() - began);
      // The example's order is not that of the events, so that it may send fewer.
      if (from === store && count !== 100) throw new Error(`${count} events came`);
    }
    return median(times);
  };
  console.log(`| SDK example | ${retained} | ${(await time(example, theirs)).toFixed(2)} |`);
  console.log(`| tidings | ${retained} | ${(await time(store, own)).toFixed(2)} |`);
  await hub.close();
}

// A live tail: a producer in the same process appends, the reader gets batches.
{
  const hub = new Hub("memory:");
  const writer = hub.newWriter("s", "live");
  const tail = hub.resume("s", writer.append("0"));
  const text = JSON.stringify(message(1));
  const began = performance.now();
  let seen = 0;
  for (let sent = 0; sent < EVENTS; ) {
    for (let n = 0; n < 256; n++, sent++) writer.append(text);
    while (seen < sent) seen += (await tail.nextBatch()).length;
  }
  const perSecond = seen / ((performance.now() - began) / 1_000);
  console.log(`\nLive tail, memory:, appended and read in batches of 256: ${(perSecond / 1e6).toFixed(2)} M events/s`);
  tail.close();
  await hub.close();
}
