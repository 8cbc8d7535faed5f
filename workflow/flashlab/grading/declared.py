"""What a file is declared to be: by a row of ``runs.csv``, by its record, or by its name.

A row of ``runs.csv`` takes precedence over a record, and a record over a name. Names are read with
caution, because a misreading would fail a sound file: single letters (b16, n512, h32, e2048) count
only if three of the four occur together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Any

from flashlab.benchmarks.attention.shape import Shape
from flashlab.course import FLASH2, IMPLEMENTATIONS, RUNS_CSV, Claim, DeclaredRun
from flashlab.grading.model import Declaration

COURSE_DTYPE = "float16"
FLASH_ATTN = "flash-attn"

_SIZES = {
    **dict.fromkeys(("bs", "batch", "batchsize"), "batch_size"),
    **dict.fromkeys(("sl", "seq", "seqlen", "sequence", "seqlength"), "seq_len"),
    **dict.fromkeys(("nh", "head", "heads", "numheads"), "num_heads"),
    **dict.fromkeys(("ed", "emb", "embdim", "embedding"), "emb_dim"),
}
_LETTERS = {"b": "batch_size", "n": "seq_len", "h": "num_heads", "e": "emb_dim"}
_JOINED = {
    **dict.fromkeys((("batch", "size"), ("num", "heads")), None),
    **dict.fromkeys((("seq", "len"), ("emb", "dim"), ("seq", "length")), None),
    **dict.fromkeys((("flash", "attention"), ("flash", "attn")), None),
}
_CAUSAL = {"causal": True, "full": False, "noncausal": False, "nocausal": False}


def device_is_gpu(name: str) -> bool:
    """Whether a device is a GPU; a CPU is recognized by its name."""
    return not re.search(r"\bcpus?\b", name, re.IGNORECASE)


def of_row(row: DeclaredRun) -> Declaration:
    """What a row of ``runs.csv`` declares."""
    return Declaration(
        RUNS_CSV,
        row.implementation,
        **asdict(row.shape),
        device_name=row.device_name or None,
        gpu=device_is_gpu(row.device_name),
    )


def of_record(claim: Claim) -> Declaration:
    """What a record declares itself to be, which is a claim like any other.

    If flash-attn was not installed, ``Flash2`` ran another kernel, which takes other memory.
    """
    run = claim.run
    substituted = run.implementation == FLASH2 and not (claim.provider or FLASH_ATTN).startswith(
        FLASH_ATTN
    )
    return Declaration(
        "record",
        run.implementation,
        **asdict(Shape.of(run)),
        device_name=claim.device_name,
        gpu=run.device == "cuda" and run.dtype == COURSE_DTYPE and not substituted,
    )


def _words(name: str) -> Iterator[tuple[str, str]]:
    """The words of a name, each with the number after it or ``""``; ``batch_size`` is one word."""
    parts = re.findall("[a-z]+[0-9]*|[0-9]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower())
    i = 0
    while i < len(parts):
        if i + 1 < len(parts):
            second = re.match("[a-z]*", parts[i + 1])
            if second and (parts[i], second.group()) in _JOINED:
                parts[i : i + 2] = [parts[i] + parts[i + 1]]
        match = re.fullmatch("([a-z]+)([0-9]*)", parts[i])
        if match is None:
            i += 1
            continue
        word, number = match.groups()
        following = parts[i + 1] if i + 1 < len(parts) else ""
        if not number and word in _SIZES and following.isdigit():
            number = following
        yield word, number
        i += 1


def _masks(words: Sequence[str]) -> Iterator[bool]:
    """The masks that the words name: ``causal``, ``no causal``, ``causal false``, ``full``."""
    for i, word in enumerate(words):
        if word in _CAUSAL:
            before, after = words[i - 1 : i], words[i + 1 : i + 2]
            negated = before in (["no"], ["non"], ["not"], ["without"]) or after == ["false"]
            yield _CAUSAL[word] and not (word == "causal" and negated)


def _read_part(name: str, is_file: bool) -> dict[str, set[Any]]:
    """What a part of a path declares: values by attribute, several if it contradicts itself."""
    found: dict[str, set[Any]] = {}
    letters: dict[str, set[Any]] = {}
    words = list(_words(name))
    for word, number in words:
        implementation = IMPLEMENTATIONS.get(word + number)
        if implementation:
            found.setdefault("implementation", set()).add(implementation)
        elif 0 < len(number) <= 8 and int(number) and word in _SIZES:
            found.setdefault(_SIZES[word], set()).add(int(number))
        elif 0 < len(number) <= 8 and int(number) and word in _LETTERS:
            letters.setdefault(_LETTERS[word], set()).add(int(number))
    if len(letters) >= 3:
        found = {**letters, **found}
    masks = set(_masks([word for word, number in words if not number]))
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
    return Declaration("name", **found)
