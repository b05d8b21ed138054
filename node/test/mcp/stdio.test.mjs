// Over stdio: signals for the process at the other end, and the listeners of 2026-07-28.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { Hub } from "tidings";

import { deferred, folder } from "../harness.mjs";
import { envelope } from "./eras.mjs";

const SERVER = fileURLToPath(new URL("stdio-server.mjs", import.meta.url));
const ACKNOWLEDGED = "notifications/config/acknowledged";
const TRIGGERED = "notifications/io.tidings/triggered";

/** A server whose parent this process is, as a client has it on the wire. */
class Stdio {
  #nextId = 0;
  /** Requests that are out, by their ids. */
  #answers = new Map();
  /** Who waits for what comes besides answers, and what came and nobody waited for. */
  #waiting = [];
  heard = [];

  constructor(t, ...argv) {
    this.process = spawn(process.execPath, [SERVER, ...argv], { stdio: ["pipe", "pipe", "inherit"] });
    createInterface({ input: this.process.stdout }).on("line", (line) => this.#came(JSON.parse(line)));
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.once("exit", () => {
      for (const waits of [...this.#answers.values(), ...this.#waiting]) waits.reject(new Error("the server ended"));
    });
    t.after(async () => {
      this.process.stdin.end();
      await ended;
    });
  }

  #came(message) {
    if (message.method === undefined) {
      this.#answers.get(message.id)?.resolve(message);
      this.#answers.delete(message.id);
    } else if (this.#waiting.length > 0) this.#waiting.shift().resolve(message);
    else this.heard.push(message);
  }

  send(message) {
    this.write(JSON.stringify({ jsonrpc: "2.0", ...message }));
  }

  write(text) {
    this.process.stdin.write(`${text}\n`);
  }

  /** The answer to a request that is out, or about to be. */
  answer(id) {
    const answer = deferred();
    this.#answers.set(id, answer);
    return answer.promise;
  }

  request(method, params) {
    const id = ++this.#nextId;
    this.send({ id, method, params });
    return this.answer(id);
  }

  /** The next notification, which is to be this one. */
  async next(method) {
    const waits = deferred();
    if (this.heard.length > 0) waits.resolve(this.heard.shift());
    else this.#waiting.push(waits);
    const message = await waits.promise;
    assert.equal(message.method, method);
    return message;
  }

  async initialize() {
    const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "raw", version: "1" } };
    const { result } = await this.request("initialize", params);
    this.send({ method: "notifications/initialized" });
    return result.capabilities;
  }

  call(...routes) {
    const config = { routes: routes.map((route, n) => ({ id: `r${n}`, triggers: ["completed"], ...route })) };
    return this.request("tools/call", { name: "noop", arguments: {}, notificationConfig: config });
  }
}

for (const sdk of ["1", "2", "serve"]) {
  test(`${sdk}: the names in a request may be escaped`, async (t) => {
    const server = new Stdio(t, sdk);
    await server.initialize();
    const config = JSON.stringify({ routes: [{ id: "r", type: "message", triggers: ["completed"] }] });
    // PHP's encoder, for one, writes each slash as `\/`.
    const given = [`"_meta":{"io.tidings\\/notification\\u002dconfig":${config}}`, `"notification\\u0043onfig":${config}`];
    for (const [id, params] of given.entries()) {
      const answer = server.answer(`own ${id}`);
      server.write(`{"jsonrpc":"2.0","id":"own ${id}","method":"tools\\/call","params":{"name":"noop","arguments":{},${params}}}`);
      assert.deepEqual((await answer).result._meta["io.tidings/acknowledged"].acceptedRoutes, ["r"]);
      await server.next(ACKNOWLEDGED);
      await server.next(TRIGGERED);
    }
  });
}

const onLinux = { skip: process.platform === "linux" ? false : "routes of type signal need Linux" };

for (const sdk of ["1", "2", "serve"]) {
  test(`B28: ${sdk}: the peer is rung with the signal it named, and survives the others`, onLinux, async (t) => {
    const rung = deferred();
    const ring = () => rung.resolve();
    process.on("SIGUSR2", ring);
    t.after(() => process.off("SIGUSR2", ring));
    const server = new Stdio(t, sdk);
    const { notificationConfig } = await server.initialize();
    assert.deepEqual(notificationConfig.supportedRouteTypes, ["signal", "message"]);
    const { result } = await server.call({ type: "signal", signal: "SIGUSR2" });
    assert.deepEqual(result._meta["io.tidings/acknowledged"].acceptedRoutes, ["r0"]);
    await rung.promise;
    await server.next(ACKNOWLEDGED);
    // This process waits for no such signal, which would end it: the next route has its turn.
    await server.call({ type: "signal", signal: "SIGRTMIN+3" }, { type: "message" });
    await server.next(ACKNOWLEDGED);
    assert.equal((await server.next(TRIGGERED)).params.data.route, "r1");
  });
}

test("B28: whatever else is asked for is refused when the config comes", onLinux, async (t) => {
  const server = new Stdio(t, "2");
  await server.initialize();
  for (const route of [
    {},
    { signal: "SIGTERM" },
    { signal: "SIGKILL" },
    { signal: "SIGSTOP" },
    { signal: 0 },
    { signal: 64 },
    { signal: "SIGFOO" },
    { signal: "SIGUSR1", target: String(process.pid) },
    { signal: "SIGUSR1", endpoint: String(process.pid) },
  ]) {
    const { error } = await server.call({ type: "signal", ...route });
    assert.equal(error?.code, -32602, JSON.stringify(route));
  }
});

test("2026-07-28 over stdio: a listener hears what any process publishes, and what its own server says", async (t) => {
  const file = join(await folder(t), "tidings.db");
  const server = new Stdio(t, "serve", file);
  const other = new Hub(`sqlite:${file}`);
  t.after(() => other.close());
  const changed = "notifications/tools/list_changed";
  const meta = { _meta: envelope() };
  const listen = (id, notifications) => server.send({ id, method: "subscriptions/listen", params: { notifications, ...meta } });
  const tool = async (name) => {
    const { result } = await server.request("tools/call", { name, arguments: {}, ...meta });
    return result.content[0].text;
  };
  const idOf = ({ params }) => params._meta["io.modelcontextprotocol/subscriptionId"];

  listen("l", { toolsListChanged: true, promptsListChanged: true });
  const acknowledged = await server.next("notifications/subscriptions/acknowledged");
  assert.deepEqual([idOf(acknowledged), acknowledged.params.notifications], ["l", { toolsListChanged: true }]);
  other.notify("tools");
  assert.equal(idOf(await server.next(changed)), "l");
  assert.equal(await tool("grow"), "grown");
  assert.equal(idOf(await server.next(changed)), "l");

  // One that is cancelled is told nothing more, not even its end; the id 0 is as good as any.
  listen(0, { toolsListChanged: true });
  assert.equal(idOf(await server.next("notifications/subscriptions/acknowledged")), 0);
  assert.equal(await tool("publish"), "2");
  await Promise.all([server.next(changed), server.next(changed)]);
  server.send({ method: "notifications/cancelled", params: { requestId: "l", ...meta } });
  assert.equal(await tool("publish"), "1");
  assert.equal(idOf(await server.next(changed)), 0);

  const twice = server.answer(0);
  listen(0, {});
  assert.equal((await twice).error.code, -32600);
  const over = server.answer(0);
  assert.equal(await tool("finish"), "finished");
  assert.equal((await over).result.resultType, "complete");
  assert.equal(await tool("publish"), "0");
  // What the server would not serve is answered in its own words.
  const refused = server.answer("bad");
  server.send({ id: "bad", method: "subscriptions/listen", params: { notifications: 7, ...meta } });
  assert.equal((await refused).error.code, -32602);
  assert.deepEqual(server.heard, []);
});
