"""A file's declaration of its run: by a row of ``runs.csv``, by its record, or by its name.

A row of ``runs.csv`` takes precedence over a record, and a record over a name. Names are read with
caution, and the numbers overrule them (`identity`): single letters (b16, n512 or s512, h32, e2048)
count only if three of the four occur together, and a number by itself only if the path names just
one parameter without one, as in ``seq_len/128_flash2.json``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from flashlab.benchmarks.attention.shape import Shape
from flashlab.course.results import Claim, Numbers
from flashlab.course.runs_csv import RUNS_CSV, DeclaredRun, read_row
from flashlab.course.words import COURSE_DTYPE, FLASH2, FLASH_ATTN, IMPLEMENTATIONS
from flashlab.devices import find_device

ATTRIBUTES = ("implementation", "batch_size", "seq_len", "num_heads", "emb_dim", "causal")


@dataclass(frozen=True)
class Declaration:
    """The run that a file is declared to be of; None for each attribute that is not declared.

    `source` is ``runs.csv``, ``record``, ``name``, or ``file`` for what stands beside the numbers;
    `gpu` is False if the run is declared to be on a CPU, or in another number format than float16.
    `hinted` names the attributes that only the file's name seems to state; the numbers overrule
    them.
    """

    source: str
    implementation: str | None = None
    batch_size: int | None = None
    seq_len: int | None = None
    num_heads: int | None = None
    emb_dim: int | None = None
    causal: bool | None = None
    device_name: str | None = None
    gpu: bool = True
    hinted: frozenset[str] = frozenset()

    @property
    def shape(self) -> Shape | None:
        """The whole shape, None if a part of it is not declared."""
        sizes = [getattr(self, name) for name in ATTRIBUTES[1:]]
        return None if None in sizes else Shape(*sizes)

    @property
    def run(self) -> tuple[str, Shape] | None:
        """Implementation and shape, None if they are not fully declared."""
        shape = self.shape
        return (
            None if shape is None or self.implementation is None else (self.implementation, shape)
        )

    @property
    def stated(self) -> dict[str, Any]:
        """The declared values of the run's attributes."""
        values = ((name, getattr(self, name)) for name in ATTRIBUTES)
        return {name: value for name, value in values if value is not None}

    def without(self, attributes: Iterable[str]) -> Declaration:
        """The declaration without some of its hints."""
        gone: dict[str, Any] = dict.fromkeys(attributes)
        return replace(self, **gone, hinted=self.hinted - gone.keys())

    def completed_by(self, other: Declaration) -> Declaration:
        """The declaration, completed from another."""
        missing: dict[str, Any] = {k: v for k, v in other.stated.items() if k not in self.stated}
        return replace(self, **missing, hinted=self.hinted | (other.hinted & missing.keys()))

    def contradicts(self, other: Declaration) -> bool:
        """True if the two state different values of an attribute."""
        mine, theirs = self.stated, other.stated
        return any(mine[name] != theirs[name] for name in mine.keys() & theirs.keys())

    def describe(self) -> str:
        """The declaration in one line: ``Flash2 B16 N1024 H32 E2048 full``."""
        sizes = (self.batch_size, self.seq_len, self.num_heads, self.emb_dim)
        parts = [f"{symbol}{size}" for symbol, size in zip("BNHE", sizes, strict=True) if size]
        mask = {True: "causal", False: "full", None: ""}[self.causal]
        return " ".join(filter(None, (self.implementation, *parts, mask)))


@dataclass(frozen=True)
class DeclaredFile:
    """A sound result by its path in the folder: its numbers and its declaration."""

    name: str
    numbers: Numbers
    declaration: Declaration


def device_is_gpu(name: str) -> bool:
    """True if a device's name is not that of a CPU."""
    return not re.search(r"\bcpus?\b", name, re.IGNORECASE)


def kind_of_device(name: str | None) -> str | None:
    """One name for all ways to write a known device's; any other name as it is."""
    device = find_device(name)
    return device.name if device else name


def is_same_device(one: str, other: str | None) -> bool:
    """True if two names are of one kind of device; False where one is not known."""
    return other is not None and kind_of_device(one) == kind_of_device(other)


def of_row(row: DeclaredRun, source: str = RUNS_CSV) -> Declaration:
    """The declaration in a row of ``runs.csv``."""
    return Declaration(
        source,
        row.implementation,
        *(row.batch_size, row.seq_len, row.num_heads, row.emb_dim, row.causal),
        device_name=row.device_name or None,
        gpu=device_is_gpu(row.device_name),
    )


def of_cells(cells: Mapping[str, str]) -> Declaration | None:
    """The declaration in the cells beside a result's numbers; None without such cells.

    Raises:
        UnsoundFileError: a cell cannot be read.
    """
    row = read_row(0, {**cells, "file": "."})
    return of_row(row, "file") if cells else None


