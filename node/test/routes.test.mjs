import assert from "node:assert/strict";
import { once } from "node:events";
import { after, test } from "node:test";

import { deferred, hub } from "./harness.mjs";

// Serving a route does not keep the process alive by itself; something else has to, as a server's socket does.
const alive = setInterval(() => {}, 1_000);
after(() => clearInterval(alive));

const config = (...routes) => JSON.stringify({ routes: routes.map((route) => ({ triggers: ["completed"], ...route })) });

test("a callback gets the outcome, and confirms it", async (t) => {
  const h = await hub(t);
  const arrived = deferred();
  h.registerCallback("audit", async (delivery) => arrived.resolve(delivery));
  const call = await h.beginCall({
    config: config({ id: "a", type: "callback", endpoint: "audit" }),
    routeTypes: ["callback"],
    open: ["audit"],
    principal: "ann",
    requestId: 1,
    tool: "add",
  });
  await call.complete('{"content":[]}');
  const delivery = await arrived.promise;
  assert.equal(delivery.principal, "ann");
  assert.equal(delivery.trigger, "completed");
  assert.equal(JSON.parse(delivery.body).name, "tool_call.completed");
  assert.equal(JSON.parse(delivery.frame()).method, "notifications/io.tidings/triggered");
  for (let state; state !== "delivered"; ) {
    await new Promise((resolve) => setImmediate(resolve));
    [{ state }] = h.deliveries({ callId: call.id });
  }
});

test("a handler that throws fails its delivery and not the process; one that refuses passes it on", async (t) => {
  const h = await hub(t);
  const arrived = deferred();
  h.registerRouteType("com.example.pager", () => false);
  h.registerCallback("second", (delivery) => {
    if (delivery.attempt === 1) throw new Error("not now");
    arrived.resolve(delivery);
  });
  const warned = once(process, "warning");
  const call = await h.beginCall({
    config: config(
      { id: "a", type: "com.example.pager", endpoint: "+1" },
      { id: "b", type: "callback", endpoint: "second" },
    ),
    routeTypes: ["com.example.pager", "callback"],
    open: ["second"],
    principal: "ann",
    requestId: 1,
    tool: "add",
  });
  await call.complete('{"content":[]}');
  const delivery = await arrived.promise;
  assert.equal(delivery.route, "b");
  assert.ok(delivery.attempt > 1);
  assert.equal((await warned)[0].code, "TIDINGS_HANDLER");
  const first = h.deliveries({ callId: call.id }).find(({ route }) => route === "a");
  assert.equal(first.eventId, delivery.eventId);
  assert.equal(first.state, "superseded");
});
