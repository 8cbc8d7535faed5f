"""What a bench measures: shapes, and implementations of ``kernels/``, files and git revisions."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import (
    Implementation,
    ImplementationError,
    find_implementations,
    read_kernel_file,
)
from flashlab.checking.shapes import LETTERS, ShapeError, parse_shapes
from flashlab.compare.revisions import RevisionError, has_file, unpack_folder
from flashlab.usage import UsageError

DEFAULT_SHAPE = {"cuda": Shape(16, 1024, 32, 2048, True), "cpu": Shape(1, 512, 8, 512, True)}
"""The shape measured if none is given, by kind of device; a size left out is taken from it too."""

DTYPE = {"cuda": "float16", "cpu": "float32"}


def shapes_of(texts: Sequence[str], device: str) -> list[Shape]:
    """The shapes to measure, each once, in order; UsageError for one that is malformed."""
    usual = DEFAULT_SHAPE[device]
    sizes = {name: [getattr(usual, name)] for name in LETTERS}
    try:
        every = [shape for text in texts for shape in parse_shapes(text, **sizes)]
    except ShapeError as error:
        raise UsageError(str(error)) from error
    return [*dict.fromkeys(every or [usual])]


class SavedError(Exception):
    """A file that was saved while it was measured, so that its processes ran different code."""


def check_unchanged(label: str, implementation: Implementation) -> None:
    """Raise SavedError if its files are no longer those that were read at the beginning."""
    with suppress(ImplementationError, OSError):
        if read_kernel_file(implementation.path).digest == implementation.digest:
            return
    raise SavedError(f"{label} was saved while it was measured; measure it again")


def _find_implementation(text: str, folder: Path) -> Implementation:
    """The implementation that an argument names.

    Of a revision the whole folder goes into `folder`, so that the kernel imports what lay beside it
    then.
    """
    is_path = text.endswith(".py") or os.sep in text
    if is_path and os.path.isfile(text):
        return read_kernel_file(Path(text).absolute())
    revision, colon, path = text.partition(":")
    if colon and revision and path.endswith(".py"):
        beside, name = os.path.split(os.path.relpath(path))
        if not has_file(revision, os.path.join(beside, name)):
            raise ImplementationError(f"there is no file {path} at {revision}")
        unpack_folder(revision, beside, folder)
        return read_kernel_file(folder / name)
    if is_path:
        raise ImplementationError(f"there is no file {text}")
    return find_implementations()[text]


@contextmanager
def opened_targets(texts: Sequence[str]) -> Iterator[dict[str, Implementation]]:
    """The implementations that the arguments name, the first of which the others are compared with.

    Each is a NAME of ``kernels/``, the path of a file, or REVISION:PATH, with the path relative to
    the working directory. Files of revisions are there for the block alone. The same text twice is
    the same code twice; the labels tell them apart. UsageError where there is no such name, file or
    revision, or the file is no kernel.
    """
    found: dict[str, Implementation] = {}
    with tempfile.TemporaryDirectory(prefix="flashlab-bench-") as folder:
        for position, text in enumerate(texts):
            earlier = texts[:position].count(text)
            try:
                implementation = _find_implementation(text, Path(folder, str(position)))
            except (ImplementationError, RevisionError) as error:
                raise UsageError(str(error)) from error
            found[f"{text} ({earlier + 1})" if earlier else text] = implementation
        yield found
