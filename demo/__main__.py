"""`make demo`."""

import sys

import tidings

print(f"tidings {tidings.__version__} is built and imports.")
sys.exit("The demo itself is not written yet.")
