// The packed package in a clean folder, as people get it: CommonJS, ES modules, strict TypeScript.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { folder } from "./harness.mjs";

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("..", import.meta.url));

test("the packed package works from CJS, ESM and strict TypeScript, with one copy of its classes", async (t) => {
  const place = await folder(t);
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", place], { cwd: ROOT });
  const [{ filename, files }] = JSON.parse(stdout);
  const names = files.map(({ path }) => path);
  assert.ok(names.includes("dist/index.js") && names.includes("dist/mcp/index.d.mts") && names.includes("dist/client/index.mjs") && names.includes("README.md"));
  assert.ok(!names.some((name) => /^(src|test)\//.test(name)), names.join());
  const modules = join(place, "node_modules", "tidings");
  await mkdir(modules, { recursive: true });
  await run("tar", ["-xzf", join(place, filename), "-C", modules, "--strip-components=1"]);

  await writeFile(
    join(place, "a.cjs"),
    'const { Hub } = require("tidings"); const { eventStore } = require("tidings/mcp");\n' +
      'const same = require("tidings/webhook").Webhook === require("tidings").Webhook && "gap" in require("tidings/client");\n' +
      'new Hub("memory:").stream("s", "n").append("1").then((seq) => console.log(typeof eventStore, same, seq));',
  );
  await writeFile(
    join(place, "b.mjs"),
    'import { createRequire } from "node:module"; import { Hub } from "tidings"; import { eventStore } from "tidings/mcp";\n' +
      'import { Webhook } from "tidings/webhook"; import { capability } from "tidings/client"; capability();\n' +
      'const required = createRequire(import.meta.url)("tidings");\n' +
      'const same = required.Hub === Hub && required.Webhook === Webhook;\n' +
      'console.log(typeof eventStore, same, await new Hub("memory:").stream("s", "n").append("1"));',
  );
  assert.equal((await run(process.execPath, ["a.cjs"], { cwd: place })).stdout, "function true 0\n");
  assert.equal((await run(process.execPath, ["b.mjs"], { cwd: place })).stdout, "function true 0\n");

  const source =
    'import { Hub, type Event, type Gap } from "tidings";\nimport { durableTransport, eventStore, TaskMessageQueue, TaskStore } from "tidings/mcp";\n' +
    'import type * as tasks from "@modelcontextprotocol/sdk/experimental/tasks/interfaces.js";\n' +
    'import type { EventStore } from "@modelcontextprotocol/server";\n' +
    'import type { EventStore as EventStore1 } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";\n' +
    'const hub: Hub = new Hub("memory:");\nexport const two: EventStore = eventStore(hub, () => ({ sessionId: "s" }));\n' +
    'export const one: EventStore1 = eventStore(hub, () => ({}));\n' +
    'export const next: Promise<Event | Gap | undefined> = hub.resume("s", "c").next();\n' +
    'import { type Listener, Receiver, StoredSeen } from "tidings/webhook";\nimport * as client from "tidings/client";\n' +
    "export const listener: Listener = new Receiver({ secrets: [], handler: async ({ id }) => id, seen: new StoredSeen(hub) }).listener;\n" +
    'export const config: client.Config = client.config([client.webhook("https://a.example", { triggers: ["completed"] })]);\n' +
    "export const store: tasks.TaskStore = new TaskStore(hub);\nexport const queue: tasks.TaskMessageQueue = new TaskMessageQueue(hub);\n" +
    'import { type ServeStdioOptions, StdioServerTransport } from "@modelcontextprotocol/server/stdio";\n' +
    "export const over: ServeStdioOptions = { transport: durableTransport(new StdioServerTransport(), hub) };\n" +
    "// @ts-expect-error a number is no URL\nnew Hub(5);\n";
  for (const kind of ["cts", "mts"]) await writeFile(join(place, `c.${kind}`), source);
  for (const name of ["@types", "@modelcontextprotocol", "undici-types", "zod", "zod-to-json-schema"]) {
    await symlink(join(ROOT, "node_modules", name), join(place, "node_modules", name)).catch(() => {});
  }
  await writeFile(
    join(place, "tsconfig.json"),
    JSON.stringify({
      compilerOptions: {
        strict: true,
        noEmit: true,
        module: "Node16",
        target: "ES2022",
        lib: ["ES2023", "ESNext.Disposable", "DOM"],
        types: ["node"],
        exactOptionalPropertyTypes: true,
        // The SDKs' own declarations are not what is checked here.
        skipLibCheck: true,
      },
      files: ["c.cts", "c.mts"],
    }),
  );
  await run(process.execPath, [join(ROOT, "node_modules", "typescript", "bin", "tsc"), "-p", place]).catch((error) =>
    assert.fail(error.stdout),
  );
});
