// Ends with a hub open and an event that nobody waited for.
import { Hub } from "tidings";

const hub = new Hub(`sqlite:${process.argv[2]}`);
const writer = hub.newWriter("s", "n");
writer.append("0");
await writer.flush();
writer.append("1");
