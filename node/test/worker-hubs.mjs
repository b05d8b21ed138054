// Makes and drops hubs; the last one is left with a tail that somebody waits for.
import { workerData } from "node:worker_threads";

import { Hub } from "tidings";

for (let n = 0; n < workerData.rounds; n++) {
  const hub = new Hub("memory:");
  const writer = hub.newWriter("s", "n");
  writer.append("{}");
  await writer.flush();
  await hub.close();
}
const left = new Hub("memory:");
const tail = left.resume("s", left.newWriter("s", "n").append("{}"));
tail.next().catch(() => {});
process.exit(0);
