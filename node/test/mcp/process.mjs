// A server of both eras in a process of its own, which can be killed: node process.mjs FILE. Says its port, then goes on by what
// it is told on stdin, a line each: `notify KIND` answers `told N`, `go` opens the gate of its tools, which say `reached` there.
import { createInterface } from "node:readline";

import { Hub } from "tidings";

import { bothEras } from "./eras.mjs";
import { Play, taskServer } from "./task-server.mjs";

const ends = [];
const hub = new Hub(`sqlite:${process.argv[2]}`);
const play = new Play();
const tools = Object.fromEntries(["work", "progress", "stubborn", "ask"].map((tool) => [tool, "always"]));
const { url } = await bothEras({ after: (end) => ends.push(end) }, hub, {
  make: (Server) => {
    const server = taskServer(play, Server);
    server.registerPrompt("hello", {}, () => ({ messages: [] }));
    return server;
  },
  attached: { tasks: { tools }, tasksStream: true },
});
console.log(new URL(url).port);
void play.reached.promise.then(() => console.log("reached"));
void play.stopped.promise.then(() => console.log("cancelled"));
for await (const line of createInterface({ input: process.stdin })) {
  const [what, ...words] = line.split(" ");
  if (what === "notify") console.log(`told ${hub.notify(words[0]).told}`);
  if (what === "go") play.gate.resolve();
}
for (const end of ends) await end();
await hub.close();
