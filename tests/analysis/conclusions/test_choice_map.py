"""What several places of the map of choices say together."""

from __future__ import annotations

from typing import Any

from flashlab.analysis.conclusions.choice_map import ChoiceMap
from flashlab.benchmarks.attention.declaration import ATTENTION

ROW = ATTENTION.parameter("seq_len")
COLUMN = (64, True)


def place(best: str, lead: float, *level: str, undecided: bool = False) -> dict[str, Any]:
    """Who is best at a setting, by how much, and who is level with it."""
    return {
        "best": best,
        "level": [best, *level],
        "undecided": ["C"] if undecided else [],
        "estimate": 1 + lead,
    }


def test_the_leads_of_a_winner_are_those_at_places_where_it_is_alone() -> None:
    found = {
        1024: [place("A", 0.5), place("A", 0.01, "B")],
        2048: [place("A", 0.3), place("A", 0.08, undecided=True)],
    }
    places = {(COLUMN, row): [{"rate": each} for each in of_row] for row, of_row in found.items()}
    (stretch,) = ChoiceMap(ATTENTION, ROW, places).winners("rate")
    assert (stretch["names"], stretch["values"]) == (["A"], [1024, 2048])
    assert (stretch["lead_low"], stretch["lead_high"]) == ("30", "50")


def test_a_cell_of_several_places_says_who_suffices_at_all_of_them() -> None:
    def states(*found: dict[str, Any]) -> tuple[list[str], str]:
        cell = ChoiceMap(ATTENTION, ROW, {(COLUMN, 1024): [{"rate": f} for f in found]}).cell(
            COLUMN, 1024, "rate"
        )
        assert cell is not None
        return cell["names"], cell["state"]

    assert states(place("A", 0.5), place("A", 0.3)) == (["A"], "alone")
    assert states(place("A", 0.01, "B"), place("B", 0.01, "A")) == (["A", "B"], "level")
    assert states(place("A", 0.5), place("A", 0.01, "B")) == (["A"], "mostly")
    assert states(place("A", 0.5), place("A", 0.1, undecided=True)) == (["A"], "undecided")
    assert states(place("A", 0.5), place("B", 0.5)) == (["A", "B"], "changes")
