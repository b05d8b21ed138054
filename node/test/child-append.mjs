// Appends, says the cursor of the first event once all is committed, and waits to be killed.
import { Hub } from "tidings";

const [, , path] = process.argv;
if (path === undefined) throw new Error("a path is needed");
const hub = new Hub(`sqlite:${path}`);
const writer = hub.newWriter("session:x", "log");
const cursor = writer.append("0");
writer.append("1");
writer.append("2");
await writer.flush();
console.log(cursor);
setInterval(() => {}, 1_000);
