"""A command of ``python -m flashlab`` in a fork of the call's server, where there is one.

The rules so call what they need, by ``python -S``: little is imported before a fork takes over.
"""

from __future__ import annotations

import os
import sys

from flashlab.calls.stages import run_in_fork


def main() -> int:
    """Run the command that is given, in a fork of the call's server or here; its exit status."""
    try:
        status = run_in_fork(sys.argv[1:])
        if status is not None:
            return status
        if sys.flags.no_site:  # without a fork it needs the installed packages
            os.execv(sys.executable, [sys.executable, "-m", "flashlab.stage", *sys.argv[1:]])
        from flashlab.cli import main as run
    except KeyboardInterrupt:
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
