// The examples of README.md run.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

import { Client, freePort } from "./harness.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

const text = await readFile(join(ROOT, "README.md"), "utf8");
const blocks = [...text.matchAll(/<!-- runnable( server)? -->\n```js\n([\s\S]*?)\n```/g)];
assert.equal(blocks.length, (text.match(/<!-- runnable/g) ?? []).length);

// A folder in which the package and the SDKs are found by name, as after npm install.
const folder = await mkdtemp(join(tmpdir(), "tidings-readme-"));
after(() => rm(folder, { recursive: true, force: true }));
await mkdir(join(folder, "node_modules"));
await symlink(ROOT, join(folder, "node_modules", "tidings"));
await symlink(join(ROOT, "node_modules", "@modelcontextprotocol"), join(folder, "node_modules", "@modelcontextprotocol"));

async function start(index, env = {}) {
  const file = join(folder, `example-${index}.mjs`);
  await writeFile(file, blocks[index][2]);
  return spawn(process.execPath, [file], { cwd: folder, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
}

const EXPECTED = new Map([
  ["claim", '2 {"step":2}\n3 {"step":3}\n4 {"step":4}\n'],
  ["webhook.verify", "refused: mismatch\n"],
  ["new Receiver", "evt_1 tool_call.completed\nattempt 1 204\nattempt 2 204\n"],
]);

for (const [index, [, server, code]] of blocks.entries()) {
  if (server) {
    test(`example ${index + 1} serves a session whose streams resume`, async (t) => {
      const port = await freePort();
      const child = await start(index, { PORT: String(port) });
      t.after(() => child.kill("SIGKILL"));
      let client;
      for (;;) {
        try {
          client = await new Client(`http://127.0.0.1:${port}/mcp`).initialize();
          break;
        } catch (error) {
          if (error.cause?.code !== "ECONNREFUSED") throw error;
          assert.equal(child.exitCode, null);
        }
      }
      const events = await (await client.request("tools/call", { name: "report", arguments: {} })).rest();
      assert.equal(events.at(-1).message.result.content[0].text, "ready");
      const again = await (await client.get(events[0].id)).rest();
      assert.deepEqual(again.at(-1), events.at(-1));
    });
  } else {
    test(`example ${index + 1} prints what it says`, async () => {
      const child = await start(index);
      const [out, err] = await Promise.all([child.stdout.toArray(), child.stderr.toArray(), once(child, "exit")]);
      assert.equal(child.exitCode, 0, Buffer.concat(err).toString());
      const key = [...EXPECTED.keys()].find((part) => code.includes(part));
      assert.equal(Buffer.concat(out).toString(), EXPECTED.get(key));
    });
  }
}
