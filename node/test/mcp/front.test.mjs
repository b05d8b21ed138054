// Sessions that another process held or holds: resumed from the file, for whom they belong to, and 404 for all else.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { join } from "node:path";

import { toNodeHandler } from "@modelcontextprotocol/node";
import { Hub } from "tidings";
import { durableFetch, durableFront } from "tidings/mcp";

import { Client, deferred, folder, hub, serve } from "../harness.mjs";
import { bothEras } from "./eras.mjs";

const alive = setInterval(() => {}, 1_000);
after(() => clearInterval(alive));

/** A server in a process of its own, and a front on the same file in this one. */
async function processes(t, auth) {
  const path = join(await folder(t), "tidings.db");
  const child = spawn("node", [fileURLToPath(new URL("process.mjs", import.meta.url)), path], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  const end = async () => {
    child.kill("SIGKILL");
    await exited;
  };
  t.after(end);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const port = (await lines.next()).value;
  const h = new Hub(`sqlite:${path}`);
  t.after(() => h.close());
  const front = durableFront(h);
  const url = await serve(t, async (request, response) => {
    if (auth !== undefined) request.auth = { token: "t", clientId: auth, scopes: [] };
    if (!(await front.answerNode(request, response))) response.writeHead(418).end();
  });
  const client = await new Client(`http://127.0.0.1:${port}/mcp`).initialize();
  return { client, url, end, go: () => child.stdin.write("go\n"), said: async () => (await lines.next()).value };
}

/** Calls the tool; answers its stream after its first messages, and the id of the first. */
async function started(client, said, counts = { before: 3, after: 2 }) {
  const stream = await client.request("tools/call", { name: "say", arguments: counts });
  let event;
  do event = await stream.next();
  while (event.message === undefined);
  assert.equal(event.message.params.data, 0);
  assert.equal(await said(), "reached");
  return { stream, first: event.id };
}

const data = (events) => events.map(({ message }) => message.params?.data ?? message.result?.content[0].text);

test("a stream of a session that lives elsewhere is resumed, and followed to its end", async (t) => {
  const { client, url, go, said } = await processes(t);
  const { stream, first } = await started(client, said);
  stream.cut();
  const elsewhere = Object.assign(new Client(url), { sessionId: client.sessionId });
  const resumed = await elsewhere.get(first);
  assert.equal(resumed.status, 200);
  assert.equal(resumed.response.headers.get("mcp-session-id"), client.sessionId);
  assert.deepEqual(data([await resumed.next(), await resumed.next()]), [1, 2]);
  go();
  const rest = await resumed.rest();
  assert.deepEqual(data(rest), [3, 4, "done"]);
  // From any event on, also after the end.
  assert.deepEqual(data(await (await elsewhere.get(rest[0].id)).rest()), [4, "done"]);
});

test("a stream of a process that was killed gives what it said, and ends", async (t) => {
  const { client, url, end, said } = await processes(t);
  const { first } = await started(client, said);
  const elsewhere = Object.assign(new Client(url), { sessionId: client.sessionId });
  // Who reads from the file sees what is committed only, and that a crash does not take.
  const follows = await elsewhere.get(first);
  const seen = [await follows.next(), await follows.next()];
  await end();
  assert.deepEqual(await follows.rest(), []);
  const resumed = await elsewhere.get(first);
  assert.equal(resumed.status, 200);
  assert.deepEqual(data(await resumed.rest()), data(seen));
  // Nothing and nobody is left to say more after the last.
  assert.equal((await elsewhere.get(seen[1].id)).status, 404);
});

test("404 for what is not known, and for every other request of a session that does not live here", async (t) => {
  const { client, url, said } = await processes(t);
  const { first } = await started(client, said);
  const elsewhere = Object.assign(new Client(url), { sessionId: client.sessionId });
  assert.equal((await elsewhere.get("not-an-event")).status, 404);
  assert.equal((await elsewhere.get()).status, 404);
  assert.equal((await elsewhere.post({ jsonrpc: "2.0", id: 1, method: "ping" })).status, 404);
  assert.equal((await fetch(url, { method: "DELETE", headers: elsewhere.headers })).status, 404);
  const unknown = Object.assign(new Client(url), { sessionId: "unknown" });
  const answer = await unknown.get(first);
  assert.equal(answer.status, 404);
  assert.equal((await answer.response.json()).error.message, "Session not found");
  // Without a session it is the endpoint's.
  assert.equal((await fetch(url)).status, 418);
  // A client that ended its session has none.
  assert.equal((await fetch(client.url, { method: "DELETE", headers: client.headers })).status, 200);
  let resumed;
  do resumed = await elsewhere.get(first);
  while (resumed.status === 200 && (resumed.cut(), true)); // until the other process has committed it
  assert.equal(resumed.status, 404);
});

test("a session of nobody is not served to somebody", async (t) => {
  const { client, url, said } = await processes(t, "ann");
  const { first } = await started(client, said);
  const elsewhere = Object.assign(new Client(url), { sessionId: client.sessionId });
  assert.equal((await elsewhere.get(first)).status, 404);
});

test("a session of somebody is served to them only, in the form of fetch", async (t) => {
  const h = await hub(t);
  const authInfo = (who) => who && { token: "t", clientId: who, scopes: [] };
  const { url } = await bothEras(t, h, { authInfo });
  const ann = new Client(url);
  Object.defineProperty(ann, "headers", {
    get: () => ({ ...Object.getOwnPropertyDescriptor(Client.prototype, "headers").get.call(ann), authorization: "ann" }),
  });
  await ann.initialize();
  const stream = await ann.request("tools/call", { name: "noop", arguments: {} });
  const { id } = await stream.next();
  await stream.rest();
  // As another process, which holds none of the sessions, would have it.
  const durable = durableFetch(() => new Response(undefined, { status: 418 }), h, { lives: () => false });
  const elsewhere = await serve(t, (request, response, body) => {
    request.auth = authInfo(request.headers.authorization);
    return toNodeHandler(durable)(request, response, body);
  });
  const get = (authorization) =>
    fetch(elsewhere, { headers: { ...ann.headers, authorization, "last-event-id": id } });
  const theirs = await get("ann");
  assert.equal(theirs.status, 200);
  assert.match(await theirs.text(), /"result"/);
  for (const who of ["bob", ""]) assert.equal((await get(who)).status, 404);
});

test("a session that lives here is the endpoint's", async (t) => {
  const h = await hub(t);
  for (const store of [true, false]) {
    const { url } = await bothEras(t, h, { store });
    const client = await new Client(url).initialize();
    const front = durableFront(h);
    const asked = new Request(url, { headers: { ...client.headers, "last-event-id": "x" } });
    assert.equal(await front.answer(asked), undefined);
    await fetch(url, { method: "DELETE", headers: client.headers });
    assert.equal((await front.answer(asked)).status, 404);
  }
});

test("a session begins once other processes can look it up", async (t) => {
  const h = await hub(t);
  const [waits, gate] = [deferred(), deferred()];
  const flush = h.flush.bind(h);
  h.flush = async (...given) => {
    waits.resolve();
    await gate.promise;
    return flush(...given);
  };
  const { url } = await bothEras(t, h);
  const client = new Client(url);
  let begun = false;
  const beginning = client.initialize().then(() => (begun = true));
  await waits.promise;
  assert.equal(begun, false);
  gate.resolve();
  await beginning;
  const { events } = await h.stream(`session:${client.sessionId}`, "owner").read();
  assert.deepEqual(events.map(({ type }) => type), ["io.tidings.session"]);
});
