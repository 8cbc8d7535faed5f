"""Templates as Jinja compiles them, kept from call to call: they take a second to compile."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import jinja2

CACHE = "__pycache__"


class _ByName(jinja2.FileSystemBytecodeCache):
    """Keeps templates by their names in their folder, so that a copy of the folder has them too."""

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        return super().get_cache_key(name)


def bytecode_cache(folder: Path) -> jinja2.BytecodeCache | None:
    """The cache of a folder's compiled templates; None where nothing can be kept.

    A template counts by its text. Nothing is kept where Python keeps no bytecode either.
    """
    kept = folder / CACHE
    if sys.dont_write_bytecode or not os.access(folder, os.W_OK):
        return None
    kept.mkdir(exist_ok=True)
    return _ByName(str(kept))
