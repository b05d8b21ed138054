// Appends to a stream that others append to as well, each time when it is told to.
import { parentPort, workerData } from "node:worker_threads";

import { Hub } from "tidings";

const { path, count } = workerData;
const hub = new Hub(`sqlite:${path}`);
const stream = hub.stream("s", "n");
const numbers = [];
for (let n = 0; n < count; n++) numbers.push(await stream.append("{}"));
await hub.close();
parentPort.postMessage(numbers);
