"""What a file's path seems to say of its run: hints, which the numbers overrule (`identity`).

Names are read with caution: single letters (b16, n512, h32, e2048) count only if three of the four
occur together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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
_LETTERS = {"b": "batch_size", "n": "seq_len", "h": "num_heads", "e": "emb_dim"}
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
    joined = _JOINED.sub(lambda found: re.sub("[^a-z]", "", found[0]), spaced)
    return re.findall("([a-z]+)[^a-z0-9]*([0-9]*)", joined)


def _masks(words: Sequence[tuple[str, str]]) -> Iterator[bool]:
    """The masks that the words name: ``causal``, ``no causal``, ``causal_0``, ``full``."""
    for i, (word, number) in enumerate(words):
        if word in _CAUSAL and number in ("", "0", "1"):
            before = words[i - 1][0] if i else ""
            after = number or (words[i + 1][0] if i + 1 < len(words) else "")
            yield _CAUSAL[word] and before not in _NEGATIONS and after not in _FALSE


def _read_part(name: str, is_file: bool) -> dict[str, set[Any]]:
    """What a part of a path declares: values by attribute, several if it contradicts itself."""
    found: dict[str, set[Any]] = {}
    letters: dict[str, set[Any]] = {}
    words = _words(name)
    for word, number in words:
        implementation = IMPLEMENTATIONS.get(word + number) or IMPLEMENTATIONS.get(word)
        if implementation:
            found.setdefault("implementation", set()).add(implementation)
        elif 0 < len(number) <= 8 and int(number) and word in _SIZES:
            found.setdefault(_SIZES[word], set()).add(int(number))
        elif 0 < len(number) <= 8 and int(number) and word in _LETTERS:
            letters.setdefault(_LETTERS[word], set()).add(int(number))
    if len(letters) >= 3:
        found = {**letters, **found}
    masks = set(_masks(words))
    # A folder named causal is the experiment, which has both masks.
    return {**found, "causal": masks} if masks and is_file else found


def of_name(path: str) -> Declaration:
    """What a file's name declares or, for what it leaves out, the names of its folders.

    ``exp3/batch_size/flash_bs16.json``: Flash2 and batch_size 16. Contradictory values count as
    not given.
    """
    found: dict[str, Any] = {}
    for depth, part in enumerate(reversed(PurePosixPath(path).parts)):
        stem = re.sub(r"\.json\Z", "", part, flags=re.IGNORECASE)
        for attribute, values in _read_part(stem, is_file=depth == 0).items():
            # After a contradiction the folders above do not count either.
            found.setdefault(attribute, values.pop() if len(values) == 1 else None)
    stated = {attribute: value for attribute, value in found.items() if value is not None}
    return Declaration("name", **stated, hinted=frozenset(stated))
