"""Declarations in the words of a file's path: hints, which the numbers overrule (`identity`).

Names are read with caution: single letters (b16, n512 or s512, h32, e2048) count only if three of
the four occur together, and a number by itself only if the path names just one parameter without
one, as in ``seq_len/128_flash2.json``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from flashlab.course.declaration import Declaration
from flashlab.course.words import IMPLEMENTATIONS

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
