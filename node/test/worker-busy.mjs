// Calls with a callback route, one after the other, and a tail that waits, until it is ended from outside.
import { parentPort, workerData } from "node:worker_threads";

import { Hub } from "tidings";

const { path, name } = workerData;
const hub = new Hub(`sqlite:${path}`);
hub.registerCallback(name, () => parentPort.postMessage("delivered"));
const writer = hub.newWriter("s", name);
hub.resume("s", writer.append("0")).next().catch(() => {});
const routes = [{ id: "r", type: "callback", endpoint: name, triggers: ["completed"] }];
const config = JSON.stringify({ routes });
for (let n = 0; ; n++) {
  const call = await hub.beginCall({
    config,
    routeTypes: ["callback"],
    open: [name],
    principal: name,
    requestId: n,
    tool: "t",
  });
  await call.complete("{}");
}
