// Writes the ES modules that re-export the CommonJS ones, so that there is one copy of each class whoever imports it.
// Node finds the names by reading what `exports` gets.
import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const dist = join(dirname(fileURLToPath(import.meta.url)), "..", "dist");

for (const entry of ["index", "mcp/index", "webhook/index", "client/index"]) {
  for (const kind of ["mjs", "d.mts"]) writeFileSync(join(dist, `${entry}.${kind}`), 'export * from "./index.js";\n');
}
