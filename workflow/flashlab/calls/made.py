"""Lines in a job's log with the digests of the files that it made, by which a change is noticed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path


def made_line(name: str, content: bytes) -> str:
    """The line about a file that a job made."""
    return f"made {name} {hashlib.sha256(content).hexdigest()}"


def print_made(output: Path, beside: Sequence[str]) -> None:
    """Print the line of each file in a folder, or of a single file and those `beside` it."""
    files = [output, *(output.with_name(name) for name in beside)]
    for file in sorted(output.iterdir()) if output.is_dir() else files:
        print(made_line(file.name, file.read_bytes()))
