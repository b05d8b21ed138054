// The name of this platform in file and package names: linux-x64-gnu, darwin-arm64, win32-x64-msvc …
"use strict";

/** Those that a release has a package for, `@tidings/NAME`, and what npm is to install it on. */
const PLATFORMS = {
  "linux-x64-gnu": { os: ["linux"], cpu: ["x64"], libc: ["glibc"] },
  "linux-x64-musl": { os: ["linux"], cpu: ["x64"], libc: ["musl"] },
  "linux-arm64-gnu": { os: ["linux"], cpu: ["arm64"], libc: ["glibc"] },
  "linux-arm64-musl": { os: ["linux"], cpu: ["arm64"], libc: ["musl"] },
  "darwin-x64": { os: ["darwin"], cpu: ["x64"] },
  "darwin-arm64": { os: ["darwin"], cpu: ["arm64"] },
};

function platformTriple() {
  const { platform, arch } = process;
  if (platform === "linux") {
    // A C library of GNU's names its version in the report; musl has none.
    const gnu = process.report?.getReport()?.header?.glibcVersionRuntime;
    return `linux-${arch}-${gnu ? "gnu" : "musl"}`;
  }
  return platform === "win32" ? `win32-${arch}-msvc` : `${platform}-${arch}`;
}

/** What to say where there is no extension module. */
function missing(triple) {
  const known = Object.keys(PLATFORMS);
  return known.includes(triple)
    ? `tidings has no extension module for ${triple} here: the package @tidings/${triple} is not installed. Install tidings ` +
        "with its optional dependencies (npm install --include=optional), and anew on a machine of another kind than the one " +
        "whose node_modules these are, or build it in a checkout: npm run build:native"
    : `tidings has no extension module for ${triple}; there are packages for ${known.join(", ")}. In a checkout it can be ` +
        "built, with Rust and a C compiler: npm run build:native";
}

module.exports = { missing, PLATFORMS, platformTriple };
