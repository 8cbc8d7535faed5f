"""Deletes results from the working directory, or lists them with the disk space that they take.

Files that Snakemake makes again from the records are cheap. The records measured here, with their
logs, are not, and are deleted only on request. A person's own files (data/, config/, kernels/,
remarks) are never touched.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from flashlab.benchmarks.registry import BENCHMARKS
from flashlab.plan.call import HOLDER, hold_folder
from flashlab.plan.plan_files import results_of

MEASURED = tuple(
    results_of("local", benchmark) / part
    for benchmark in BENCHMARKS.values()
    for part in ("records", "replaced", "logs/measure")
)
MADE = ("results/*", "report/*.pdf", "report/*.html", "report/*.json", "report/*.csv")
SNAKEMAKE = ".snakemake"

Parts = Mapping[str, Sequence[Path]]
"""The paths that can be deleted, by the names under which they are listed."""


class CleaningError(Exception):
    """The folder is not the pipeline's."""


def _size(path: Path) -> int:
    """Bytes of a file or a folder, links not followed; 0 for what no longer exists."""
    try:
        if path.is_dir() and not path.is_symlink():
            return sum(map(_size, path.iterdir()))
        return path.lstat().st_size
    except OSError:
        return 0


def _without(path: Path, kept: Sequence[Path]) -> list[Path]:
    """What to delete of a path so that `kept` stays; itself if nothing of it is kept."""
    if path in kept:
        return []
    if path.is_symlink() or not any(path in each.parents for each in kept):
        return [path]
    return [gone for inside in path.iterdir() for gone in _without(inside, kept)]


def _listing(parts: Parts) -> list[str]:
    sizes = {name: sum(map(_size, paths)) for name, paths in parts.items()}
    return [f"{size / 1024**2:9.1f} MiB  {name}" for name, size in sizes.items()]


def _delete(parts: Parts) -> None:
    for path in (path for paths in parts.values() for path in paths):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for folder, _, _ in os.walk("results", topdown=False):
        with suppress(OSError):  # what is left in it
            os.rmdir(folder)


def clean(yes: bool, records: bool) -> None:
    """List what can be deleted, `records` too, and delete it if `yes`.

    Raises:
        CleaningError: the folder has no Snakefile.
        CallError: a call is working in it.
        OSError: something cannot be deleted; the rest is left.
    """
    if not Path("Snakefile").is_file():
        raise CleaningError(f"{Path.cwd()} has no Snakefile, so it is not cleaned")
    held = hold_folder() if yes else None
    found = (path for pattern in MADE for path in sorted(Path().glob(pattern)))
    cheap = {path.as_posix(): _without(path, MEASURED) for path in found}
    cheap[SNAKEMAKE] = [path for path in Path(SNAKEMAKE).glob("*") if path != HOLDER]
    cheap = {name: paths for name, paths in cheap.items() if paths}
    measured = {path.as_posix(): [path] for path in MEASURED if path.exists()}
    gone = {**cheap, **(measured if records else {})}
    lines = ["There is nothing to delete."]
    if gone:
        total = {"in all": [path for paths in gone.values() for path in paths]}
        lines = ["Deleted:" if yes else "Can be deleted:", *_listing({**gone, **total})]
    if measured and not records:
        lines += ["Kept, because measuring again takes time:", *_listing(measured)]
    if not yes and (cheap or measured):
        lines += [""]
        if cheap and not records:
            lines += ["./run clean --yes            deletes what ./run report makes again"]
        lines += ["./run clean --yes --records  deletes the measured records, too"]
    if held is not None:
        _delete(gone)
        os.close(held)
    print("\n".join(lines))
