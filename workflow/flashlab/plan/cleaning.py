"""Deletes results from the working directory, or lists them with the disk space that they take.

Files that Snakemake makes again from the records are cheap. The records measured here, with their
logs, are not, and are deleted only on request. A person's own files (data/, config/, kernels/,
remarks) are never touched.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from flashlab.benchmarks.registry import BENCHMARKS
from flashlab.plan.call import HOLDER, hold_folder
from flashlab.plan.plan_files import results_of

MEASURED = [
    results_of("local", benchmark) / part
    for benchmark in BENCHMARKS.values()
    for part in ("records", "replaced", "logs/measure")
]
MADE = ("results/*", *(f"report/*.{kind}" for kind in ("pdf", "html", "json", "csv")), ".snakemake")


class CleaningError(Exception):
    """The folder is not the pipeline's."""


def _files(path: Path) -> list[Path]:
    """The files and links below a path, or itself; what links lead to is not looked at."""
    if path.is_symlink() or not path.is_dir():
        return [path]
    inside = [Path(top, name) for top, *names in os.walk(path) for part in names for name in part]
    return [each for each in inside if each.is_symlink() or not each.is_dir()]


def _listing(parts: Mapping[str, Sequence[Path]]) -> list[str]:
    """A line for each part, with the disk space that its files take; what is gone takes none."""
    there = {name: filter(os.path.lexists, paths) for name, paths in parts.items()}
    sizes = {name: sum(path.lstat().st_size for path in paths) for name, paths in there.items()}
    return [f"{size / 1024**2:9.1f} MiB  {name}" for name, size in sizes.items()]


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
    measured = {path.as_posix(): _files(path) for path in MEASURED if path.exists()}
    kept = {HOLDER, *(p.parent for p in MEASURED), *(p for ps in measured.values() for p in ps)}
    made = (path for pattern in MADE for path in sorted(Path().glob(pattern)))
    found = {path.as_posix(): [each for each in _files(path) if each not in kept] for path in made}
    cheap = {name: paths for name, paths in found.items() if paths}
    gone = {**cheap, **(measured if records else {})}
    files = [path for paths in gone.values() for path in paths]
    lines = ["There is nothing to delete."]
    if gone:
        lines = ["Deleted:" if yes else "Can be deleted:", *_listing({**gone, "in all": files})]
    if measured and not records:
        lines += ["Kept, because measuring again takes time:", *_listing(measured)]
    if not yes and (cheap or measured):
        again = "\n./run clean --yes            deletes what ./run report makes again"
        lines += [again * bool(cheap and not records)]
        lines += ["./run clean --yes --records  deletes the measured records, too"]
    if held is not None:
        for path in files:
            path.unlink(missing_ok=True)
        for top in ("results", ".snakemake"):
            for folder, *_ in os.walk(top, topdown=False):
                with suppress(OSError):  # what is left in it
                    os.rmdir(folder)
        os.close(held)
    print("\n".join(lines))
