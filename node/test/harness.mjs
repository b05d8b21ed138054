// What the tests share: a hub on a folder of its own, MCP servers over real HTTP, a client that reads the wire.
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Hub } from "tidings";

/** A new folder, removed after the test. */
export async function folder(t) {
  const path = await mkdtemp(join(tmpdir(), "tidings-node-"));
  t.after(() => rm(path, { recursive: true, force: true }));
  return path;
}

/** A hub on a new file, closed after the test. */
export async function hub(t, options) {
  const path = await mkdtemp(join(tmpdir(), "tidings-node-"));
  const made = new Hub(`sqlite:${join(path, "tidings.db")}`, options);
  // In this order: a hub that is still being opened makes files.
  t.after(async () => {
    await made.close();
    await rm(path, { recursive: true, force: true });
  });
  return made;
}

/** Resolved from outside. */
export function deferred() {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
}

/**
 * A port for a server that takes one by number. Below those that the system gives to connections (from 32768 on Linux), so
 * that none of them takes it until the server does.
 */
export async function freePort() {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    const probe = net.createServer();
    const free = await new Promise((resolve) => {
      probe.on("error", () => resolve(false));
      probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
    });
    if (free) return port;
  }
}

/** Serves `handle(request, response, body)` on a port that the system chose; answers its URL. */
export async function serve(t, handle) {
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    await handle(request, response, text === "" ? undefined : JSON.parse(text));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}/mcp`;
}

/** One MCP session as a legacy client has it, on the wire. */
export class Client {
  constructor(url, more = {}) {
    this.url = url;
    this.more = more;
    this.sessionId = undefined;
    this.nextId = 0;
  }

  get headers() {
    const headers = { accept: "application/json, text/event-stream", "content-type": "application/json", ...this.more };
    if (this.sessionId) Object.assign(headers, { "mcp-session-id": this.sessionId, "mcp-protocol-version": "2025-11-25" });
    return headers;
  }

  async initialize() {
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } };
    const stream = await this.request("initialize", params);
    this.sessionId = stream.response.headers.get("mcp-session-id");
    for await (const event of stream) if (event.message?.result) break;
    await this.post({ jsonrpc: "2.0", method: "notifications/initialized" });
    return this;
  }

  async post(message, signal) {
    return fetch(this.url, { method: "POST", headers: this.headers, body: JSON.stringify(message), signal });
  }

  async request(method, params) {
    const abort = new AbortController();
    const response = await this.post({ jsonrpc: "2.0", id: ++this.nextId, method, params }, abort.signal);
    return new Sse(response, abort);
  }

  /** Ends its session. */
  async delete() {
    return fetch(this.url, { method: "DELETE", headers: this.headers });
  }

  /** Comes back after an event, or opens the session's own stream. */
  async get(lastEventId) {
    const abort = new AbortController();
    const headers = { ...this.headers, ...(lastEventId === undefined ? {} : { "last-event-id": lastEventId }) };
    return new Sse(await fetch(this.url, { headers, signal: abort.signal }), abort);
  }
}

/** Server-sent events as they come: `{id, message}`, where the message of a priming event is `undefined`. */
export class Sse {
  #parts;
  constructor(response, abort) {
    this.response = response;
    this.abort = abort;
    this.#parts = this.#read();
  }

  get status() {
    return this.response.status;
  }

  async *#read() {
    let text = "";
    try {
      for await (const chunk of this.response.body.pipeThrough(new TextDecoderStream())) {
        text += chunk;
        for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
          const fields = text.slice(0, end).split("\n");
          const field = (name) => fields.find((line) => line.startsWith(`${name}:`))?.slice(name.length + 1).trim();
          if (field("data") === undefined) continue; // a comment that keeps the connection alive
          yield { id: field("id"), message: field("data") ? JSON.parse(field("data")) : undefined };
        }
      }
    } catch (error) {
      if (error.name !== "AbortError") throw error;
    }
  }

  [Symbol.asyncIterator]() {
    return { next: () => this.#parts.next() };
  }

  async next() {
    const { value, done } = await this.#parts.next();
    return done ? undefined : value;
  }

  /** All that comes until the server ends the response. */
  async rest() {
    const all = [];
    for await (const event of this) all.push(event);
    return all;
  }

  /** The client's network goes. */
  cut() {
    this.abort.abort();
  }
}

export { randomUUID };
