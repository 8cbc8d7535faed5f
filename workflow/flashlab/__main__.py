"""The command line, ``python -m flashlab``."""

from __future__ import annotations

import sys

try:
    from flashlab.cli import main
except KeyboardInterrupt:
    sys.exit(130)

if __name__ == "__main__":
    sys.exit(main())
