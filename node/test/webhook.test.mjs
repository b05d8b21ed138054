import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

import { Webhook as Standard } from "standardwebhooks";
import { InvalidArgumentError, Webhook, WebhookError } from "tidings";

import { deferred, hub } from "./harness.mjs";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

test("the npm package standardwebhooks verifies ours, and we verify its", () => {
  const body = '{"name":"tool_call.completed"}';
  const ours = new Webhook(SECRET).sign(body, { id: "evt_1" });
  assert.deepEqual(new Standard(SECRET).verify(body, ours), JSON.parse(body));

  const now = new Date();
  const theirs = {
    "Webhook-Id": "evt_2",
    "Webhook-Timestamp": String(Math.floor(now.getTime() / 1000)),
    "Webhook-Signature": new Standard(SECRET).sign("evt_2", now, body),
  };
  new Webhook(OTHER, SECRET).verify(body, theirs);
  new Webhook(SECRET).verify(Buffer.from(body), new Headers(theirs));
});

test("what is wrong with a webhook is a code", () => {
  const webhook = new Webhook(SECRET);
  const now = 1_800_000_000_000;
  const headers = webhook.sign("{}", { id: "evt_1", timestamp: now });
  const refused = (code, check) => assert.throws(check, (e) => e instanceof WebhookError && e.code === code, code);
  webhook.verify("{}", headers, { now });
  refused("mismatch", () => webhook.verify("{ }", headers, { now }));
  refused("mismatch", () => new Webhook(OTHER).verify("{}", headers, { now }));
  refused("too_old", () => webhook.verify("{}", headers, { now: now + 301_000 }));
  refused("too_new", () => webhook.verify("{}", headers, { now: now - 301_000 }));
  assert.throws(() => webhook.verify("{}", headers, { toleranceMs: Number.NaN }), InvalidArgumentError);
  assert.throws(() => new Webhook("hunter2!"), (e) => e instanceof InvalidArgumentError && !e.message.includes("hunter2"));
  assert.throws(() => new Webhook(), InvalidArgumentError);
});

test("the end of a call arrives as a signed webhook, from node to node", async (t) => {
  const arrived = deferred();
  const receiver = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    try {
      new Webhook(SECRET).verify(Buffer.concat(chunks), request.headers);
      arrived.resolve(JSON.parse(Buffer.concat(chunks)));
    } catch (error) {
      arrived.reject(error);
    }
    response.writeHead(204).end();
  });
  await new Promise((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    receiver.closeAllConnections();
    receiver.close();
  });
  const h = await hub(t, { allowHttp: true, allowNetworks: ["127.0.0.0/8"], allowPorts: [receiver.address().port] });
  const config = JSON.stringify({
    routes: [
      {
        id: "me",
        type: "webhook",
        endpoint: `http://127.0.0.1:${receiver.address().port}/hook`,
        secret: SECRET,
        triggers: ["completed"],
      },
    ],
  });
  const call = await h.beginCall({ config, principal: "ann", requestId: 7, tool: "add" });
  assert.deepEqual(call.acceptedRoutes, ["me"]);
  await call.complete('{"content":[{"type":"text","text":"3"}]}');
  const body = await arrived.promise;
  assert.equal(body.name, "tool_call.completed");
  assert.equal(body.data.requestId, 7);
  assert.equal(body.data.outcome.result.content[0].text, "3");
  const [delivery] = h.deliveries({ callId: call.id });
  assert.equal(delivery.eventId, body.eventId);
  assert.ok(["delivered", "leased"].includes(delivery.state));
});
