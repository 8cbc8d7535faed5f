"""Revisions by git: their commits, and the files in them."""

from __future__ import annotations

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path


class RevisionError(Exception):
    """A git command that failed, in git's own words."""


def _git(*arguments: str) -> bytes:
    """The standard output of a git command; RevisionError where it fails."""
    try:
        return subprocess.run(["git", *arguments], capture_output=True, check=True).stdout
    except FileNotFoundError as error:
        raise RevisionError("git is not installed, and a revision was asked for") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        reason = said[-1].removeprefix("fatal: ") if said else "failed"
        raise RevisionError(f"git: {reason}") from error


def has_file(revision: str, path: str) -> bool:
    """True if a revision has a file, relative to this folder; RevisionError as of `_git`."""
    return bool(_git("ls-tree", "--end-of-options", revision, "--", f"./{path}"))


def unpack_folder(revision: str, path: str, into: Path) -> None:
    """Write a folder's files, relative to this one, at a revision; RevisionError as of `_git`."""
    archive = _git("archive", "--format=tar", "--end-of-options", f"{revision}:./{path}")
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        # Python's rules for data, which 3.11 has from 3.11.4 on; the repository is the user's own.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(into)
