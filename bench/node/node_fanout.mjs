// What one publish to many listeners costs a Node.js server, beside Web streams: a `ReadableStream` for each listener, as the
// SDKs have one for each open response, into which the encoded frame is enqueued, and a reader that waits for it.
//
// Both sides are timed twice: until the publish returned, and until every listener had it. Ours marks the listeners in the core,
// and the loop takes the frames in batches.
import { inTurns, machine, quick, ratios, spread } from "./_report.mjs";

const { Hub, Profile } = await import("../../node/dist/index.mjs");

const LISTENERS = quick ? [10, 1_000] : [10, 1_000, 10_000];
const TOLD = quick ? 5_000 : 200_000;
const ROUNDS = quick ? 2 : 7;
const FRAME = { jsonrpc: "2.0", method: "notifications/tools/list_changed" };

async function ours(listeners, publishes) {
  const hub = new Hub("memory:");
  const outbox = hub.outbox();
  const profile = new Profile("2025-11-25", '{"tools":{"listChanged":true}}', "{}");
  for (let n = 0; n < listeners; n++) outbox.open(outbox.attend(outbox.addSink({ deadlineMs: 60_000 }), profile));
  let [inCall, inAll] = [0, 0];
  for (let n = 0; n < publishes; n++) {
    const began = performance.now();
    hub.notify("tools");
    inCall += performance.now() - began;
    for (let told = 0; told < listeners; ) {
      await outbox.ready();
      const frames = outbox.take(1_024);
      told += frames.length;
      for (const { sink } of frames) outbox.written(sink);
    }
    inAll += performance.now() - began;
  }
  await hub.close();
  return [inCall, inAll];
}

async function streams(listeners, publishes) {
  const encoder = new TextEncoder();
  const controllers = [];
  let told = 0;
  let everybody;
  for (let n = 0; n < listeners; n++) {
    const reader = new ReadableStream({ start: (controller) => void controllers.push(controller) }).getReader();
    void (async () => {
      while (!(await reader.read()).done) if (++told === listeners) everybody();
    })();
  }
  let [inCall, inAll] = [0, 0];
  for (let n = 0; n < publishes; n++) {
    told = 0;
    const all = new Promise((resolve) => (everybody = resolve));
    const began = performance.now();
    // As the SDKs do: the frame is encoded for each response.
    for (const controller of controllers) controller.enqueue(encoder.encode(`event: message\ndata: ${JSON.stringify(FRAME)}\n\n`));
    inCall += performance.now() - began;
    await all;
    inAll += performance.now() - began;
  }
  for (const controller of controllers) controller.close();
  return [inCall, inAll];
}

console.log(`One publish, in nanoseconds for each listener; ${ROUNDS} rounds in turns. ${machine()}\n`);
console.log("| listeners | | call | drained |\n|---|---|---|---|");
for (const listeners of LISTENERS) {
  const publishes = Math.max(1, Math.floor(TOLD / listeners));
  const each = 1e6 / (listeners * publishes);
  const sides = { ours: () => ours(listeners, publishes), "Web streams": () => streams(listeners, publishes) };
  const runs = await inTurns(sides, ROUNDS);
  const of = (name, at) => runs[name].map((run) => run[at] * each);
  for (const name of Object.keys(sides)) console.log(`| ${listeners} | ${name} | ${spread(of(name, 0))} | ${spread(of(name, 1))} |`);
  const [call, drained] = [0, 1].map((at) => spread(ratios(of("Web streams", at), of("ours", at)), 1));
  console.log(`| | **Web streams/ours** | **${call}** | **${drained}** |`);
}
