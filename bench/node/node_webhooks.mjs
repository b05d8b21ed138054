// Webhooks sent from Node.js, beside undici (Node's own fetch), to a receiver in a thread of its own.
//
// Ours sends what waits in a SQLite file: leased, signed, sent, its attempt recorded and settled, a receipt appended. The peer
// signs and sends what it has in memory, and keeps nothing. Both have as many requests under way, and the time is taken from
// the start of sending to the answer to the last; ours besides until the last is settled on the file.
import { createHmac, randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isMainThread, parentPort, Worker } from "node:worker_threads";
import { fileURLToPath } from "node:url";

const UNDER_WAY = 64;
const SECRET = Buffer.alloc(32, 7);

if (!isMainThread) {
  const { createServer } = await import("node:http");
  let wanted = 0;
  let seen = 0;
  const server = createServer((request, response) => {
    request.resume().on("end", () => {
      response.writeHead(204).end();
      if (++seen === wanted) parentPort.postMessage("all");
    });
  });
  server.keepAliveTimeout = 60_000;
  server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));
  parentPort.on("message", (count) => {
    wanted = count;
    seen = 0;
  });
} else {
  const { inTurns, machine, quick, ratios, spread } = await import("./_report.mjs");
  const { Hub } = await import("../../node/dist/index.mjs");
  const COUNT = quick ? 300 : 5_000;
  const ROUNDS = quick ? 2 : 7;
  const folder = mkdtempSync(join(tmpdir(), "tidings-bench-"));

  const receiver = new Worker(fileURLToPath(import.meta.url));
  const next = () => new Promise((resolve) => receiver.once("message", resolve));
  const port = await next();
  const endpoint = `http://127.0.0.1:${port}/`;
  const result = JSON.stringify({ content: [{ type: "text", text: "x".repeat(300) }] });

  const ours = async (round) => {
    const hub = new Hub(`sqlite:${join(folder, `${round}.db`)}`, {
      allowNetworks: ["127.0.0.0/8"],
      allowHttp: true,
      allowPorts: [port],
      concurrency: UNDER_WAY,
      endpointConcurrency: UNDER_WAY,
      endpointRate: 0,
      hostRate: 0,
      maxPending: COUNT + 1,
      defaultSecret: `whsec_${SECRET.toString("base64")}`,
    });
    hub.pause();
    const config = JSON.stringify({ routes: [{ id: "r", type: "webhook", endpoint, triggers: ["completed"] }] });
    const calls = [];
    for (let n = 0; n < COUNT; n++) {
      const call = hub.beginCall({ config, principal: "p", requestId: n, tool: "t" });
      calls.push(call.then((begun) => begun.complete(result)));
    }
    await Promise.all(calls);
    const all = next();
    receiver.postMessage(COUNT);
    const began = performance.now();
    hub.unpause();
    await all;
    const answered = performance.now() - began;
    while (hub.stats().delivered < COUNT) await new Promise((resolve) => setTimeout(resolve, 1));
    const settled = performance.now() - began;
    await hub.close();
    return [answered, settled];
  };

  const peer = async () => {
    const all = next();
    receiver.postMessage(COUNT);
    const began = performance.now();
    let sent = 0;
    const send = async () => {
      while (sent++ < COUNT) {
        const eventId = `evt_${randomUUID()}`;
        const timestamp = String(Math.floor(Date.now() / 1_000));
        const data = { callId: "call_1", requestId: sent, tool: "t", outcome: { status: "completed", result: JSON.parse(result) } };
        const body = JSON.stringify({ eventId, name: "tool_call.completed", timestamp: new Date().toISOString(), data });
        const signature = createHmac("sha256", SECRET).update(`${eventId}.${timestamp}.${body}`).digest("base64");
        const headers = {
          "content-type": "application/json",
          "webhook-id": eventId,
          "webhook-timestamp": timestamp,
          "webhook-signature": `v1,${signature}`,
        };
        const response = await fetch(endpoint, { method: "POST", headers, body });
        await response.arrayBuffer();
      }
    };
    await Promise.all(Array.from({ length: UNDER_WAY }, send));
    await all;
    const answered = performance.now() - began;
    return [answered, answered];
  };

  console.log(`${COUNT} webhooks of about 500 bytes, ${UNDER_WAY} under way, ${ROUNDS} rounds in turns. ${machine()}\n`);
  const { ours: own, peer: theirs } = await inTurns({ ours, peer }, ROUNDS);
  const rate = (runs, at) => runs.map((run) => COUNT / (run[at] / 1_000));
  console.log("| | webhooks a second, answered | settled on the file |\n|---|---|---|");
  console.log(`| ours, from a SQLite file | ${spread(rate(own, 0))} | ${spread(rate(own, 1))} |`);
  console.log(`| fetch (undici), from memory | ${spread(rate(theirs, 0))} | – |`);
  const [first, second] = [0, 1].map((at) => spread(ratios(rate(own, at), rate(theirs, 0)), 2));
  console.log(`| **ours/fetch** | **${first}** | **${second}** |`);
  await receiver.terminate();
  rmSync(folder, { recursive: true, force: true });
}
