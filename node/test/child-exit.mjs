// Ends with a hub open and an event that nobody waited for.
import { Hub } from "tidings";

const [, , path] = process.argv;
if (path === undefined) throw new Error("a path is needed");
const hub = new Hub(`sqlite:${path}`);
const writer = hub.newWriter("s", "n");
writer.append("0");
await writer.flush();
writer.append("1");
