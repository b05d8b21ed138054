// Prints a stream as JSON Lines: read.mjs DATABASE SCOPE NAME.
import { Hub } from "tidings";

const [, , database, scope, name] = process.argv;
if (scope === undefined || name === undefined) throw new Error("a database, a scope and a name are needed");
const hub = new Hub(`sqlite:${database}`);
for (const line of hub.stream(scope, name).export()) process.stdout.write(line);
await hub.close();
