"""What can be deleted from a folder, and how much disk space it takes.

What Snakemake can make again from the records is cheap. The records measured here, with their logs,
are not, and are deleted only on request. What a person wrote (data/, config/, kernels/, remarks) is
never touched.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from flashlab.benchmarks.registry import BENCHMARKS
from flashlab.calls.exclusive import FolderClaim
from flashlab.plan.plan_files import results_of

MEASURED = tuple(
    results_of("local", benchmark) / part
    for benchmark in BENCHMARKS.values()
    for part in ("records", "logs/measure")
)
REPORTS = ("*.pdf", "*.html", "*.json", "*.csv")
SNAKEMAKE = ".snakemake"
CLAIM = {"flashlab.lock", "flashlab.host"}


class CleaningError(Exception):
    """The folder is not the pipeline's, or a call is working in it."""


@dataclass(frozen=True)
class Part:
    """Files under one name, and the bytes that they take; `paths` are what is deleted."""

    name: str
    paths: tuple[Path, ...]
    size: int


def _size(path: Path) -> int:
    """Bytes of a file or a folder, links not followed; 0 for what no longer exists."""
    try:
        if path.is_dir() and not path.is_symlink():
            return sum(_size(inside) for inside in path.iterdir())
        return path.lstat().st_size
    except OSError:
        return 0


def _part(name: str, paths: Iterable[Path]) -> list[Part]:
    found = tuple(sorted(paths))
    return [Part(name, found, sum(map(_size, found)))] if found else []


def _without(folder: Path, kept: set[Path]) -> list[Path]:
    """What to delete from a folder so that `kept` stays: all of it if nothing is kept."""
    if folder in kept:
        return []
    if folder.is_symlink() or not any(folder in path.parents for path in kept):
        return [folder]
    return [path for inside in folder.iterdir() for path in _without(inside, kept)]


def cheap_parts(root: Path) -> list[Part]:
    """What a call of Snakemake makes again from the records, and its bookkeeping."""
    kept = {root / path for path in MEASURED if (root / path).exists()}
    parts = []
    results = root / "results"
    for folder in sorted(results.iterdir()) if results.is_dir() else ():
        parts += _part(folder.relative_to(root).as_posix(), _without(folder, kept))
    for pattern in REPORTS:
        for file in sorted(root.glob(f"report/{pattern}")):
            parts += _part(file.relative_to(root).as_posix(), [file])
    bookkeeping = root / SNAKEMAKE
    if bookkeeping.is_dir():
        inside = (path for path in bookkeeping.iterdir() if path.name not in CLAIM)
        parts += _part(SNAKEMAKE, inside)
    return parts


def measured_parts(root: Path) -> list[Part]:
    """The records that were measured here, and the logs of measuring them."""
    return [
        part
        for path in MEASURED
        if (root / path).exists()
        for part in _part(path.as_posix(), [root / path])
    ]


def _mebibytes(size: int) -> str:
    return f"{size / 1024**2:9.1f} MiB"


def _listing(parts: Iterable[Part]) -> list[str]:
    return [f"{_mebibytes(part.size)}  {part.name}" for part in parts]


def _delete(parts: Iterable[Part]) -> None:
    for part in parts:
        for path in part.paths:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def _remove_empty(folder: Path) -> None:
    for inside in list(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else ():
        if inside.is_dir() and not inside.is_symlink():
            _remove_empty(inside)
            if not any(inside.iterdir()):
                inside.rmdir()


def clean(root: Path, yes: bool, records: bool) -> list[str]:
    """List what can be deleted from a folder, the measured `records` too, and delete it if `yes`.

    Raises:
        CleaningError: the folder has no Snakefile, or a call is working in it.
        OSError: something cannot be deleted; the rest is left.
    """
    if not (root / "Snakefile").is_file():
        raise CleaningError(f"{root.resolve()} has no Snakefile, so it is not cleaned")
    with ExitStack() as claimed:
        if yes:
            claim = FolderClaim(root / SNAKEMAKE)
            claim.take()
            claimed.callback(claim.release)
            if not claim.held:
                raise CleaningError("nothing was deleted, because that call needs its files")
        cheap, measured = cheap_parts(root), measured_parts(root)
        gone = [*cheap, *(measured if records else ())]
        if not gone:
            lines = ["There is nothing to delete."]
        else:
            total = f"{_mebibytes(sum(part.size for part in gone))}  in all"
            lines = ["Deleted:" if yes else "Can be deleted:", *_listing(gone), total]
        if yes:
            _delete(gone)
            _remove_empty(root / "results")
    if measured and not records:
        lines += ["Kept, because measuring again takes time:", *_listing(measured)]
    if not yes and (cheap or measured):
        lines += [""]
        if cheap and not records:
            lines += ["./run clean --yes            deletes what ./run report makes again"]
        lines += ["./run clean --yes --records  deletes the measured records, too"]
    return lines
