"""Print the folders in which this Python has its packages, if FlashLab can build on its PyTorch.

Otherwise exits with the reason. Runs on any Python 3, and does not import PyTorch, which takes
seconds.
"""

import importlib.util
import os
import re
import runpy
import sys


def reason_against():
    """Why FlashLab cannot build on this Python's PyTorch; None if it can."""
    spec = importlib.util.find_spec("torch")
    if spec is None:
        return "it has no PyTorch"
    if sys.version_info < (3, 11):  # noqa: UP036 - whichever Python is the system's
        return (
            f"Python 3.11 or newer is needed, this is {sys.version_info[0]}.{sys.version_info[1]}"
        )
    version = runpy.run_path(os.path.join(os.path.dirname(spec.origin), "version.py"))
    number = version["__version__"]
    if [int(part) for part in re.findall("[0-9]+", number)[:2]] < [2, 9]:
        return f"PyTorch 2.9 or newer is needed, this is {number}"
    if not version.get("cuda"):
        return f"its PyTorch, {number}, is built without CUDA"
    return None


if __name__ == "__main__":
    reason = reason_against()
    if reason:
        sys.exit(reason)
    print(*(path for path in sys.path if path.endswith("-packages")), sep="\n")
