"""Runs the vectors and scenarios on every surface.

  python tests/conformance                       all surfaces of surfaces.json, but for those with `by_hand`
  python tests/conformance rust                  these
  python tests/conformance rust --only cursor    only what has this in its name
  python tests/conformance --write-floor         sets the floor to what there is now (it may not sink otherwise)

A vector or scenario that a surface does not offer (its adapter does not name the feature) is not run on it. Everything
else has to pass, unless exclusions.json argues why not. The last line counts.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conformance.run import main

if __name__ == "__main__":
    sys.exit(main(__doc__ or ""))
