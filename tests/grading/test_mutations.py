"""Files whose numbers are altered at random: grading never crashes, and passes none of them."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest
from grading.conftest import graded
from planted.classes import MEMORY

PASSES = ("forward", "backward", "forward_backward")
KEYS = [(name, key) for name in PASSES for key in ("time(s)", "FLOPS(TFLOPs/s)")]
WILD = (
    *(None, True, "1", [], {}, -1.0, 0, 1e308, 10**30, "=1+1", "\u202e", [[]], {"a": 1}, 1e-300),
)


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


@pytest.mark.parametrize("seed", range(3))
def test_nothing_altered_passes_and_nothing_crashes(seed: int, sound: Any, tmp_path: Path) -> None:
    """200 altered files a seed, each beside its declaration."""
    chance = random.Random(seed)
    original, rows = sound.documents, sound.rows
    sound.documents, sound.rows = {}, {}
    for i in range(200):
        source, file = chance.choice([*original]), f"{i:03}.json"
        sound.documents[file] = copy.deepcopy(original[source])
        alter(sound.documents[file], chance)
        sound.rows[file] = [file, *rows[source][1:]]
    sound.write(tmp_path / "eve")
    found = graded(tmp_path)
    doubles = {line.file for line in found.all_lines if line.code == "form.double"}
    spoken_against = {file for _, file in found.fails()} | doubles  # of the other of a double
    passed = sorted(sound.documents.keys() - spoken_against)
    assert passed == [], sound.documents[passed[0]]
