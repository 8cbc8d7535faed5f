"""What several places say together: who to use where, as far as it is decided at each."""

from __future__ import annotations

from typing import Any

import pytest

from flashlab.analysis.conclusions.choosing import Place, cell, decide
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.telling.teller import Teller

ROW = ATTENTION.parameter("seq_len")
EN = Teller("en", ATTENTION)


def place(
    best: str, lead: float, *level: str, maybe: str = "", row: int = 1024, causal: bool = False
) -> Place:
    """Who has the best median at a setting, by how much, who suffices besides, and who may.

    The best one itself does, unless it only may.
    """
    choice: dict[str, Any] = {"best": best, "estimate": 1 + lead}
    choice["level"] = [*([] if best in maybe else [best]), *level]
    choice["undecided"] = list(maybe)
    choice["runner_up"] = next((name for name in (*level, *maybe) if name != best), "Z")
    return Place(row, {"causal": causal}, choice)


@pytest.mark.parametrize(
    ("places", "names", "maybe", "state"),
    [
        ([place("A", 0.5), place("A", 0.3)], ["A"], "", "alone"),
        ([place("A", 0.01, "B"), place("B", 0.01, "A")], ["A", "B"], "", "level"),
        ([place("A", 0.5), place("A", 0.01, "B")], ["A"], "", "partly"),
        ([place("A", 0.04, maybe="C")], ["A"], "C", "level"),
        # One suffices, whether or not another may.
        ([place("A", 0.5), place("A", 0.04, maybe="C")], ["A"], "", "partly"),
        ([place("A", 0.5), place("B", 0.01, "A")], ["A"], "", "level"),
        ([place("A", 0.5), place("A", 0.1, maybe="AC")], ["A"], "", "undecided"),
        ([place("A", 0.5), place("B", 0.1, maybe="AB")], ["A", "B"], "", "undecided"),
        ([place("A", 0.5), place("B", 0.5)], ["A", "B"], "", "changes"),
        # Nobody is left that may suffice at both.
        ([place("A", 0.5), place("B", 0.01, maybe="BC")], ["A", "B"], "", "changes"),
    ],
)
def test_a_cell_says_who_suffices_at_all_of_its_settings(
    places: list[Place], names: list[str], maybe: str, state: str
) -> None:
    found = cell(places)
    assert (found["names"], found["maybe"], found["state"]) == (names, list(maybe), state)


def test_who_suffices_in_part_of_a_stretch_is_named_beside_who_does_in_all_of_it() -> None:
    """A tie at N = 256 is not told as the choice of one."""
    places = [
        place("A", 0.01, "B", row=256),
        place("A", 0.3, row=512),
        place("C", 0.3, row=1024),
    ]
    found = decide(ATTENTION, ROW, places)
    assert EN.tell(found.winners()) == "A up to N = 512, in part also B; C at N = 1024"


def test_a_sentence_is_split_by_what_decides() -> None:
    places = [
        place("A", 0.3, row=128),
        place("A", 0.3, row=128, causal=True),
        place("A", 0.01, maybe="AB", row=1024),
        place("A", 0.15, row=1024, causal=True),
        place("B", 0.01, maybe="AB", row=2048),
        place("B", 0.01, maybe="AB", row=2048, causal=True),
    ]
    found = decide(ATTENTION, ROW, places)
    assert EN.tell(found.winners()) == "A at N = 128 and at N = 1024 (causal)"
    assert [p.row for p in found.rest] == [1024, 2048, 2048]
    rest = found.open_rows()
    where = "at N = 1024 (full) and at N = 2048"
    assert rest and EN.tell(rest) == f"{where}, A, B cannot be told apart"
