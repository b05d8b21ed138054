"""Becomes the adapter of Kotlin: `python tests/adapters/kotlin`. `tools/kotlin --build` builds it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent.parent.parent / "target" / "uniffi"
CLASSES = TARGET / "kotlin" / "build" / "classes"


def main() -> None:
    if not CLASSES.is_dir():
        sys.exit("tests/adapters/kotlin: not built; run tools/kotlin --build")
    libraries = TARGET / "kotlin" / "libraries" / "*"
    # Most processes of a scenario live for a moment: no time is spent on compiling for the long run.
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Djna.library.path={TARGET / 'debug'}"]
    os.execvp("java", ["java", *options, "-classpath", f"{CLASSES}:{libraries}", "adapter.MainKt"])


if __name__ == "__main__":
    main()
