// A server whose tools wait for the test, and a client that declares the Tasks extension; the same tools as in Python's tests.
import { acceptedContent, inputRequired } from "@modelcontextprotocol/server";
import { currentCall } from "tidings/mcp";
import { z } from "zod";

import { deferred, Sse } from "../harness.mjs";
import { post } from "./eras.mjs";

export const TASKS = "io.modelcontextprotocol/tasks";
export const DECLARED = { extensions: { [TASKS]: {} }, elicitation: { form: {} } };

/** Where the tools wait. */
export class Play {
  /** Opened by the test: lets the tool go on. */
  gate = deferred();
  /** Opened by the tool: it has come to the gate. */
  reached = deferred();
  /** Opened by a tool that was stopped. */
  stopped = deferred();
  /** What `ask` was called with each time. */
  rounds = [];
}

const text = (said) => ({ content: [{ type: "text", text: said }] });
const question = (message) =>
  inputRequired.elicit({
    message,
    requestedSchema: { type: "object", properties: { value: { type: "string" } } },
  });

/** Waits for the gate, or throws once the tool is told to stop. */
function passed(play, signal) {
  return new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => {
      play.stopped.resolve(signal.reason);
      reject(new Error("stopped"));
    });
    play.gate.promise.then(resolve);
    play.reached.resolve();
  });
}

export function taskServer(play, Server) {
  const server = new Server({ name: "tasks", version: "1" }, { capabilities: { logging: {} } });
  const count = z.number().optional();
  const counts = z.object({ before: count, after: count, size: count });
  server.registerTool("work", { inputSchema: counts }, async ({ before = 0, after = 0, size = 0 }, ctx) => {
    const padding = size === 0 ? {} : { padding: "x".repeat(size) };
    for (let n = 0; n < before; n++) currentCall().emit("com.example.step", { n });
    await passed(play, ctx.mcpReq.signal);
    for (let n = before; n < before + after; n++) currentCall().emit("com.example.step", { n, ...padding });
    return text("done");
  });
  server.registerTool("progress", {}, async (ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    const params = { progressToken, progress: 1, total: 2, message: "half" };
    if (progressToken !== undefined) await ctx.mcpReq.notify({ method: "notifications/progress", params });
    await ctx.mcpReq.log("debug", { said: "debug" }, "it");
    await passed(play, ctx.mcpReq.signal);
    return text("done");
  });
  server.registerTool("stubborn", {}, async (ctx) => {
    await passed(play, ctx.mcpReq.signal).catch(() => {});
    return text("too late");
  });
  server.registerTool("broken", {}, async (ctx) => {
    await passed(play, ctx.mcpReq.signal);
    throw new Error("it broke");
  });
  server.registerTool("ask", {}, async (ctx) => {
    const given = ctx.mcpReq.inputResponses ?? {};
    const step = Number(ctx.mcpReq.requestState() ?? 0);
    play.rounds.push([step, Object.fromEntries(Object.keys(given).map((key) => [key, acceptedContent(given, key)]))]);
    if (step === 0) {
      await passed(play, ctx.mcpReq.signal);
      return inputRequired({ inputRequests: { name: question("Who?"), colour: question("Which?") }, requestState: "1" });
    }
    if (step === 1) return inputRequired({ inputRequests: { name: question("Sure?") }, requestState: "2" });
    return text("asked");
  });
  // What it says goes to its client at once, on either era.
  server.registerTool("say", { inputSchema: counts }, async ({ before = 0, after = 0 }, ctx) => {
    const say = (n) => ctx.mcpReq.notify({ method: "notifications/message", params: { level: "info", data: n } });
    for (let n = 0; n < before; n++) await say(n);
    await passed(play, ctx.mcpReq.signal);
    for (let n = before; n < before + after; n++) await say(n);
    return text("done");
  });
  server.registerTool("quick", {}, () => {
    currentCall().emit("com.example.gone", {});
    return text("at once");
  });
  return server;
}

/** A client of 2026-07-28 that declares the extension on every request, or on none. */
export class TaskClient {
  constructor(url, { declares = true, headers = {} } = {}) {
    Object.assign(this, { url, headers, capabilities: declares ? DECLARED : {} });
  }

  async stream(method, params, headers = {}) {
    const abort = new AbortController();
    const options = { capabilities: this.capabilities, signal: abort.signal, headers: { ...this.headers, ...headers } };
    return new Sse(await post(this.url, method, params, options), abort);
  }

  /** All messages of an answer, of either form. */
  async messages(method, params, headers) {
    const answer = await this.stream(method, params, headers);
    if (!answer.response.headers.get("content-type")?.startsWith("text/event-stream")) return [await answer.response.json()];
    return (await answer.rest()).map(({ message }) => message);
  }

  async one(method, params, headers) {
    return (await this.messages(method, params, headers)).at(-1);
  }

  call(name, given = {}, more = {}) {
    return this.one("tools/call", { name, arguments: given, ...more });
  }

  /** Calls a tool that is to become a task. */
  async start(name, given, more) {
    const { result, error } = await this.call(name, given, more);
    if (result?.resultType !== "task") throw new Error(`no task: ${JSON.stringify(result ?? error)}`);
    return result;
  }

  async get(taskId) {
    return (await this.one("tasks/get", { taskId })).result;
  }

  /** The task once it is so. Polling is what the protocol gives a client. */
  async until(taskId, so) {
    for (;;) {
      const task = await this.get(taskId);
      if (so(task)) return task;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  finished(taskId) {
    return this.until(taskId, ({ status }) => ["completed", "failed", "cancelled"].includes(status));
  }

  /** The events up to the end of the stream, and the response. */
  async events(taskId, after) {
    const messages = await this.messages("tasks/stream", { taskId, ...(after === undefined ? {} : { after }) });
    return [messages.slice(0, -1).map(({ params }) => params), messages.at(-1)];
  }
}
