"""What a bench measures: implementations of ``kernels/``, files, and files at a git revision."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flashlab.archives import unpack
from flashlab.plan.implementations import (
    Implementation,
    ImplementationError,
    find_implementations,
    read_kernel_file,
)


class SavedError(Exception):
    """A file that was saved while it was measured, so that its processes ran different code."""


@dataclass(frozen=True)
class Target:
    """One implementation to measure, and `label`, what the command line calls it."""

    label: str
    implementation: Implementation

    def read_digest(self) -> str:
        """The digest of its files as they are now. Raises ImplementationError or OSError."""
        return read_kernel_file(self.implementation.path).digest

    def check_unchanged(self) -> None:
        """Raise SavedError if its files are no longer those that were read at the beginning."""
        try:
            is_same = self.read_digest() == self.implementation.digest
        except (ImplementationError, OSError):
            is_same = False
        if not is_same:
            raise SavedError(
                f"{self.label} was saved while it was measured, so nothing was recorded"
            )


def _git(*arguments: str) -> bytes:
    """What a git command prints; ImplementationError with its message where it fails."""
    try:
        return subprocess.run(["git", *arguments], capture_output=True, check=True).stdout
    except FileNotFoundError as error:
        raise ImplementationError("git is not installed, and a revision was asked for") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        reason = said[-1].removeprefix("fatal: ") if said else "failed"
        raise ImplementationError(f"git: {reason}") from error


def _check_out(revision: str, path: str, folder: Path) -> Path:
    """Write the folder of a file as it is at a revision into `folder`; the file there.

    The whole folder, so that the kernel imports what lay beside it at that revision.
    """
    beside, name = os.path.split(os.path.relpath(path))
    if not _git("ls-tree", revision, "--", os.path.join(".", beside, name)):
        raise ImplementationError(f"there is no file {path} at {revision}")
    archive = _git("archive", "--format=tar", f"{revision}:./{beside}")
    unpack(archive, folder)
    return folder / name


def find_target(text: str, folder: Path) -> Target:
    """The implementation that an argument of the command line names.

    Args:
        text: a NAME of ``kernels/``, the path of a file, or REVISION:PATH, with the path relative
            to the working directory.
        folder: an empty folder for what is read from a revision.

    Raises:
        ImplementationError: there is no such name, file or revision, or the file is no kernel.
    """
    is_path = text.endswith(".py") or os.sep in text
    if is_path and os.path.isfile(text):
        return Target(text, read_kernel_file(Path(text).absolute()))
    revision, colon, path = text.partition(":")
    if colon and revision and path.endswith(".py"):
        return Target(text, read_kernel_file(_check_out(revision, path, folder)))
    if is_path:
        raise ImplementationError(f"there is no file {text}")
    return Target(text, find_implementations()[text])


def find_targets(texts: Sequence[str], folder: Path) -> list[Target]:
    """The implementations that the arguments name, the first of which the others are compared with.

    Files of revisions are written below `folder`. The same text twice is the same code twice; the
    labels tell them apart.

    Raises:
        ImplementationError: see `find_target`.
    """
    found = []
    for place, text in enumerate(texts):
        beside = folder / str(place)
        beside.mkdir()
        target = find_target(text, beside)
        earlier = texts[:place].count(text)
        label = f"{target.label} ({earlier + 1})" if earlier else target.label
        found.append(Target(label, target.implementation))
    return found
