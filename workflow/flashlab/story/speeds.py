"""Single speeds of a dataset, for stories that compare one thing with another."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import pandas as pd

from flashlab.analysis.experiment import IMPORTED, run_keys
from flashlab.analysis.frames import Dataset

FASTER, SLOWER, EQUAL, UNDECIDED = "faster", "slower", "equal", "undecided"
VERDICTS = (FASTER, EQUAL, UNDECIDED, SLOWER)
OPEN = (EQUAL, UNDECIDED)


class Speed(NamedTuple):
    """How many times as fast one thing is as another, with its interval (NaN for none).

    `row` is the row of comparisons.csv by its position.
    """

    x: float
    low: float
    high: float
    verdict: str
    row: int


Key = TypeVar("Key", bound=Hashable)
Speeds = Mapping[tuple[Any, ...], Speed]


def speeds_of(data: Dataset) -> Speeds:
    """The speeds of a dataset by `frames.SPEED`."""
    known = data.speeds[[*Speed._fields]]
    return {row[0]: Speed(*row[1:]) for row in known.itertuples(name=None)}


def inverse(speed: Speed) -> Speed:
    """The speed of the other thing over this one."""
    verdict = {FASTER: SLOWER, SLOWER: FASTER}.get(speed.verdict, speed.verdict)
    return Speed(1 / speed.x, 1 / speed.high, 1 / speed.low, verdict, speed.row)


def by_verdict(speeds: Mapping[Key, Speed]) -> dict[str, list[Key]]:
    """What speeds are of, by their verdict."""
    return {word: [k for k, s in speeds.items() if s.verdict == word] for word in VERDICTS}


def evidence(data: Dataset, speeds: Iterable[Speed | None]) -> list[dict[str, Any]]:
    """The rows of comparisons.csv that speeds are read from."""
    return data.rows(pd.DataFrame({"row": [speed.row for speed in speeds if speed is not None]}))


def values_at(
    data: Dataset, experiment: str, metric: str, at: int, variant: str = ""
) -> pd.Series[float]:
    """A metric at a value of a sweep by implementation, in the plan's order; empty for none."""
    try:
        found = data.values.loc[experiment, variant, metric].xs(at, level="at")
    except KeyError:
        return pd.Series(dtype=float)
    planned = (entry["name"] for entry in data.plans[experiment]["implementations"])
    return found.reindex([name for name in planned if name in found.index])


def records_of(data: Dataset, *experiments: str) -> pd.DataFrame:
    """The run tables of experiments (all), a row a process."""
    folder = data.folder / "tables"
    return pd.concat(pd.read_csv(folder / name / "runs.csv") for name in experiments or data.plans)


def warned(data: Dataset) -> dict[str, Any]:
    """The number of runs, of those with a warning on any process, and the two commonest codes."""
    records = records_of(data)
    codes: dict[Any, set[str]] = {}
    runs = zip(*(records[key] for key in run_keys(data.benchmark)), strict=True)
    for run, text in zip(runs, records.warnings.fillna("[]"), strict=True):
        codes.setdefault(run, set()).update(each["code"] for each in json.loads(text))
    found = [each - {IMPORTED} for each in codes.values()]
    counts = pd.Series([code for each in found for code in sorted(each)]).value_counts()
    most = [*counts.sort_index().sort_values(ascending=False, kind="stable").index[:2]]
    return {"of": len(codes), "warned": sum(map(bool, found)), "codes": most}
