"""Deletes results from a folder, or lists them with the disk space that they take.

Files that Snakemake makes again from the records are cheap. The records measured here, with their
logs, are not, and are deleted only on request. A person's own files (data/, config/, kernels/,
remarks) are never touched.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Iterable, Mapping
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

Parts = Mapping[str, list[Path]]
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


def _without(folder: Path, kept: set[Path]) -> list[Path]:
    """The paths to delete from a folder so that `kept` stays; the folder itself if nothing is."""
    if folder in kept:
        return []
    if folder.is_symlink() or not any(folder in path.parents for path in kept):
        return [folder]
    return [path for inside in folder.iterdir() for path in _without(inside, kept)]


def _cheap(root: Path) -> Parts:
    """The files that Snakemake makes again from the records, and its bookkeeping."""
    kept = {root / path for path in MEASURED}
    parts = {
        f"results/{path.name}": _without(path, kept) for path in sorted(root.glob("results/*"))
    }
    for pattern in REPORTS:
        parts |= {f"report/{file.name}": [file] for file in sorted(root.glob(f"report/{pattern}"))}
    parts[SNAKEMAKE] = [path for path in root.glob(f"{SNAKEMAKE}/*") if path.name not in CLAIM]
    return {name: paths for name, paths in parts.items() if paths}


def _listing(parts: Parts) -> list[str]:
    sizes = {name: sum(map(_size, paths)) for name, paths in parts.items()}
    return [f"{size / 1024**2:9.1f} MiB  {name}" for name, size in sizes.items()]


def _delete(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def print_clean(yes: bool, records: bool) -> None:
    """Clean the current folder (`clean`), and print its lines."""
    print("\n".join(clean(Path(), yes, records)))


def clean(root: Path, yes: bool, records: bool) -> list[str]:
    """The lines that list the deletable files of a folder, `records` too; deletes them if `yes`.

    Raises:
        CleaningError: the folder has no Snakefile.
        BusyError: a call is working in it.
        OSError: something cannot be deleted; the rest is left.
    """
    if not (root / "Snakefile").is_file():
        raise CleaningError(f"{root.resolve()} has no Snakefile, so it is not cleaned")
    with contextlib.ExitStack() as claimed:
        if yes:
            claim = FolderClaim(root / SNAKEMAKE)
            claimed.callback(claim.release)
            claim.take()
        cheap = _cheap(root)
        measured = {path.as_posix(): [root / path] for path in MEASURED if (root / path).exists()}
        gone = {**cheap, **(measured if records else {})}
        lines, paths = ["There is nothing to delete."], [*itertools.chain(*gone.values())]
        if gone:
            head = "Deleted:" if yes else "Can be deleted:"
            lines = [head, *_listing(gone), *_listing({"in all": paths})]
        if yes:
            _delete(paths)
            for folder, _, _ in os.walk(root / "results", topdown=False):
                with contextlib.suppress(OSError):  # what is left in it
                    os.rmdir(folder)
    if measured and not records:
        lines += ["Kept, because measuring again takes time:", *_listing(measured)]
    if not yes and (cheap or measured):
        lines += [""]
        if cheap and not records:
            lines += ["./run clean --yes            deletes what ./run report makes again"]
        lines += ["./run clean --yes --records  deletes the measured records, too"]
    return lines
