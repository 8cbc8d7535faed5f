"""Lines in a job's log with the digests of the files that it made, by which a change is noticed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path


def made_line(name: str, content: bytes) -> str:
    """The line about a file that a job made."""
    return f"made {name} {hashlib.sha256(content).hexdigest()}"


def print_made(output: Path, beside: Sequence[str]) -> None:
    """Print the line of a file, or of each file in a folder, and of those `beside` it."""
    inside = sorted(output.rglob("*.*")) if output.is_dir() else [output]
    folder = output if output.is_dir() else output.parent
    for file in (*inside, *(output.with_name(name) for name in beside)):
        name = file.relative_to(folder) if file in inside else Path(file.name)
        print(made_line(name.as_posix(), file.read_bytes()))
