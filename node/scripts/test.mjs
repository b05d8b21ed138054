// Runs test/**/*.test.mjs: node scripts/test.mjs [PART OF A FILE'S NAME …] [--OPTION OF node --test …]
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

// Node.js 20 takes no patterns, and in a folder of that name it would run the helpers as tests too.
const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const options = process.argv.slice(2).filter((argument) => argument.startsWith("--"));
const names = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
const files = readdirSync(join(root, "test"), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith(".test.mjs"))
  .map((entry) => relative(root, join(entry.parentPath ?? entry.path, entry.name)))
  .filter((file) => names.length === 0 || names.some((name) => file.includes(name)))
  .sort();

const { status } = spawnSync(process.execPath, ["--test", "--test-timeout=120000", ...options, ...files], {
  cwd: root,
  stdio: "inherit",
});
process.exit(status ?? 1);
