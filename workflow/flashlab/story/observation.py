"""An observation: one thing that a report says, with its facts and the rows that it rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from flashlab.files import read_json

Facts = Mapping[str, Any]
"""JSON values by the names that the observation's macro uses."""

DIGITS = 9
"""Significant digits of a number among the facts."""


Place = Literal["answer", "line", "notice", "section", "conclusion"]
"""Where a sentence stands: on page one in the answer, as an experiment's line or among the notices;
in an experiment's section; in the conclusion."""


@dataclass(frozen=True)
class Observation:
    """The facts of one sentence, or a few, of a report.

    Attributes:
        name: its kind.
        section: the experiment that it is about; None for the whole dataset.
        facts: what its macro prints; a clause among them has the name of its own macro in ``says``.
        evidence: the rows of the tables that it rests on, each with the name of its table.
        variant: which of the kind's sentences: the macro is ``<name>_<variant>``.
        place: where it stands.
    """

    name: str
    section: str | None
    facts: Facts
    evidence: Sequence[Mapping[str, Any]] = ()
    variant: str = ""
    place: Place = "section"

    @property
    def macro(self) -> str:
        """The name of the macro that says it."""
        return f"{self.name}_{self.variant}" if self.variant else self.name

    def to_json(self) -> dict[str, Any]:
        """The observation as it stands in observations.json."""
        facts, evidence = as_json(self.facts), as_json(list(self.evidence))
        return {**vars(self), "facts": facts, "evidence": evidence}


def as_json(value: Any) -> Any:
    """A value of plain types: numbers of `DIGITS`, nothing in place of what is not a number."""
    match value:
        case Mapping():
            return {str(key): as_json(inner) for key, inner in value.items()}
        case str() | bool() | None:
            return value
        case Sequence():
            return [as_json(inner) for inner in value]
    if hasattr(value, "item"):  # a number of numpy's
        value = value.item()
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.{DIGITS}g}")
    return value


def clause(says: str, **facts: Any) -> dict[str, Any]:
    """A part of a sentence among its facts: the macro ``says`` prints the others."""
    return {"says": says, **facts}


def read_observations(path: Path) -> list[Observation]:
    """The observations of a dataset, in the report's order."""
    return [Observation(**document) for document in read_json(path)]
