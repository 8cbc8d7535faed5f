"""The digests of the files that jobs have made: a list in each folder, as ``sha256sum`` writes it.

A file that its list does not describe was changed, cut off or damaged since, in whatever way. The
list is copied with the files that it is about.
"""

from __future__ import annotations

import fcntl
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from flashlab.files import sha256_of

LIST = "made.sha256"


def files_made(output: Path) -> list[Path]:
    """The file that is an output, or the files of a folder that is one."""
    if not output.is_dir():
        return [output]
    return sorted(p for p in output.rglob("*") if p.is_file() and not p.name.startswith("."))


def write_digests(output: Path, beside: Sequence[str] = ()) -> None:
    """Write the digests of an output, and of files `beside` it, to the list in its folder.

    They replace all that the list says of this output. Jobs that end at once take turns; where the
    filesystem has no locks one digest may be lost, and the file counts as one of unknown origin.
    """
    made = [*files_made(output), *(output.with_name(name) for name in beside)]
    names = {file.relative_to(output.parent).as_posix(): sha256_of(file) for file in made}
    with (output.parent / LIST).open("a+", encoding="utf-8", errors="replace") as file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        before = file.read().splitlines()
        folder = f"{output.name}/"
        kept = [
            line
            for line in before
            if (name := line.partition("  ")[2]) not in names and not name.startswith(folder)
        ]
        if kept != before:
            file.truncate(0)
            file.writelines(f"{line}\n" for line in kept)
        file.writelines(f"{digest}  {name}\n" for name, digest in names.items())


def read_digests(folder: Path) -> dict[Path, str]:
    """The digest of each file that the list in a folder is about, by the file's path."""
    try:
        lines = (folder / LIST).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return {}
    pairs = (line.partition("  ") for line in lines)
    return {folder / name: digest for digest, _, name in pairs if name}
