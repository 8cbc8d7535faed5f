"""The command line, ``python -m flashlab``."""

from __future__ import annotations

import os
import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the working directory, whose json.py is none of Python's
os.environ["PYTHONSAFEPATH"] = "yes"

try:
    from flashlab.cli import main
except KeyboardInterrupt:
    sys.exit(130)

if __name__ == "__main__":
    sys.exit(main())
