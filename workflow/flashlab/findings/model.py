"""What the kinds of finding share: the finding itself, a sweep's tables, and the ±5% rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from flashlab.statistics import bootstrap_interval, ratio_of_medians

MARGIN = 0.05
"""A difference counts only where the interval of the ratio lies wholly beyond this; wholly inside
it is an equivalence. (On identical code that drifts by 1%, "the interval excludes 1" is wrong half
the time.)"""

TIMED_PASSES = ("forward", "backward")
SIGNIFICANT_DIGITS = 3


@dataclass(frozen=True)
class Finding:
    """One statement: what it says is looked up by ``kind.verdict``, with `params` set in.

    `params` hold numbers as they are printed. `evidence` names the table, its rows, the number of
    samples, the estimates with their intervals, and the method.
    """

    kind: str
    experiment: str
    subject: dict[str, str]
    verdict: str
    params: dict[str, Any]
    evidence: dict[str, Any]
    reasons: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The finding as it stands in findings.json."""
        return asdict(self)


@dataclass(frozen=True)
class Sweep:
    """An experiment's plan and tables, for look-ups by implementation, pass, mask and value."""

    plan: Mapping[str, Any]
    runs: Sequence[Mapping[str, Any]]
    passes: Sequence[Mapping[str, Any]]
    samples: Mapping[tuple[Any, ...], list[float]]

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
        """Names of the implementations measured."""
        return [entry["name"] for entry in self.plan["implementations"]]

    @property
    def masks(self) -> list[bool]:
        """Whether full (False), causal (True), or both were measured."""
        return sorted({row["causal"] for row in self.runs})

    def run_rows(self, implementation: str, causal: bool) -> list[Mapping[str, Any]]:
        """An implementation's rows of the run table, in order of the sweep."""
        rows = [
            row
            for row in self.runs
            if row["implementation"] == implementation and row["causal"] == causal
        ]
        return sorted(rows, key=lambda row: row[self.parameter])

    def times(self, implementation: str, causal: bool, name: str) -> dict[int, list[float]]:
        """Milliseconds of each call of a pass, by sweep value; a mean alone gives a list of one.

        Only runs that are ok are in it.
        """
        found = {}
        for row in self.passes:
            if (row["implementation"], row["causal"], row["pass"]) != (
                implementation,
                causal,
                name,
            ):
                continue
            if row["status"] == "ok":
                key = (implementation, causal, name, row[self.parameter])
                found[row[self.parameter]] = self.samples.get(key) or [row["time_ms"]]
        return dict(sorted(found.items()))

    def warnings(
        self, implementations: Iterable[str], masks: Iterable[bool], name: str
    ) -> list[str]:
        """The codes of all warnings on the records behind a pass of these runs, each once."""
        chosen, masked = set(implementations), set(masks)
        return sorted(
            {
                warning["code"]
                for row in self.runs
                if row["implementation"] in chosen and row["causal"] in masked
                for warning in row["warnings"] or ()
                if warning.get("pass", name) == name
            }
        )

    def excluded(self, implementations: Iterable[str]) -> list[str]:
        """A reason for each run of these implementations that has no numbers, and its status."""
        chosen = set(implementations)
        rows = sorted(
            self.runs, key=lambda r: (r["implementation"], r["causal"], r[self.parameter])
        )
        return [
            f"excluded: {row['implementation']} {self.parameter}={row[self.parameter]}: "
            f"{row['status']}"
            for row in rows
            if row["implementation"] in chosen and row["status"] != "ok"
        ]


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
        """``above``, ``below`` or ``equal`` by the ±5% rule, else ``inconclusive``."""
        if self.low is None or self.high is None:
            return "inconclusive"
        if self.low > 1 + MARGIN:
            return "above"
        if self.high < 1 - MARGIN:
            return "below"
        if self.low >= 1 - MARGIN and self.high <= 1 + MARGIN:
            return "equal"
        return "inconclusive"

    def to_json(self) -> dict[str, Any]:
        """The ratio as evidence, rounded to nine significant digits."""
        return {
            "value": self.value,
            "estimate": rounded(self.ratio, 9),
            "low": None if self.low is None else rounded(self.low, 9),
            "high": None if self.high is None else rounded(self.high, 9),
            "n": self.samples,
            "verdict": self.verdict,
        }


def rounded(value: float, digits: int = SIGNIFICANT_DIGITS) -> float:
    """To a number of significant digits: what is printed, and so what is compared."""
    return float(f"{value:.{digits}g}")


def ratios(
    numerators: Mapping[int, list[float]], denominators: Mapping[int, list[float]]
) -> list[Ratio]:
    """Ratio of medians at each value that both have, by percentile bootstrap."""
    found = []
    for value in sorted(numerators.keys() & denominators.keys()):
        pair = (numerators[value], denominators[value])
        estimate = float(ratio_of_medians(*pair))
        low, high = bootstrap_interval(ratio_of_medians, pair) or (None, None)
        found.append(Ratio(value, estimate, low, high, min(map(len, pair))))
    return found


def overall(found: Sequence[Ratio]) -> str:
    """The verdict that all ratios share, ``mixed`` where some decided ones differ."""
    verdicts = {ratio.verdict for ratio in found}
    return verdicts.pop() if len(verdicts) == 1 else "mixed"


def with_verdict(found: Sequence[Ratio], verdict: str) -> list[int]:
    """The values of the sweep whose ratio has this verdict."""
    return [ratio.value for ratio in found if ratio.verdict == verdict]