def of_record(claim: Claim) -> Declaration:
    """The declaration in a record, which is not more trusted than any other.

    If flash-attn was not installed, ``Flash2`` ran another kernel, which takes other memory.
    """
    run = claim.run
    substituted = run.implementation == FLASH2 and not (claim.provider or FLASH_ATTN).startswith(
        FLASH_ATTN
    )
    return Declaration(
        "record",
        run.implementation,
        **Shape.of(run).parameters,
        device_name=claim.device_name,
        gpu=run.device == "cuda" and run.dtype == COURSE_DTYPE and not substituted,
    )


_SIZES = {
    **dict.fromkeys(("bs", "batch", "batchsize"), "batch_size"),
    **dict.fromkeys(("sl", "seq", "seqlen", "sequence", "seqlength"), "seq_len"),
    **dict.fromkeys(("nh", "head", "heads", "numheads"), "num_heads"),
    **dict.fromkeys(("ed", "emb", "embdim", "embedding"), "emb_dim"),
}
_LETTERS = {"b": "batch_size", "n": "seq_len", "s": "seq_len", "h": "num_heads", "e": "emb_dim"}
_JOINED = re.compile(
    "(?<![a-z])(batch[^a-z0-9]+size|num[^a-z0-9]+heads|seq[^a-z0-9]+len|seq[^a-z0-9]+length"
    "|emb[^a-z0-9]+dim|flash[^a-z0-9]+attention|flash[^a-z0-9]+attn)(?![a-z])"
)
_CAUSAL = {"causal": True, "full": False, "noncausal": False, "nocausal": False}
_NEGATIONS = ("no", "non", "not", "without", "wo")
_FALSE = ("false", "0", "off", "no", "none")


def _words(name: str) -> list[tuple[str, str]]:
    """The words of a name, each with the number after it or ``""``; ``batch_size`` is one word."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
    joined = _JOINED.sub(lambda match: re.sub("[^a-z]", "", match[0]), spaced)
    return re.findall("([a-z]+)[^a-z0-9]*([0-9]*)", joined)


def _masks(words: Sequence[tuple[str, str]]) -> Iterator[bool]:
    """The masks that the words name: ``causal``, ``no causal``, ``causal_0``, ``full``."""
    for i, (word, number) in enumerate(words):
        if word in _CAUSAL and number in ("", "0", "1"):
            before = words[i - 1][0] if i else ""
            after = number or (words[i + 1][0] if i + 1 < len(words) else "")
            yield _CAUSAL[word] and before not in _NEGATIONS and after not in _FALSE


@dataclass(frozen=True)
class _Part:
    """The values that a part of a path declares, by attribute: several if it contradicts itself.

    `alone` are the numbers that belong to no word of ours, `numberless` the sizes without a number.
    """

    values: dict[str, set[Any]]
    alone: list[int]
    numberless: set[str]


def _read_part(name: str, is_file: bool) -> _Part:
    values: dict[str, set[Any]] = {}
    letters: dict[str, set[Any]] = {}
    numberless = set()
    words = _words(name)
    alone = Counter(re.findall("[0-9]+", name))
    for word, number in words:
        size = int(number) if len(number) <= 8 and number.strip("0") else None
        if implementation := IMPLEMENTATIONS.get(word + number):
            values.setdefault("implementation", set()).add(implementation)
        elif implementation := IMPLEMENTATIONS.get(word):
            values.setdefault("implementation", set()).add(implementation)
            continue
        elif word in _SIZES and not number:
            numberless.add(_SIZES[word])
        elif word in _SIZES and size:
            values.setdefault(_SIZES[word], set()).add(size)
        elif word in _LETTERS and size:
            letters.setdefault(_LETTERS[word], set()).add(size)
        elif word not in _CAUSAL:
            continue
        alone[number] -= 1
    if len(letters) >= 3:
        values = {**letters, **values}
    masks = set(_masks(words))
    # A folder named causal is the experiment, which has both masks.
    if masks and is_file:
        values["causal"] = masks
    numbers = [int(number) for number in alone.elements() if len(number) <= 8]
    return _Part(values, numbers, numberless)


def of_name(path: str) -> Declaration:
    """The declaration in a file's name and, for what it leaves out, in its folders' names.

    ``exp3/batch_size/flash_bs16.json``: Flash2 and batch_size 16. Contradictory values count as
    not given.
    """
    declared: dict[str, Any] = {}
    parts = [
        _read_part(re.sub(r"\.json\Z", "", part, flags=re.IGNORECASE), is_file=depth == 0)
        for depth, part in enumerate(reversed(PurePosixPath(path).parts))
    ]
    for part in parts:
        for attribute, values in part.values.items():
            # After a contradiction the folders above do not count either.
            declared.setdefault(attribute, values.pop() if len(values) == 1 else None)
    numberless = {name for part in parts for name in part.numberless} - declared.keys()
    if parts and len(numberless) == len(parts[0].alone) == 1 and (size := parts[0].alone[0]):
        declared[numberless.pop()] = size
    stated = {attribute: value for attribute, value in declared.items() if value is not None}
    return Declaration("name", **stated, hinted=frozenset(stated))
