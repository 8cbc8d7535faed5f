"""The digests of the files that jobs have made: a list in each folder, as ``sha256sum`` writes it.

A file that is not as its list says was deleted, changed, cut off or damaged since. The list is
copied with the files that it is about.
"""

from __future__ import annotations

import fcntl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from flashlab.files import sha256_of

LIST = "made.sha256"

CHANGED = "was changed after it had been made"
MISSING = "is missing"


def write_digests(output: Path, beside: Sequence[str] = ()) -> None:
    """Write the digests of a file or folder, and of others `beside` it, to the list in its folder.

    They replace all that the list says of this output. Jobs that end at once take turns; where the
    filesystem has no locks one digest may be lost, and the file counts as one of unknown origin.
    """
    outputs = [output, *(output.with_name(name) for name in beside)]
    files = [file for each in outputs for file in (each, *sorted(each.rglob("*")))]
    made = [file for file in files if file.is_file() and not file.name.startswith(".")]
    names = {file.relative_to(output.parent).as_posix(): sha256_of(file) for file in made}
    with (output.parent / LIST).open("a+", encoding="utf-8", errors="replace") as file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        before = text.splitlines()
        others = [(line, line.partition("  ")[2]) for line in before]
        folders = tuple(f"{each.name}/" for each in outputs)
        kept = [line for line, name in others if name not in names and not name.startswith(folders)]
        if kept != before or not text.endswith("\n"):  # a full disk cuts the last line off
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


def damage(path: Path, digests: Mapping[Path, str]) -> str | None:
    """The reason to make a file again; None where it is as its list says, or not listed."""
    try:
        return CHANGED if digests.get(path, digest := sha256_of(path)) != digest else None
    except OSError:
        return MISSING


class ChangedError(Exception):
    """A file that is no longer as it was made, and that nothing may be made from."""


def refuse_changed(results: Path, with_made: bool) -> None:
    """ChangedError naming a planned record of a dataset that has changed since it was measured.

    Of a call that goes on, a job would otherwise read what the call did not plan. `with_made` also
    compares what was made of the records.
    """
    from flashlab.plan.plan_files import record_paths  # which most commands do not need

    made, known = read_digests(results) if with_made else {}, read_digests(results / "records")
    try:
        checked = record_paths(results)
    except FileNotFoundError:
        return  # no plan, as the command says
    known |= made
    for path in [*checked, *made]:
        if reason := damage(path, known):
            raise ChangedError(f"{path} {reason}; call again, and it is made anew")
