"""What the kinds of finding share: the finding itself, a sweep's tables, and the ±5% rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from flashlab.records import SHAPE_PARAMETERS
from flashlab.statistics import Estimate, Floats, function_interval, resampled_median

MARGIN = 0.05
"""A difference counts only where the interval of the ratio lies wholly beyond this; wholly inside
it is an equivalence. (On identical code that drifts by 1%, "the interval excludes 1" is wrong half
the time.)"""

TIMED_PASSES = ("forward", "backward")
SIGNIFICANT_DIGITS = 3
EVIDENCE_DIGITS = 9

BOOTSTRAP = "95% percentile bootstrap of the medians, 999 resamples"


@dataclass(frozen=True)
class Finding:
    """One statement: what it says is looked up by ``kind.verdict``, with `params` set in.

    `experiment` is None for what concerns the dataset as a whole. `params` hold numbers as they are
    printed. `evidence` names the table, its rows, the number of samples, the estimates with their
    intervals, and the method. `device` is the device's name, on which alone the statement is made.
    """

    kind: str
    experiment: str | None
    device: str
    subject: dict[str, str]
    verdict: str
    params: dict[str, Any]
    evidence: dict[str, Any]
    reasons: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The finding as it stands in findings.json."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


class Estimates:
    """Medians with their bootstrap distributions: of each pass of each run once for a dataset."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], Estimate] = {}

    def of(self, run: tuple[Any, ...], samples: Sequence[float]) -> Estimate:
        """The estimate of these samples; `run` is what tells them from all others."""
        if run not in self._found:
            self._found[run] = resampled_median(samples, repr(run))
        return self._found[run]


PASS_KEY = ("implementation", *SHAPE_PARAMETERS, "dtype", "device", "pass")
"""The columns that tell one pass of one run from all others."""


def pass_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Which pass of which run a row of the pass or sample table belongs to."""
    return tuple(row[column] for column in PASS_KEY)


@dataclass(frozen=True)
class Sweep:
    """An experiment's plan and tables, for look-ups by implementation, pass, mask and value."""

    plan: Mapping[str, Any]
    runs: Sequence[Mapping[str, Any]]
    passes: Sequence[Mapping[str, Any]]
    samples: Mapping[tuple[Any, ...], list[float]]
    estimates: Estimates

    @property
    def name(self) -> str:
        """The experiment's name."""
        return str(self.plan["name"])

    @property
    def parameter(self) -> str:
        """The parameter that varies; the summary, which has one shape, is told by its seq_len."""
        return str(self.plan["sweep"] or "seq_len")

    @property
    def implementations(self) -> list[str]:
        """Names of the implementations measured, sorted."""
        return sorted(entry["name"] for entry in self.plan["implementations"])

    @property
    def masks(self) -> list[bool]:
        """Whether full (False), causal (True), or both were measured."""
        return sorted({row["causal"] for row in self.runs})

    @property
    def values(self) -> list[int]:
        """The values of the parameter that were asked for, whatever became of their runs."""
        return sorted({row[self.parameter] for row in self.runs})

    @property
    def covaried(self) -> list[str]:
        """The parameters that vary along with the sweep's own."""
        return [
            key
            for key in SHAPE_PARAMETERS
            if key not in (self.parameter, "causal") and len({row[key] for row in self.runs}) > 1
        ]

    @property
    def device(self) -> str:
        """Name of the device, or its kind where the records do not tell."""
        return device_of(self.runs)

    def run_rows(self, implementation: str, causal: bool) -> list[Mapping[str, Any]]:
        """An implementation's rows of the run table, in order of the sweep."""
        return self._rows(self.runs, implementation, causal)

    def pass_rows(self, implementation: str, causal: bool, name: str) -> list[Mapping[str, Any]]:
        """An implementation's rows of the pass table for one pass, in order of the sweep."""
        rows = self._rows(self.passes, implementation, causal)
        return [row for row in rows if row["pass"] == name]

    def _rows(
        self, table: Sequence[Mapping[str, Any]], implementation: str, causal: bool
    ) -> list[Mapping[str, Any]]:
        rows = [
            row
            for row in table
            if row["implementation"] == implementation and row["causal"] == causal
        ]
        return sorted(rows, key=lambda row: row[self.parameter])

    def estimate(self, row: Mapping[str, Any]) -> Estimate:
        """Milliseconds of a row of the pass table; a mean without samples counts as one sample."""
        key = pass_key(row)
        return self.estimates.of(key, self.samples.get(key) or [row["time_ms"]])

    def times(self, implementation: str, causal: bool, name: str) -> dict[int, Estimate]:
        """Milliseconds of a pass, by sweep value. Only runs that are ok are in it."""
        return {
            row[self.parameter]: self.estimate(row)
            for row in self.pass_rows(implementation, causal, name)
            if row["status"] == "ok"
        }

    def peaks(self, implementation: str, causal: bool) -> dict[int, Mapping[str, Any]]:
        """Rows of the run table that hold a peak memory, by sweep value."""
        return {
            row[self.parameter]: row
            for row in self.run_rows(implementation, causal)
            if row["status"] == "ok"
        }

    def warnings(
        self, implementations: Iterable[str], masks: Iterable[bool], name: str
    ) -> list[str]:
        """The codes of all warnings on the records behind a pass of these runs, each once."""
        chosen, masked = set(implementations), set(masks)
        return warning_codes(
            (
                row
                for row in self.runs
                if row["implementation"] in chosen and row["causal"] in masked
            ),
            name,
        )

    def excluded(self, implementations: Iterable[str], masks: Iterable[bool]) -> list[str]:
        """A reason for each of these runs that has no numbers: which one, and its status."""
        chosen, masked = set(implementations), set(masks)
        rows = sorted(
            self.runs, key=lambda r: (r["implementation"], r["causal"], r[self.parameter])
        )
        return [
            f"excluded: {row['implementation']} {'causal' if row['causal'] else 'full'} "
            f"{self.parameter}={row[self.parameter]}: {row['status']}"
            for row in rows
            if row["implementation"] in chosen and row["causal"] in masked and row["status"] != "ok"
        ]


