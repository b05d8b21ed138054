// The packages that the server is made of, found where the npm package has them.
import { createRequire } from "node:module";

const load = createRequire(new URL("../../../node/package.json", import.meta.url));

export const {
  createMcpHandler,
  createRequestStateCodec,
  InMemoryServerEventBus,
  isLegacyRequest,
  ProtocolError,
  Server,
  WebStandardStreamableHTTPServerTransport,
} = load("@modelcontextprotocol/server");
export const { toNodeHandler } = load("@modelcontextprotocol/node");

/** Ours, where the server is to have it. */
export function tidings() {
  return { ...load("tidings"), ...load("tidings/mcp") };
}
