// The bytes that are sent where a session's streams are served from the store. B05, B06 and B09 are about parsers of event streams in
// clients, which this package has none of: the clients are the SDKs'. What of it touches a sender is here.
import assert from "node:assert/strict";
import { test } from "node:test";

import { durableFront } from "tidings/mcp";

import { Client, hub } from "../harness.mjs";
import { mcp, SDKS } from "./servers.mjs";

import { EventStream } from "./strict-sse.mjs";

const STREAM = "a request's";
const RESULT = { jsonrpc: "2.0", id: 1, result: {} };
const note = (method) => ({ jsonrpc: "2.0", method });

/** A session whose stream says these messages; `get` asks a front that does not hold it for what came after an id. */
async function session(t, { front = {} } = {}) {
  const h = await hub(t);
  const { url, sessions } = await mcp(t, SDKS[0], h, { attached: {} });
  const client = await new Client(url).initialize();
  const { store } = sessions.get(client.sessionId);
  const say = (message) => store.storeEvent(STREAM, message);
  const { answer } = durableFront(h, { lives: () => false, ...front });
  const get = async (lastEventId, name = "last-event-id") => {
    await h.flush(); // who does not hold the session knows what is committed
    const headers = {
      accept: "text/event-stream",
      "mcp-session-id": client.sessionId,
      "mcp-protocol-version": "2025-11-25",
      [name]: lastEventId,
    };
    return answer(new Request(url, { headers }));
  };
  const raw = async (...asked) => Buffer.from(await (await get(...asked)).arrayBuffer());
  return { say, get, raw };
}

test("B05: what is sent leaves nothing to a parser's reading", async (t) => {
  const { say, raw } = await session(t);
  const begin = await say(note("begin"));
  const texts = [" two  spaces ", "\ufeffBOM", "é", "\u{1f600}", "\u2028\u2029\x85\x0b\x0c\x1c", "data: x", "id: y", ": z", "\r\n"];
  const messages = [...texts.map(note), RESULT];
  const ids = [];
  for (const message of messages) ids.push(await say(message));
  const body = await raw(begin);
  assert.notDeepEqual([...body.subarray(0, 3)], [0xef, 0xbb, 0xbf]);
  assert.ok(!body.includes(0x0d), "no CR");
  for (const line of body.toString().split("\n")) assert.match(line, /^(|:|(id|event|data|retry): [^ ].*)$/s);
  for (const size of [1, 2, 3, 7, body.length]) {
    const pieces = [];
    for (let at = 0; at < body.length; at += size) pieces.push(body.subarray(at, at + size));
    const { events } = new EventStream().feed(pieces);
    assert.deepEqual(events.map(({ data }) => JSON.parse(data)), messages);
    assert.deepEqual(events.map(({ type, lastId }) => [type, lastId]), ids.map((id) => ["message", id]));
  }
});

test("B06: the time to come back is digits alone", async (t) => {
  const { say, raw } = await session(t);
  const begin = await say(note("begin"));
  await say(RESULT);
  const body = (await raw(begin)).toString();
  assert.deepEqual(body.split("\n").filter((line) => line.includes("retry")), ["retry: 1000"]);
  assert.equal(new EventStream().feed([Buffer.from(body)]).retry, 1_000);
});

test("B09: every event moves the cursor and none resets it; an id is taken however its header is written", async (t) => {
  const { say, raw, get } = await session(t);
  const ids = [];
  for (const message of [note("begin"), note("a"), note("b"), RESULT]) ids.push(await say(message));
  const told = new EventStream().feed([await raw(ids[0])]);
  assert.deepEqual(told.events.map(({ lastId }) => lastId), ids.slice(1));
  assert.equal(told.lastId, ids.at(-1));
  for (const id of ids) assert.match(id, /^[\x21-\x7e]+$/);
  for (const name of ["Last-Event-ID", "last-event-id", "LAST-EVENT-ID"]) {
    const again = new EventStream().feed([await raw(ids[1], name)]);
    assert.deepEqual(again.events.map(({ lastId }) => lastId), ids.slice(2));
  }
  // An id that was reset is no place to go on from.
  assert.equal((await get("")).status, 404);
});

test("B13: a byte at once, then comments, which are no events and move no cursor", async (t) => {
  const { say, get } = await session(t, { front: { keepAliveMs: 20 } });
  const begin = await say(note("begin"));
  const id = await say(note("a"));
  const response = await get(begin);
  assert.equal(response.headers.get("x-accel-buffering"), "no");
  const stream = new EventStream();
  const chunks = response.body[Symbol.asyncIterator]();
  let text = "";
  const more = async () => {
    const { value, done } = await chunks.next();
    if (done) return false;
    text += Buffer.from(value).toString();
    stream.feed([value]);
    return true;
  };
  await more();
  assert.ok(text.startsWith(":\n\n"), "before anything else");
  while (stream.events.length < 1) await more();
  // Silence, but for comments.
  const silent = text.length;
  while (!/^(:\n\n){3}/.test(text.slice(silent))) await more();
  assert.deepEqual([stream.events.length, stream.lastId], [1, id]);
  const last = await say(RESULT);
  while (await more());
  assert.match(text.slice(silent), /^(:\n\n)+id: .*\nevent: message\ndata: .*\n\n(:\n\n)*$/);
  assert.deepEqual([stream.events.length, stream.lastId], [2, last]);
});
