// The name of this platform in file and package names: linux-x64-gnu, darwin-arm64, win32-x64-msvc …
"use strict";

function platformTriple() {
  const { platform, arch } = process;
  if (platform === "linux") {
    // A C library of GNU's names its version in the report; musl has none.
    const gnu = process.report?.getReport()?.header?.glibcVersionRuntime;
    return `linux-${arch}-${gnu ? "gnu" : "musl"}`;
  }
  return platform === "win32" ? `win32-${arch}-msvc` : `${platform}-${arch}`;
}

module.exports = { platformTriple };
