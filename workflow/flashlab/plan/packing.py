"""A recorded dataset as one file, to take it from the host that recorded it."""

from __future__ import annotations

import tarfile
from pathlib import Path

from flashlab.plan.datasets import DatasetError

MOST_BYTES = 16 * 2**20
"""The largest archive: ways to send files from a host often take no more."""


def packed_file(data: Path, name: str) -> Path:
    return data / f"{name}.tar.xz"


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def pack(data: Path, name: str) -> Path:
    """Write ``NAME.tar.xz`` beside a dataset's folder; unpacked in a project, it is its dataset.

    Raises:
        DatasetError: it would be larger than `MOST_BYTES`; nothing is written.
    """
    target, part = packed_file(data, name), data / f".{name}.tar.xz.part"
    with tarfile.open(part, "w:xz") as packed:
        packed.add(data / name, f"data/{name}", filter=_without_owner)
    size = part.stat().st_size
    if size > MOST_BYTES:
        part.unlink()
        raise DatasetError(
            f"{data / name} is not packed: it would take {size / 2**20:.1f} MiB, and "
            f"{MOST_BYTES / 2**20:.0f} MiB are the most; record its parts under names of their own"
        )
    part.rename(target)
    return target
