// Appends while the main thread is blocked, and says so in shared memory.
import { workerData } from "node:worker_threads";

import { Hub } from "tidings";

const { path, count, done } = workerData;
const hub = new Hub(`sqlite:${path}`);
const writer = await hub.stream("s", "n").claim();
for (let n = 1; n <= count; n++) writer.append(String(n));
writer.close();
await writer.flush();
await hub.close();
Atomics.store(done, 0, 1);
Atomics.notify(done, 0);
