// A client made of a TypeScript SDK alone, that does as it is told by JSON lines on its standard input and says what comes.
//
//     speaks.mjs 1|2 URL legacy|modern      of @modelcontextprotocol/sdk 1.x or of @modelcontextprotocol/client 2.x
//
// It has nothing of ours but the names that are on the wire.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const load = createRequire(new URL("../../../node/package.json", import.meta.url));
const [, , version, url, mode] = process.argv;
const HEARD = ["notifications/io.tidings/gap", "notifications/config/acknowledged", "notifications/tasks/event"];
const TASKS = "io.modelcontextprotocol/tasks";

const say = (what) => console.log(JSON.stringify(what));

const { Client, StreamableHTTPClientTransport } =
  version === "1"
    ? { ...load("@modelcontextprotocol/sdk/client/index.js"), ...load("@modelcontextprotocol/sdk/client/streamableHttp.js") }
    : load("@modelcontextprotocol/client");
const { z } = load("zod");
// Read as they come, whatever an SDK has a model of.
const anything = z.object({}).passthrough();

const client = new Client(
  { name: "foreign", version: "1" },
  {
    capabilities: { extensions: { [TASKS]: {} } },
    ...(mode === "modern" ? { versionNegotiation: { mode: { pin: "2026-07-28" } } } : {}),
  },
);
client.fallbackNotificationHandler = async ({ method, params }) => {
  if (HEARD.includes(method)) say({ told: method, params });
};
const transport = new StreamableHTTPClientTransport(new URL(url), {
  reconnectionOptions: { initialReconnectionDelay: 20, maxReconnectionDelay: 20, reconnectionDelayGrowFactor: 1, maxRetries: 50 },
});
// A stream that was cut, and what it is cut by, is what this is about.
client.onerror = () => {};

const options = { onprogress: ({ progress }) => say({ progress }), timeout: 60_000 };
const request = (method, params, more) =>
  version === "1" ? client.request({ method, params }, anything, more) : client.request({ method, params }, anything, more);

const does = {
  call: ({ arguments: given, meta }) =>
    request("tools/call", { name: "report", arguments: given, _meta: meta }, options),
  list: async () => (await client.listTools()).tools.map(({ name }) => name),
  task: ({ method, params }) => request(method, params, options),
};

await client.connect(transport);
say({ connected: mode });
for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  try {
    say({ result: await does[asked.do](asked) });
  } catch (error) {
    say({ error: { code: error.code ?? null, message: String(error.message), data: error.data ?? null } });
  }
}
await client.close();
process.exit(0);
