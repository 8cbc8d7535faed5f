"""A folder in which Snakemake runs FlashLab as in a project of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINKED = ("Snakefile", "workflow", "kernels", "profiles", "templates", "envs", "data")


@contextmanager
def project() -> Iterator[None]:
    """A folder with FlashLab in it."""
    with tempfile.TemporaryDirectory(prefix="flashlab-") as folder:
        for name in LINKED:
            Path(folder, name).symlink_to(ROOT / name)
        before = Path.cwd()
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
