// Builds the extension module for this platform into native/: node scripts/build-native.mjs [--release]
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, renameSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { createRequire } from "node:module";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "..", "..");
const { platformTriple } = createRequire(import.meta.url)("./platform.cjs");

const release = process.argv.includes("--release");
const library = { darwin: "libtidings_node.dylib", win32: "tidings_node.dll" }[process.platform] ?? "libtidings_node.so";
const target = process.env.CARGO_TARGET_DIR ?? join(root, "target");

const built = spawnSync(
  "cargo",
  ["build", "--quiet", "--locked", "--package", "tidings-node", ...(release ? ["--release"] : [])],
  { cwd: root, stdio: "inherit" },
);
if (built.error) {
  console.error(`build-native: cargo cannot be started (${built.error.code}); install Rust from https://rustup.rs`);
}
if (built.status !== 0) process.exit(built.status ?? 1);

const file = join(here, "..", "native", `tidings.${platformTriple()}.node`);
mkdirSync(dirname(file), { recursive: true });
// A process that has the old file loaded keeps it: the new one takes its name, and never its bytes.
copyFileSync(join(target, release ? "release" : "debug", library), `${file}.new`);
renameSync(`${file}.new`, file);
