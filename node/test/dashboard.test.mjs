// The example with the WebSocket, as a user would run it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { WebSocket } from "ws";

import { Client } from "./harness.mjs";

const EXAMPLE = fileURLToPath(new URL("../examples/build/dashboard.mjs", import.meta.url));

async function start(t) {
  const child = spawn(process.execPath, [EXAMPLE], { stdio: ["ignore", "pipe", "inherit"] });
  t.after(async () => {
    child.kill("SIGKILL");
    if (child.signalCode === null) await once(child, "exit");
  });
  const [line] = await once(child.stdout, "data");
  return Number(line.toString());
}

/** A browser: the frames that came, in order. */
async function browser(t, port, token) {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/dashboard?token=${token}`);
  t.after(() => socket.terminate());
  const frames = [];
  const waiting = [];
  socket.on("message", (data) => {
    const frame = JSON.parse(data.toString());
    const next = waiting.shift();
    if (next) next(frame);
    else frames.push(frame);
  });
  const next = () => (frames.length > 0 ? Promise.resolve(frames.shift()) : new Promise((resolve) => waiting.push(resolve)));
  await once(socket, "open");
  return { socket, next };
}

const text = (frame) => frame.params.data.outcome.result.content[0].text;

test("each user sees what is theirs, and a call without a dashboard is as good as ever", async (t) => {
  const port = await start(t);
  const url = `http://127.0.0.1:${port}/mcp`;
  const client = (user) => new Client(url, { authorization: `Bearer token-of-${user}` }).initialize();
  const call = async (client, quarter, endpoint) => {
    const route = { id: "d", type: "message", endpoint, triggers: ["completed"] };
    const params = { name: "report", arguments: { quarter }, notificationConfig: { routes: [route] } };
    return (await (await client.request("tools/call", params)).rest()).at(-1).message;
  };
  await assert.rejects(browser(t, port, "nobody"), /403/);
  assert.equal((await fetch(url, { method: "POST" })).status, 401);
  const [ann, bob] = [await client("ann"), await client("bob")];
  const toAnn = await browser(t, port, "token-of-ann");
  const again = await browser(t, port, "token-of-ann");
  const toBob = await browser(t, port, "token-of-bob");

  const answer = await call(ann, "Q1", "dashboard/ann");
  assert.deepEqual(answer.result._meta["io.tidings/acknowledged"].acceptedRoutes, ["d"]);
  // Bob names Ann's dashboard: his session opens his own only.
  const refused = await call(bob, "Q2", "dashboard/ann");
  assert.equal(refused.error.code, -32602);
  assert.equal(refused.error.data.faults[0].path, "/routes/0/endpoint");
  await call(bob, "Q3", "dashboard/bob");
  await call(ann, "Q4", "dashboard/ann");
  const first = await toAnn.next();
  assert.equal(first.method, "notifications/io.tidings/triggered");
  assert.equal(text(first), "The report of Q1 is ready.");
  assert.equal(text(await toAnn.next()), "The report of Q4 is ready.");
  assert.equal(text(await again.next()), "The report of Q1 is ready.");
  assert.equal(text(await toBob.next()), "The report of Q3 is ready.");

  // A session of another user's is none.
  const thief = new Client(url, { authorization: "Bearer token-of-bob" });
  thief.sessionId = ann.sessionId;
  assert.equal((await thief.get()).status, 404);

  toBob.socket.close();
  await once(toBob.socket, "close");
  assert.equal((await call(bob, "Q5", "dashboard/bob")).result.content[0].text, "The report of Q5 is ready.");
});
