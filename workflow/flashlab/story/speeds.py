"""Single speeds and values of a dataset, for stories that compare one thing with another."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, cast

import pandas as pd

from flashlab.analysis.experiment import IMPORTED, run_keys
from flashlab.analysis.frames import Dataset, read_table
from flashlab.story.observation import Observation, Place

FASTER, SLOWER, EQUAL, UNDECIDED = "faster", "slower", "equal", "undecided"
VERDICTS = (FASTER, EQUAL, UNDECIDED, SLOWER)
OPEN = (EQUAL, UNDECIDED)

Key = TypeVar("Key", bound=Hashable)
Rows = list[dict[str, Any]]


class Speed(NamedTuple):
    """How many times as fast one thing is as another, with its interval (NaN for none).

    `row` is the row of comparisons.csv by its position.
    """

    x: float
    low: float
    high: float
    verdict: str
    row: int

    @property
    def inverse(self) -> Speed:
        """The speed of the other thing over this one."""
        verdict = {FASTER: SLOWER, SLOWER: FASTER}.get(self.verdict, self.verdict)
        return Speed(1 / self.x, 1 / self.high, 1 / self.low, verdict, self.row)


def by_verdict(speeds: Mapping[Key, Speed]) -> dict[str, list[Key]]:
    """What speeds are of, by their verdict."""
    return {word: [k for k, s in speeds.items() if s.verdict == word] for word in VERDICTS}


@dataclass(frozen=True, eq=False)
class Numbers:
    """The experiment `name` of a dataset at the value `at` of its sweep, to look numbers up."""

    data: Dataset
    name: str
    at: int

    @cached_property
    def speeds(self) -> dict[tuple[Any, ...], Speed]:
        """The speeds of the dataset by `frames.SPEED`."""
        known = self.data.speeds[[*Speed._fields]]
        return {row[0]: Speed(*row[1:]) for row in known.itertuples(name=None)}

    @cached_property
    def _values(self) -> dict[tuple[str, str, str, int], dict[str, float]]:
        found: dict[tuple[str, str, str, int], dict[str, float]] = {}
        for key, value in self.data.values.items():
            experiment, variant, metric, name, at = cast(tuple[str, str, str, str, int], key)
            found.setdefault((experiment, variant, metric, int(at)), {})[name] = value
        return found

    def planned(self, experiment: str = "") -> list[str]:
        """The implementations of an experiment (this one), in the plan's order."""
        plan = self.data.plans[experiment or self.name]
        return [entry["name"] for entry in plan["implementations"]]

    def values(
        self, metric: str, at: int | None = None, experiment: str = "", variant: str = ""
    ) -> dict[str, float]:
        """A metric by implementation, in the plan's order, of those that have it."""
        key = experiment or self.name, variant, metric, self.at if at is None else at
        known = self._values.get(key, {})
        return {name: known[name] for name in self.planned(experiment) if name in known}

    def places(self, experiment: str = "") -> list[int]:
        """The values of an experiment's sweep that have numbers."""
        return sorted({key[3] for key in self._values if key[0] == (experiment or self.name)})

    def observe(
        self,
        kind: str,
        facts: Mapping[str, Any],
        speeds: Iterable[Speed | None] = (),
        place: Place = "section",
        section: str | None = None,
        variant: str = "",
        measured: Rows | None = None,
    ) -> Observation:
        """An observation on the rows of these speeds, of a section where it stands in one."""
        of = (section or self.name) if place == "section" else None
        rows = pd.DataFrame({"row": [each.row for each in speeds if each is not None]})
        evidence = [*self.data.rows(rows), *(measured or ())]
        return Observation(kind, of, facts, evidence, variant, place)

    def measured(self, metrics: Iterable[str], names: Iterable[str], variant: str = "") -> Rows:
        """The rows of metrics.csv of some implementations, as evidence."""
        about = {"table": "metrics.csv", "experiment": self.name, "variant": variant}
        about[self.data.swept[self.name]] = str(self.at)
        return [
            {**about, "implementation": name, "metric": metric, "value": known[name]}
            for metric in metrics
            for known in [self.values(metric, variant=variant)]
            for name in names
            if name in known
        ]


def records_of(data: Dataset, *experiments: str) -> pd.DataFrame:
    """The run tables of experiments (all), a row a process."""
    folder = data.folder / "tables"
    return pd.concat(read_table(folder / name / "runs.csv") for name in experiments or data.plans)


def warned(data: Dataset) -> dict[str, Any]:
    """The number of runs, of those with a warning on any process, and the two commonest codes."""
    records = records_of(data)
    codes: dict[Any, set[str]] = {}
    runs = zip(*(records[key] for key in run_keys(data.benchmark)), strict=True)
    for run, text in zip(runs, records.warnings.astype(object).fillna("[]"), strict=True):
        codes.setdefault(run, set()).update(each["code"] for each in json.loads(text))
    found = [each - {IMPORTED} for each in codes.values()]
    counts = Counter(code for each in found for code in sorted(each))
    most = sorted(counts, key=lambda code: (-counts[code], code))[:2]
    return {"of": len(codes), "warned": sum(map(bool, found)), "codes": most}
