"""Templates as Jinja compiles them, kept from call to call: they take a second to compile."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import jinja2

CACHE = "__pycache__"


def bytecode_cache(folder: Path) -> jinja2.BytecodeCache | None:
    """The cache of a folder's compiled templates; None where nothing can be kept.

    A template counts by its text. Nothing is kept where Python keeps no bytecode either.
    """
    kept = folder / CACHE
    if sys.dont_write_bytecode or not os.access(folder, os.W_OK):
        return None
    kept.mkdir(exist_ok=True)
    return jinja2.FileSystemBytecodeCache(str(kept))
