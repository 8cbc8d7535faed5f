"""Files altered at random: grading never crashes, and never passes what is no longer true."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
from grading.conftest import graded

PASSES = ("forward", "backward", "forward_backward")
KEYS = [(name, key) for name in PASSES for key in ("time(s)", "FLOPS(TFLOPs/s)")]
MEMORY = "peak_memory_usage(MB)"
WILD: list[Any] = [
    *(None, True, "1", [], {}, -1.0, 0, 1e308, 10**30, "=1+1", "\u202e", [[]], {"a": 1}, 1e-300)
]


def alter(document: Any, chance: random.Random) -> None:
    """One number by a factor, a digit or a unit; another value; a key less; two exchanged."""
    (a, b), (c, d) = chance.sample(KEYS, 2)
    factor = chance.choice([chance.uniform(0.5, 2), 1 + chance.uniform(1e-5, 1e-3), 1e3, 1e-3])
    match chance.randrange(6):
        case 0:
            document[a][b] *= factor
        case 1:
            document[MEMORY] *= factor
        case 2:
            document[a][b] = chance.choice(WILD)
        case 3:
            del document[a][b]
        case 4:
            del document[chance.choice([*PASSES, MEMORY])]
        case _:
            document[a][b], document[c][d] = document[c][d], document[a][b]


def bytes_of(content: bytes, chance: random.Random) -> bytes:
    """Bytes flipped, cut out, doubled or put in."""
    data = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data))
        match chance.randrange(4):
            case 0:
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                del data[at : at + chance.randint(1, 20)]
            case 2:
                data[at:at] = data[at : at + chance.randint(1, 20)]
            case _:
                data[at:at] = chance.randbytes(chance.randint(1, 8))
        if not data:
            break
    return bytes(data)


def four_keys(content: bytes) -> list[float] | None:
    """The values of the script's keys; None where they cannot be read as floats."""
    try:
        # Headings in any spelling are understood.
        document = json.loads(content.lower().replace(b"tflops-s", b"tflops/s"))
        numbers = [float(document[a][b.lower()]) for a, b in KEYS]
        return [*numbers, float(document[MEMORY.lower()])]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def same(content: bytes, original: bytes) -> bool:
    """True if all seven numbers are unchanged, but for digits that no measurement has.

    The memory may be rounded.
    """
    before, after = four_keys(original), four_keys(content)
    if before is None or after is None:
        return False
    decimals = len(repr(after[-1]).partition(".")[2].rstrip("0"))
    rounded = abs(after[-1] - before[-1]) <= 0.5 * 10.0**-decimals
    return after[:-1] == pytest.approx(before[:-1], rel=1e-8) and rounded


@pytest.mark.parametrize("seed", range(5))
def test_nothing_altered_passes_and_nothing_crashes(seed: int, sound: Any, tmp_path: Path) -> None:
    """200 mutated files a seed, 1,000 in all, each beside its declaration."""
    chance = random.Random(seed)
    original, rows = sound.documents, sound.rows
    names = list(original)
    sound.documents, sound.rows = {}, {}
    changed: dict[str, bytes] = {}
    for i in range(200):
        source = chance.choice(names)
        file = f"{i:03}.json"
        document = copy.deepcopy(original[source])
        if chance.random() < 0.6:
            alter(document, chance)
            content = json.dumps(document).encode()
        else:
            content = bytes_of(json.dumps(document).encode(), chance)
        if not same(content, json.dumps(original[source]).encode()):
            changed[file] = content
            sound.rows[file] = [file, *rows[source][1:]]
    folder = sound.write(tmp_path / "eve")
    for file, content in changed.items():
        folder.joinpath(file).write_bytes(content)
    found = graded(tmp_path)
    assert len(changed) > 150
    said = ("form.not_utf8", "form.double")  # the other file of a double is spoken against
    told = {line.file for line in found.all_lines if line.code in said}
    spoken_against = {file for _, file in found.fails()} | told
    passed = sorted(set(changed) - spoken_against)
    assert passed == [], changed[passed[0]]
