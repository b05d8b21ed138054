// The packages of a release for this platform, and a clear word where there is none.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdir, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { folder } from "./harness.mjs";

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("..", import.meta.url));
const { PLATFORMS, platformTriple } = createRequire(import.meta.url)("../scripts/platform.cjs");

test("tidings finds the package of its platform, and elsewhere an error says what to do", async (t) => {
  const app = await folder(t);
  const modules = join(app, "node_modules");
  // As npm would install them, and without its packing and unpacking of a debug build.
  await run(process.execPath, [join(ROOT, "scripts", "package.mjs"), "--no-build", "--stage", modules]);
  const triple = platformTriple();
  const code = 'const { Hub } = require("tidings"); new Hub("memory:").stream("s", "n").append("1").then(console.log);';
  assert.equal((await run(process.execPath, ["-e", code], { cwd: app })).stdout, "0\n");

  const manifest = async (...name) => JSON.parse(await readFile(join(modules, ...name, "package.json"), "utf8"));
  const [main, own] = [await manifest("tidings"), await manifest("@tidings", triple)];
  const names = Object.keys(PLATFORMS).map((platform) => `@tidings/${platform}`);
  assert.deepEqual(main.optionalDependencies, Object.fromEntries(names.map((name) => [name, main.version])));
  assert.deepEqual([own.version, own.os, own.cpu], [main.version, [process.platform], [process.arch]]);
  assert.equal(main.devDependencies ?? main.scripts, undefined);
  assert.ok(!(await readdir(join(modules, "tidings"))).includes("native"));
  for (const name of ["tidings", `@tidings/${triple}`]) assert.ok((await readdir(join(modules, name))).includes("LICENSE"));

  await rm(join(modules, "@tidings"), { recursive: true });
  const load = (before) => run(process.execPath, ["-e", `${before}; require("tidings")`], { cwd: app });
  await assert.rejects(load(""), ({ stderr }) => stderr.includes(`the package @tidings/${triple} is not installed`));
  const elsewhere = load('Object.defineProperty(process, "platform", { value: "aix" })');
  await assert.rejects(elsewhere, ({ stderr }) => /no extension module for aix-\w+; there are packages for linux-x64-gnu, /.test(stderr));
});
