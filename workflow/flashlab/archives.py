"""Unpacking what git archives of a revision."""

from __future__ import annotations

import tarfile
from io import BytesIO
from pathlib import Path


def unpack(archive: bytes, folder: str | Path) -> None:
    """Write a tar archive's files into a folder.

    By Python's rules for data, which 3.11 has from 3.11.4 on; the archive is of the user's own
    repository either way.
    """
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(folder)
