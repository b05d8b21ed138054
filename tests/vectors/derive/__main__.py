"""Derives the rule files that name a script of this folder in `derived_by`.

  python tests/vectors/derive            writes them
  python tests/vectors/derive --check    only says whether they are what the scripts make; exit code 1 if not

The scripts use the Python library and, where it is installed, PyPI's standardwebhooks: never the package under test.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    stale = []
    for script in sorted(HERE.glob("[a-z]*.py")):
        for file in importlib.import_module(script.stem).files():
            text = file.text()
            if check and (not file.path.is_file() or file.path.read_text() != text):
                stale.append(file.path.name)
            elif not check:
                file.path.write_text(text)
    for name in stale:
        print(f"{name} is not what its script makes; run python tests/vectors/derive", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
