// Makes the packages of a release for this platform: `tidings`, without a binary, and `@tidings/PLATFORM`, which has it and is
// an optional dependency of the first, as those for other platforms are.
//
//   node scripts/package.mjs               builds in the release profile and packs into packages/
//   node scripts/package.mjs --no-build    packs what was built before
//   node scripts/package.mjs --out DIR     packs into DIR
//   node scripts/package.mjs --stage DIR   packs nothing: the packages stand in DIR, as in a node_modules
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const HERE = fileURLToPath(new URL("..", import.meta.url));
const { PLATFORMS, platformTriple } = createRequire(import.meta.url)("./platform.cjs");

const { values } = parseArgs({ options: { "no-build": { type: "boolean" }, out: { type: "string" }, stage: { type: "string" } } });
const out = resolve(values.out ?? join(HERE, "packages"));
const triple = platformTriple();
const binary = `tidings.${triple}.node`;

function run(command, parameters, cwd) {
  const { status, error } = spawnSync(command, parameters, { cwd, stdio: ["ignore", "inherit", "inherit"] });
  if (error) console.error(`package: ${command} cannot be started (${error.code})`);
  if (status !== 0) process.exit(status ?? 1);
}

if (!(triple in PLATFORMS)) {
  console.error(`package: a release has no package for ${triple}; those it has are in scripts/platform.cjs`);
  process.exit(1);
}
if (!values["no-build"]) {
  run("npm", ["run", "--silent", "build:native", "--", "--release"], HERE);
  run("npm", ["run", "--silent", "build"], HERE);
}
for (const built of [join("native", binary), "dist/index.js"]) {
  if (existsSync(join(HERE, built))) continue;
  console.error(`package: ${built} is missing; leave --no-build out, or run npm run build:native and npm run build`);
  process.exit(1);
}

const { devDependencies, scripts, ...manifest } = JSON.parse(readFileSync(join(HERE, "package.json"), "utf8"));
const { version, license, repository, engines } = manifest;
const name = (platform) => `@tidings/${platform}`;

const stage = resolve(values.stage ?? mkdtempSync(join(tmpdir(), "tidings-package-")));
try {
  const main = join(stage, "tidings");
  const files = ["dist", "scripts/platform.cjs", "README.md", "LICENSE*"];
  const optionalDependencies = Object.fromEntries(Object.keys(PLATFORMS).map((platform) => [name(platform), version]));
  const own = join(stage, name(triple));
  for (const place of [main, own]) {
    mkdirSync(place, { recursive: true });
    for (const license of ["LICENSE", "LICENSE-APACHE"]) cpSync(join(HERE, "..", license), join(place, license));
  }
  for (const part of ["dist", "scripts/platform.cjs", "README.md"]) cpSync(join(HERE, part), join(main, part), { recursive: true });
  write(main, { ...manifest, files, optionalDependencies });

  cpSync(join(HERE, "native", binary), join(own, binary));
  const description = `The extension module of tidings for ${triple}`;
  const about = { name: name(triple), version, description, license, repository, engines };
  write(own, { ...about, ...PLATFORMS[triple], main: binary, files: [binary, "LICENSE*"] });
  writeFileSync(join(own, "README.md"), `# ${name(triple)}\n\n${description}. Install \`tidings\`.\n`);

  if (values.stage === undefined) {
    mkdirSync(out, { recursive: true });
    for (const place of [main, own]) run("npm", ["pack", "--silent", "--pack-destination", out], place);
  }
} finally {
  if (values.stage === undefined) rmSync(stage, { recursive: true, force: true });
}

function write(place, content) {
  writeFileSync(join(place, "package.json"), `${JSON.stringify(content, null, 2)}\n`);
}