def device_of(runs: Iterable[Mapping[str, Any]]) -> str:
    """Names of the devices of these runs, or their kinds where no record tells a name.

    A run that ended in an error may not have come to know its device.
    """
    rows = list(runs)
    names = {row["device_name"] for row in rows if row["device_name"]}
    return ", ".join(sorted(names or {row["device"] for row in rows}))


def warning_codes(runs: Iterable[Mapping[str, Any]], name: str) -> list[str]:
    """The codes of the warnings on these runs that concern a pass, each once."""
    return sorted(
        {
            warning["code"]
            for row in runs
            for warning in row["warnings"] or ()
            if warning.get("pass", name) == name
        }
    )


def mask_name(causal: bool) -> str:
    """``causal`` or ``full``."""
    return "causal" if causal else "full"


def rounded(value: float, digits: int = SIGNIFICANT_DIGITS) -> float:
    """To a number of significant digits: what is printed, and so what is compared."""
    return float(f"{value:.{digits}g}")


@dataclass(frozen=True)
class Ratio:
    """A ratio of two medians at one value of the sweep, with its 95% interval if there is one."""

    value: int
    ratio: float
    low: float | None
    high: float | None
    samples: int

    @property
    def verdict(self) -> str:
        """``above``, ``below`` or ``equal`` by the ±5% rule, else ``inconclusive``.

        The interval is rounded to what is printed before it is held against the margin.
        """
        if self.low is None or self.high is None:
            return "inconclusive"
        low, high = rounded(self.low), rounded(self.high)
        if low > 1 + MARGIN:
            return "above"
        if high < 1 - MARGIN:
            return "below"
        if low >= 1 - MARGIN and high <= 1 + MARGIN:
            return "equal"
        return "inconclusive"

    @property
    def may_be_above(self) -> bool:
        """Whether the interval, or the lack of one, leaves room for more than 5% above 1."""
        return self.high is None or rounded(self.high) > 1 + MARGIN

    @property
    def may_be_below(self) -> bool:
        """Whether the interval, or the lack of one, leaves room for more than 5% below 1."""
        return self.low is None or rounded(self.low) < 1 - MARGIN

    def to_json(self) -> dict[str, Any]:
        """The ratio as evidence, rounded to nine significant digits."""
        return {"value": self.value, **interval_json(self), "verdict": self.verdict}


def interval_json(found: Ratio) -> dict[str, Any]:
    """Estimate, interval and number of samples, as evidence."""
    return {
        "estimate": rounded(found.ratio, EVIDENCE_DIGITS),
        "low": None if found.low is None else rounded(found.low, EVIDENCE_DIGITS),
        "high": None if found.high is None else rounded(found.high, EVIDENCE_DIGITS),
        "n": found.samples,
    }


def function_of(
    value: int, function: Callable[..., Floats], estimates: Sequence[Estimate]
) -> Ratio:
    """A function of independent medians, such as their ratio, with its interval."""
    estimate = float(function(*(found.median for found in estimates)))
    low, high = function_interval(function, estimates) or (None, None)
    return Ratio(value, estimate, low, high, min(found.count for found in estimates))


def quotient(numerator: Floats, denominator: Floats) -> Floats:
    """Element by element."""
    return numerator / denominator


def ratio(value: int, numerator: Estimate, denominator: Estimate) -> Ratio:
    """Ratio of two medians; exactly 1 where both are the same run's."""
    return function_of(value, quotient, (numerator, denominator))


def ratios(numerators: Mapping[int, Estimate], denominators: Mapping[int, Estimate]) -> list[Ratio]:
    """Ratio of medians at each value that both have."""
    return [
        ratio(value, numerators[value], denominators[value])
        for value in sorted(numerators.keys() & denominators.keys())
    ]


def overall(found: Sequence[Ratio]) -> str:
    """The verdict that all ratios share, ``mixed`` where they differ; none decide nothing."""
    verdicts = {ratio.verdict for ratio in found}
    if not verdicts:
        return "inconclusive"
    return verdicts.pop() if len(verdicts) == 1 else "mixed"


def with_verdict(found: Sequence[Ratio], verdict: str) -> list[int]:
    """The values of the sweep whose ratio has this verdict."""
    return [ratio.value for ratio in found if ratio.verdict == verdict]


def without_samples(found: Iterable[Ratio]) -> list[str]:
    """The reason ``no_samples`` where there are ratios, but not one with an interval."""
    lows = [ratio.low for ratio in found]
    return ["no_samples"] if lows and all(low is None for low in lows) else []
