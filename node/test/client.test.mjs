// What a client makes and reads.
import assert from "node:assert/strict";
import { test } from "node:test";

import { ConfigError, InvalidArgumentError } from "tidings";
import * as client from "tidings/client";

import { hub } from "./harness.mjs";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const HOOK = "https://me.example/hook";

test("a config of every type", () => {
  const made = client.config(
    [
      client.webhook(HOOK, { secret: SECRET, triggers: ["completed", "failed"], deadlineMs: 60_000 }),
      client.message({ triggers: ["completed"] }),
      client.callback("audit", { triggers: ["failed"] }),
      client.signal("SIGUSR2", { triggers: ["completed"] }),
    ],
    { timeoutMs: 1_500 },
  );
  assert.deepEqual(made, {
    routes: [
      { id: "webhook", type: "webhook", triggers: ["completed", "failed"], endpoint: HOOK, secret: SECRET, deadlineMs: 60_000 },
      { id: "message", type: "message", triggers: ["completed"] },
      { id: "callback", type: "callback", triggers: ["failed"], endpoint: "audit" },
      { id: "signal", type: "signal", triggers: ["completed"], signal: "SIGUSR2" },
    ],
    timeoutMs: 1_500,
  });
  assert.deepEqual(client.check(made), []);
});

test("the rules are the server's", () => {
  const good = client.webhook(HOOK, { triggers: ["completed"] });
  for (const [routes, rule] of [
    [[], "empty"],
    [[good, good], "duplicate_id"],
    [[{ ...good, secret: "hunter2" }]],
    [[{ ...good, headers: { Host: "x" } }]],
    [[client.signal("SIGKILL", { triggers: ["completed"] })], "pattern"],
    [[{ ...good, endpoint: "ftp://me.example" }]],
    [[null]],
  ]) {
    assert.throws(() => client.config(routes), (error) => {
      assert.ok(error instanceof ConfigError, String(error));
      if (rule !== undefined) assert.equal(error.faults[0].rule, rule);
      assert.ok(!String(error).includes("hunter2"));
      return true;
    });
  }
  assert.throws(() => client.config([good], { supported: ["message"] }), (error) => error.faults[0].rule === "unsupported_type");
  assert.throws(() => client.message({ triggers: "completed" }), /triggers/);
  assert.throws(() => client.config([good], { timeoutMs: 0 }), InvalidArgumentError);
  assert.deepEqual(client.check(client.config([{ ...good, triggers: ["later"] }])), ["later"]);
});

test("what a server says", () => {
  const told = { extensions: { [client.EXTENSION]: { supportedRouteTypes: ["webhook"] } }, [client.CONFIG]: {} };
  assert.deepEqual(client.supported(told), ["webhook"]);
  assert.deepEqual(client.supported({ [client.CONFIG]: { supportedRouteTypes: ["webhook", 1, "message"] } }), ["webhook", "message"]);
  for (const nothing of [{}, { extensions: [] }, null, undefined, 1]) assert.deepEqual(client.supported(nothing), []);
  assert.deepEqual(client.capability(), { [client.CONFIG]: {}, extensions: { [client.EXTENSION]: {} } });

  const params = { requestId: 7, acceptedRoutes: ["a"], callId: "call_1", ignoredTriggers: ["later"] };
  assert.deepEqual(client.acknowledgement(params), params);
  assert.deepEqual(client.acknowledgement({ "io.tidings/acknowledged": params }), params);
  for (const nothing of [{}, null, undefined, [params]]) assert.equal(client.acknowledgement(nothing), undefined);

  const entry = { trigger: "completed", routes: ["a"], reason: "no_deliverable_route" };
  assert.deepEqual(client.undelivered({ "io.tidings/undelivered": [entry, 1] }), [entry]);
  for (const nothing of [{}, null, undefined]) assert.deepEqual(client.undelivered(nothing), []);

  const gap = { reason: "evicted", earliestSeq: 5, headSeq: 9 };
  assert.deepEqual(client.gap(gap), gap);
  assert.deepEqual(client.gap({ reason: "unknown" }), { reason: "unknown", earliestSeq: undefined, headSeq: undefined });
  for (const nothing of [{}, null, undefined]) assert.equal(client.gap(nothing), undefined);
});

test("the core says what the client reads", async (t) => {
  const h = await hub(t);
  const config = client.config([client.message({ triggers: ["completed", "later"] })]);
  const call = await h.beginCall({
    config: JSON.stringify(config),
    routeTypes: ["message"],
    principal: "p",
    peer: "x",
    requestId: "q",
    tool: "t",
  });
  assert.deepEqual(client.acknowledgement(JSON.parse(call.acknowledgement())), {
    callId: call.id,
    requestId: "q",
    acceptedRoutes: ["message"],
    ignoredTriggers: ["later"],
  });
  await call.complete("{}");
});
