/** What the responses with server-sent events have in common. */

/** Headers that keep caches and proxies from holding events back. */
export const SSE_HEADERS: Readonly<Record<string, string>> = {
  "content-type": "text/event-stream",
  "cache-control": "no-cache, no-transform",
  connection: "keep-alive",
  "x-accel-buffering": "no",
};

/** How long a stream may be silent; proxies cut what is silent for longer than some 25 s. */
export const KEEP_ALIVE_MS = 15_000;
