// A server of both eras in a process of its own, for tests in other languages: node process.mjs FILE. Says its port, then goes on
// by what it is told on stdin, a line each: `notify KIND` answers `told N`.
import { createInterface } from "node:readline";

import { Hub } from "tidings";

import { bothEras } from "./eras.mjs";

const ends = [];
const hub = new Hub(`sqlite:${process.argv[2]}`);
const { url } = await bothEras({ after: (end) => ends.push(end) }, hub);
console.log(new URL(url).port);
for await (const line of createInterface({ input: process.stdin })) {
  const [what, ...words] = line.split(" ");
  if (what === "notify") console.log(`told ${hub.notify(words[0]).told}`);
}
for (const end of ends) await end();
await hub.close();
