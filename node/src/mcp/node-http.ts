/** Between node:http and fetch, as far as a front needs it: requests without a body, responses of any length. */
import type { IncomingMessage, ServerResponse } from "node:http";

/** A request of node:http; frameworks put what they found of the client's authentication into `auth`. */
export type NodeRequest = IncomingMessage & { auth?: any };

/** The request without its body; its signal aborts when the client leaves. */
export function bodiless(request: NodeRequest, response: ServerResponse): Request {
  const left = new AbortController();
  response.on("close", () => left.abort());
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) headers.append(name, one);
  }
  const url = new URL(request.url ?? "/", `http://${request.headers.host ?? "localhost"}`);
  return new Request(url, { method: request.method ?? "GET", headers, signal: left.signal });
}

/** Writes the answer, no faster than the client reads. Never rejects. */
export async function write(answer: Response, response: ServerResponse): Promise<void> {
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  response.flushHeaders();
  const reader = answer.body?.getReader();
  const closed = new Promise<void>((resolve) => response.once("close", resolve));
  void closed.then(() => reader?.cancel().catch(() => {}));
  try {
    for (;;) {
      const part = await reader?.read();
      if (part === undefined || part.done || response.destroyed) break;
      if (!response.write(part.value)) {
        await Promise.race([new Promise<void>((resolve) => response.once("drain", resolve)), closed]);
      }
    }
    response.end();
  } catch {
    response.destroy();
  }
}
