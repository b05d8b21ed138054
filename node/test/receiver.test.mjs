// The receiver kit, by hand, over node:http, Express and fetch-style requests, and fed by a hub of its own.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createServer, request as httpRequest } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import express from "express";
import { Hub, InvalidArgumentError, Webhook } from "tidings";
import { Incoming, Receiver, ReceiverDocument, Seen, StoredSeen, WELL_KNOWN } from "tidings/webhook";

import { deferred, folder, hub } from "./harness.mjs";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const BODY = '{"eventId":"evt_1","name":"tool_call.completed","data":{"n":1.0}}';
// From the rules of the sender: see proto's challenge vectors.
const CHALLENGE = '{"type":"verification","challenge":"n0ncé"}';

const signed = (body = BODY, { id = "evt_1", secret = SECRET, ...rest } = {}) => new Webhook(secret).sign(body, { id, ...rest });

/** What the process warns of, as the receiver tells its operator. */
function warning() {
  return new Promise((resolve) => process.once("warning", resolve));
}

/** Serves a listener; answers its origin. */
async function serve(t, listener) {
  const server = createServer(listener);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}`;
}

function receiver(options = {}) {
  const got = [];
  const made = new Receiver({ secrets: [SECRET], handler: (incoming) => void got.push(incoming), ...options });
  return { receiver: made, got };
}

test("each webhook is handled once, whichever secret signed it", async () => {
  const { receiver: made, got } = receiver({ secrets: [SECRET, OTHER] });
  const upper = Object.fromEntries(Object.entries(signed()).map(([name, value]) => [name.toUpperCase(), value]));
  for (const headers of [signed(), signed(), signed(BODY, { secret: OTHER }), new Headers(signed()), upper]) {
    assert.equal((await made.receive(BODY, headers)).status, 204);
  }
  await made.receive(Buffer.from(BODY), signed(BODY, { id: "evt_2" }));
  assert.ok(got.every((incoming) => incoming instanceof Incoming));
  assert.deepEqual(got.map(({ id }) => id), ["evt_1", "evt_2"]);
  assert.equal(got[0].text(), BODY);
  assert.deepEqual(got[0].json().data, { n: 1 });
});

test("what is not genuine is refused and told nothing", async () => {
  const { receiver: made, got } = receiver();
  for (const [body, headers] of [
    [`${BODY} `, signed()],
    [BODY, signed(BODY, { secret: OTHER })],
    [BODY, {}],
    [BODY, signed(BODY, { timestamp: 1_700_000_000_000 })],
    [BODY, { ...signed(), "webhook-id": ["evt_1", "evt_1"] }],
  ]) {
    assert.deepEqual(await made.receive(body, headers), { status: 401, body: "", headers: {} });
  }
  assert.deepEqual(got, []);
});

test("a handler that fails gets it again, and the process goes on", async () => {
  let tries = 0;
  const { receiver: made } = receiver({
    handler: async () => {
      if (++tries === 1) throw new Error("not yet");
    },
  });
  const warned = warning();
  const statuses = [];
  for (let n = 0; n < 3; n++) statuses.push((await made.receive(BODY, signed())).status);
  assert.deepEqual(statuses, [500, 204, 204]);
  assert.equal(tries, 2);
  assert.equal((await warned).code, "TIDINGS_RECEIVER");
});

test("a second attempt while the first is at work comes back later", async () => {
  const reached = deferred();
  const gate = deferred();
  const { receiver: made } = receiver({
    handler: () => {
      reached.resolve();
      return gate.promise;
    },
  });
  const first = made.receive(BODY, signed());
  await reached.promise;
  const second = await made.receive(BODY, signed());
  assert.deepEqual([second.status, second.headers["retry-after"]], [503, "1"]);
  gate.resolve();
  assert.equal((await first).status, 204);
});

test("a challenge is answered when it is signed, and what only looks like one is handled", async () => {
  const { receiver: made, got } = receiver();
  const told = await made.receive(CHALLENGE, signed(CHALLENGE));
  assert.deepEqual([told.status, JSON.parse(told.body)], [200, { challenge: "n0ncé" }]);
  assert.equal((await made.receive(CHALLENGE, {})).status, 401);
  assert.deepEqual(got, []);
  const likes = ['{"type":"verification","challenge":1}', '{"data":{"type":"verification","challenge":"x"}}', "[1]"];
  for (const [n, body] of likes.entries()) {
    assert.equal((await made.receive(body, signed(body, { id: `evt_${n}` }))).status, 204);
  }
  assert.equal(got.length, 3);
});

test("the firings of a batch are given one by one", async () => {
  const { receiver: made, got } = receiver();
  const bodies = ['{"events":[{"eventId":"a","n":1.0},{"eventId":"b"}]}', '{"eventId":"c","events":[1]}', "[1]", '{"events":1}'];
  for (const [n, body] of bodies.entries()) {
    assert.equal((await made.receive(body, signed(body, { id: `bat_${n}` }))).status, 204);
  }
  assert.deepEqual(
    got.map((incoming) => incoming.events()),
    [[{ eventId: "a", n: 1 }, { eventId: "b" }], [{ eventId: "c", events: [1] }], [[1]], [{ events: 1 }]],
  );
});

test("the window has an end, by number and by age", () => {
  let now = 0;
  const seen = new Seen({ size: 2, ttlMs: 10_000, clock: () => now });
  for (const id of ["a", "b", "c"]) seen.add(id);
  assert.deepEqual(["a", "b", "c"].map((id) => seen.has(id)), [false, true, true]);
  now = 10_000;
  assert.equal(seen.has("c"), false);
  assert.equal(seen.size, 0);
  assert.throws(() => new Seen({ size: 0 }), InvalidArgumentError);
  assert.throws(() => new Seen({ ttlMs: Number.NaN }), InvalidArgumentError);
});

test("the window in a store outlives kill -9", async (t) => {
  const path = join(await folder(t), "tidings.db");
  const script = fileURLToPath(new URL("child-receive.mjs", import.meta.url));
  const run = (id) => {
    const done = spawnSync(process.execPath, [script, path, SECRET, id], { encoding: "utf8", timeout: 60_000 });
    assert.equal(done.signal, "SIGKILL", done.stderr);
    return done.stdout.split("\n").filter(Boolean);
  };
  assert.deepEqual(run("evt_1"), ["evt_1", "204"]);
  assert.deepEqual(run("evt_1"), ["204"]);
  assert.deepEqual(run("evt_2"), ["evt_2", "204"]);
});

test("two hubs on one file share the window", async (t) => {
  const url = `sqlite:${join(await folder(t), "tidings.db")}`;
  const [one, two] = [new Hub(url), new Hub(url)];
  t.after(() => Promise.all([one.close(), two.close()]));
  const [first, second] = [new StoredSeen(one), new StoredSeen(two)];
  assert.equal(await first.has("a"), false);
  await first.add("a");
  assert.equal(await second.has("a"), true);
  await second.add("b");
  assert.equal(await first.has("b"), true);
  assert.equal(await new StoredSeen(one, { scope: "another" }).has("a"), false);
});

test("node:http: raw bytes, methods, sizes, repeated headers", async (t) => {
  const { receiver: made, got } = receiver({ maxBody: 100 });
  const origin = await serve(t, made.listener);
  const post = (body, headers = {}) => fetch(origin, { method: "POST", body, headers });
  assert.equal((await post(BODY, signed())).status, 204);
  assert.equal((await post(BODY)).status, 401);
  const large = "x".repeat(101);
  assert.equal((await post(large, signed(large))).status, 413);
  const refused = await fetch(origin);
  assert.deepEqual([refused.status, refused.headers.get("allow")], [405, "POST"]);
  // Bytes that are no UTF-8 are the same bytes after all.
  const raw = Buffer.from([0x22, 0xff, 0x22]);
  assert.equal((await post(raw, signed(raw, { id: "evt_raw" }))).status, 204);
  assert.deepEqual([...got[1].body], [0x22, 0xff, 0x22]);
  // A header that comes twice is refused and not joined.
  const twice = await new Promise((resolve, reject) => {
    const headers = { ...signed(BODY, { id: "evt_2" }), "webhook-timestamp": ["1", "2"] };
    httpRequest(origin, { method: "POST", headers }, resolve).on("error", reject).end(BODY);
  });
  twice.resume();
  assert.equal(twice.statusCode, 401);
  assert.equal(got.length, 2);
});

test("node:http: a sender that leaves in the middle is no error of anybody", async (t) => {
  const { receiver: made, got } = receiver();
  const left = deferred();
  const origin = await serve(t, (request, response) => {
    request.on("close", left.resolve);
    made.listener(request, response, left.reject);
  });
  const sender = httpRequest(origin, { method: "POST", headers: { ...signed(), "content-length": 1_000 } });
  sender.on("error", () => {});
  sender.write(BODY, () => sender.destroy());
  await left.promise;
  const answered = await fetch(origin, { method: "POST", body: BODY, headers: signed() });
  assert.equal(answered.status, 204);
  assert.equal(got.length, 1);
});

test("Express: before a body parser, behind a raw one, and a clear error behind express.json()", async (t) => {
  const { receiver: made, got } = receiver();
  const app = express();
  app.post("/first", made.listener);
  app.post("/raw", express.raw({ type: () => true }), made.listener);
  app.use(express.json());
  app.post("/late", made.listener);
  app.use((error, _request, response, _next) => response.status(500).send(error.message));
  const origin = await serve(t, app);
  const post = (path, id) => {
    const headers = { ...signed(BODY, { id }), "content-type": "application/json" };
    return fetch(origin + path, { method: "POST", body: BODY, headers });
  };
  assert.equal((await post("/first", "evt_1")).status, 204);
  assert.equal((await post("/raw", "evt_2")).status, 204);
  const late = await post("/late", "evt_3");
  assert.equal(late.status, 500);
  assert.match(await late.text(), /before express\.json\(\)/);
  assert.deepEqual(got.map(({ id }) => id), ["evt_1", "evt_2"]);
});

test("fetch-style requests", async () => {
  const { receiver: made, got } = receiver({ maxBody: 100 });
  const post = (body, headers) => made.fetch(new Request("https://me.example/hook", { method: "POST", body, headers }));
  assert.equal((await post(BODY, signed())).status, 204);
  assert.equal((await post(BODY, {})).status, 401);
  assert.equal((await post("x".repeat(101), {})).status, 413);
  assert.equal((await made.fetch(new Request("https://me.example/hook"))).status, 405);
  const answered = await post(CHALLENGE, signed(CHALLENGE));
  assert.equal(answered.headers.get("content-type"), "application/json");
  assert.deepEqual(await answered.json(), { challenge: "n0ncé" });
  assert.equal(got.length, 1);
});

test("the document at its well-known place", async (t) => {
  const document = new ReceiverDocument(["/hook"], { maxAgeMs: 60_999 });
  const app = express();
  app.use(WELL_KNOWN, document.listener);
  const origin = await serve(t, app);
  const found = await fetch(origin + WELL_KNOWN);
  assert.deepEqual(await found.json(), { receivers: ["/hook"] });
  assert.equal(found.headers.get("content-type"), "application/json");
  assert.equal(found.headers.get("cache-control"), "max-age=60");
  const head = await fetch(origin + WELL_KNOWN, { method: "HEAD" });
  assert.deepEqual([head.status, await head.text()], [200, ""]);
  assert.equal((await fetch(origin + WELL_KNOWN, { method: "POST" })).status, 405);
  const fetched = await document.fetch(new Request("https://me.example"));
  assert.equal(await fetched.text(), document.text);
  for (const bad of [[], ["hook"]]) assert.throws(() => new ReceiverDocument(bad), /receivers: each must be a path/);
  assert.throws(() => new ReceiverDocument("/hook"), TypeError);
  assert.throws(() => new Receiver({ secrets: [SECRET] }), /handler/);
  assert.throws(() => new Receiver({ secrets: SECRET, handler() {} }), /secrets/);
  assert.throws(() => new Receiver({ secrets: ["hunter2"], handler() {} }), InvalidArgumentError);
});

for (const proof of ["challenge", "well_known"]) {
  test(`a hub verifies the receiver by ${proof}, and what it sends is handled once`, async (t) => {
    const got = deferred();
    const { receiver: made } = receiver({ handler: (incoming) => got.resolve(incoming.json()) });
    const app = express();
    if (proof === "well_known") {
      app.get(WELL_KNOWN, new ReceiverDocument(["/hook"]).listener);
      // The document is asked for where a challenge finds nobody: a receiver that knows of none.
      app.post("/hook", express.raw({ type: () => true }), (request, response, next) =>
        request.body.includes('"verification"') ? response.status(404).end() : next(),
      );
    }
    app.post("/hook", made.listener);
    const origin = await serve(t, app);
    const port = Number(new URL(origin).port);
    const h = await hub(t, { allowNetworks: ["127.0.0.0/8"], allowHttp: true, allowPorts: [port], verify: "always" });
    const route = { id: "r", type: "webhook", endpoint: `${origin}/hook`, triggers: ["completed"], secret: SECRET };
    const config = JSON.stringify({ routes: [route] });
    const call = await h.beginCall({ config, principal: "p", requestId: 1, tool: "t" });
    await call.complete("{}");
    assert.equal((await got.promise).data.callId, call.id);
    const [endpoint] = h.endpoints();
    assert.deepEqual([endpoint.state, endpoint.proof], ["verified", proof]);
  });
}
