// What an operator does by hand, and a trace that goes on in webhooks.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

import { Hub, InvalidArgumentError } from "tidings";

import { hub } from "./harness.mjs";

const TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/** A webhook endpoint that answers what it is told to, and a hub that may post to it. */
async function stage(t, { statuses = [], ...options } = {}) {
  const posts = [];
  const waiting = [];
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray());
    response.writeHead(statuses.shift() ?? 204).end();
    const post = { headers: request.headers, body };
    const next = waiting.shift();
    if (next) next(post);
    else posts.push(post);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address();
  const h = await hub(t, { allowNetworks: ["127.0.0.0/8"], allowHttp: true, allowPorts: [port], ...options });
  const post = () => (posts.length > 0 ? Promise.resolve(posts.shift()) : new Promise((resolve) => waiting.push(resolve)));
  const fire = async (more = {}) => {
    const route = { id: "r", type: "webhook", endpoint: `http://127.0.0.1:${port}/`, triggers: ["completed"] };
    const config = JSON.stringify({ routes: [route] });
    const call = await h.beginCall({ config, principal: "p", requestId: 1, tool: "t", ...more });
    await call.complete('{"content":[1.0]}');
    return call;
  };
  /** The receipt of the next delivery that came to its end: it is written with that end. */
  const receipts = () => h.stream("p", "deliveries").tail();
  return { h, post, fire, receipts };
}

test("what was sent can be looked up and forgotten, and its receipt is on the principal's stream", async (t) => {
  const { h, post, fire, receipts } = await stage(t);
  const call = await fire();
  const { body } = await post();
  const receipt = await settled(receipts, 0);
  assert.equal(receipt.type, "io.tidings.delivered");
  const [delivery] = h.deliveries({ callId: call.id });
  assert.equal(delivery.state, "delivered");
  assert.equal(JSON.parse(receipt.payload).eventId, delivery.eventId);
  // What a server may show a client is the client's own.
  assert.deepEqual(h.deliveries({ principal: "p" }), [delivery]);
  assert.deepEqual(h.deliveries({ principal: "q", callId: call.id }), []);
  assert.deepEqual(h.attempts(delivery.id), [undefined]);
  assert.deepEqual(Buffer.from(h.deliveryBody(delivery.id)), body);
  assert.throws(() => h.sendAgain(delivery.id), /dead or expired/);
  assert.throws(() => h.attempts("nonsense"), (error) => error instanceof InvalidArgumentError && /^id: /.test(error.message));
  assert.throws(() => h.purge({ state: "leased" }), /final/);
  assert.throws(() => h.deliveries({ limit: 0 }), InvalidArgumentError);
  assert.equal(h.purge({ principal: "nobody" }), 0);
  assert.equal(h.purge({ state: "delivered" }), 1);
  assert.deepEqual(h.deliveries(), []);
});

test("a dead letter is found, sent again under the same id and bytes, and delivered", async (t) => {
  // 413 is final (DESIGN, section 6).
  const { h, post, fire, receipts } = await stage(t, { statuses: [413] });
  await fire();
  const first = await post();
  assert.equal((await settled(receipts, 0)).type, "io.tidings.dead");
  const [dead] = h.deliveries({ state: "dead" });
  assert.equal(h.attempts(dead.id).length, 1);
  const again = h.sendAgain(dead.id);
  assert.notEqual(again, dead.id);
  const second = await post();
  assert.equal(second.headers["webhook-id"], first.headers["webhook-id"]);
  assert.deepEqual(second.body, first.body);
  assert.equal((await settled(receipts, 1)).type, "io.tidings.delivered");
  assert.equal(h.deliveries({ state: "delivered" })[0].id, again);
  assert.equal(h.purge({ deliveryId: dead.id }), 1);
});

/** The receipt at a place of the stream, which may still have to begin. */
async function settled(receipts, seq) {
  for (;;) {
    try {
      for await (const event of receipts()) if (event.seq === seq) return event;
    } catch (error) {
      if (error.code !== "unknown_cursor") throw error;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}

test("an endpoint is seen, disabled and enabled", async (t) => {
  const { h, fire, post, receipts } = await stage(t);
  await fire();
  await post();
  await settled(receipts, 0);
  const [endpoint] = h.endpoints({ principal: "p" });
  const { key, ...rest } = endpoint;
  assert.deepEqual(rest, {
    principal: "p",
    host: "127.0.0.1",
    state: "verified",
    proof: "allow_list",
    failures: 0,
    tripped: false,
  });
  h.disableEndpoint(key);
  assert.equal(h.endpoints()[0].disabled, "operator");
  h.enableEndpoint(key);
  assert.equal(h.endpoints()[0].disabled, undefined);
  assert.throws(() => h.enableEndpoint("ab"), /^InvalidArgumentError: key: /);
});

test("a pause holds deliveries back, a trace goes on, and the numbers are told", async (t) => {
  const { h, fire, post, receipts } = await stage(t);
  h.pause();
  assert.equal(await h.drain(60_000), true);
  const call = await fire({ traceparent: TRACE });
  assert.deepEqual(h.deliveries({ callId: call.id }).map(({ state }) => state), ["pending"]);
  h.unpause();
  assert.equal((await post()).headers.traceparent, TRACE);
  await settled(receipts, 0);
  while (h.stats().delivered === 0) await new Promise((resolve) => setTimeout(resolve, 10)); // a counter tells nobody
  assert.equal(h.stats().attempts, 1);
  assert.ok(h.prometheus().split("\n").includes('tidings_deliveries_total{state="delivered"} 1'));
});

test("what this process serves, and what a config would come to", async (t) => {
  const h = await hub(t);
  assert.equal(h.serves("callback", "mine"), false);
  const registration = h.registerCallback("mine", () => true);
  assert.equal(h.serves("callback", "mine"), true);
  registration.close();
  assert.equal(h.serves("callback", "mine"), false);
  const config = JSON.stringify({ routes: [{ id: "r", type: "callback", endpoint: "mine", triggers: ["later"] }] });
  assert.deepEqual(h.checkConfig(config, { routeTypes: ["callback"], open: ["mine"] }), ["later"]);
  assert.throws(() => h.checkConfig(config, { routeTypes: ["callback"] }), /ConfigError/);
});

test("settings that cannot be", () => {
  for (const [name, wrong] of Object.entries({ verify: "never", previousSecret: "whsec_x", maxPending: -1, hostRate: 2 ** 40 })) {
    assert.throws(() => new Hub("memory:", { [name]: wrong }), InvalidArgumentError, name);
  }
});
