"""Findings in words: each of a finding's sentences, in the most special form that there is.

A finding's `sentences` are the keys of messages. The generic message of a key fits any metric and
any parameter; a special one takes its place where the catalogs hold one (`Words.most_special`) for
the metric's quantity, as ``time.comparison.better``.

Besides the finding's own params a sentence may quote ``metric`` (as within a sentence), ``where``
(the metric's part, or else the metric, with the variant: ``Forward (causal)``), ``variant`` (in
brackets; empty where there is none), ``symbol`` (of the swept parameter), ``switched``,
``implementation``, ``baseline``, ``other``, and the ranges and clauses below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.benchmarks.model import Benchmark
from flashlab.findings.model import Finding, Reason
from flashlab.report.claim_words import word_claim
from flashlab.report.conclusion_words import word_conclusion
from flashlab.telling.codes import STATUSES, WARNINGS
from flashlab.telling.values import (
    Heading,
    Label,
    Listed,
    Measured,
    Number,
    ParameterName,
    Run,
    Tellable,
    clauses,
    in_turn,
    say,
    settings,
)

MOST_NAMED = 8
"""Runs without numbers that a sentence names; the finding's reasons have them all."""

RANGES = {
    "factors": ("times", "low", "high"),
    "matrix": ("percent", "matrix_low", "matrix_high"),
    "copy": ("percent", "copy_low", "copy_high"),
    "elsewhere": ("percent", "elsewhere_low", "elsewhere_high"),
    "idle": ("percent", "idle_low", "idle_high"),
    "occupancy": ("percent", "occupancy_low", "occupancy_high"),
    "kernels": ("kernels", "kernels_low", "kernels_high"),
    "kernel_time": ("microseconds", "kernel_us_low", "kernel_us_high"),
    "traffic": ("gigabytes", "gigabytes_low", "gigabytes_high"),
    "excess": ("times", "excess_low", "excess_high"),
    "operators": ("operators", "operators_low", "operators_high"),
    "product": ("percent", "product_low", "product_high"),
    "softmax": ("percent", "softmax_low", "softmax_high"),
    "fused": ("percent", "fused_low", "fused_high"),
    "elementwise": ("percent", "elementwise_low", "elementwise_high"),
    "between": ("percent", "between_low", "between_high"),
    "allocated": ("megabytes", "megabytes_low", "megabytes_high"),
}
"""Ranges: their unit, and the params of their ends. One whose ends print alike is a number."""

NAMING = ("excluded", "missing", "incorrect", "worse")
"""Reasons that name runs, in the order in which they are stated."""

CLAUSES = ("better", "worse", "equal", "undecided")
"""What a mixed finding is, each at some values of the sweep."""


def ends_of_stretch(values: Sequence[int]) -> list[str]:
    """Consecutive values of a sweep by their ends: ``128–1024``; one or two as they are."""
    return [f"{values[0]}–{values[-1]}"] if len(values) > 2 else [str(value) for value in values]


@dataclass(frozen=True)
class FindingWords:
    """Words for the findings about a benchmark."""

    benchmark: Benchmark

    def tell(self, finding: Finding, symbol: str) -> Tellable:
        """A finding's sentences, and what to know about it; `symbol` is the swept parameter's."""
        return in_turn(self.sentences(finding, symbol))

    def sentences(self, finding: Finding, symbol: str) -> list[Tellable]:
        """A finding's sentences one by one, and at the end what to know about it."""
        params = self._params(finding, symbol)
        found = [say(key, *self._about(finding), **params) for key in finding.sentences]
        return [*found, *self.reasons(finding.reasons)]

    def reasons(self, reasons: Sequence[Reason]) -> list[Tellable]:
        """What to know about a verdict, and the runs that it lacks."""
        found: list[Tellable] = [say(f"reason.{r.code}") for r in reasons if r.run is None]
        for code in NAMING:
            runs = [self._run(r) for r in reasons if r.run is not None and r.code == code]
            if runs:
                key = f"reason.{code}" + (".many" if len(runs) > MOST_NAMED else "")
                more = len(runs) - MOST_NAMED
                found.append(say(key, runs=Listed(runs[:MOST_NAMED]), more=more))
        return found

    def warnings(self, codes: Sequence[str]) -> Tellable:
        """The names of warnings, joined."""
        return Listed([say(WARNINGS[code]) for code in codes])

    def variant(self, variant: Mapping[str, Any]) -> Tellable:
        """A variant in brackets; empty for a benchmark without any."""
        given = settings(self.benchmark, variant)
        return say("variant", settings=Listed(given)) if given else ""

    def _about(self, finding: Finding) -> list[str]:
        """What the most special message is looked for by."""
        return [self.benchmark.metric(finding.metric).quantity.name] if finding.metric else []

    def _run(self, reason: Reason) -> Tellable:
        """The run of a reason: ``Flash2 [N = 128, causal] (out of memory)``."""
        run = dict(reason.run or {})
        given: list[Tellable] = [*settings(self.benchmark, run)]
        given += [run[key] for key in ("dtype", "device") if key in run]
        name = Run(run["implementation"], given)
        if reason.status is None:
            return name
        return say("reason.run", run=name, status=say(STATUSES[reason.status]))

    def _params(self, finding: Finding, symbol: str) -> dict[str, Any]:
        """What a finding's sentences may quote."""
        subject = finding.subject
        plain = {k: v for k, v in finding.params.items() if not k.endswith("_where")}
        params: dict[str, Any] = printed(plain)
        params |= {key: name for key, name in subject.items() if isinstance(name, str)}
        variant = self.variant(subject.get("variant", {}))
        params |= {"symbol": symbol, "variant": variant}
        if finding.metric:
            metric = self.benchmark.metric(finding.metric)
            params["metric"] = Label(metric.labels)
            params["where"] = Listed([Heading(Label(metric.part or metric.labels)), variant], "")
        if "ceiling_state" in finding.params:
            params["ceiling"] = say(f"ceiling.{finding.params['ceiling_state']}")
            params["ceiling_rate"] = self._ceiling_rate(finding)
        if "switched" in subject:
            params["switched"] = Label(self.benchmark.parameter(subject["switched"]).labels)
        if "other_metric" in subject:
            params["other_metric"] = Label(self.benchmark.metric(subject["other_metric"]).labels)
        if "parameter" in subject:
            params["parameter"] = self.benchmark.parameter(subject["parameter"]).symbol
        for key in finding.params.keys() - plain.keys():
            params[key] = Listed(settings(self.benchmark, finding.params[key]))
        if finding.kind == "choice":
            params |= self._choice(finding, symbol)
        if finding.params.get("covaried"):
            names = finding.params["covaried"]
            params["covaried"] = Listed([ParameterName(name) for name in names])
        if finding.verdict == "mixed" and "better_at" in finding.params:
            params["clauses"] = self._clauses(finding, symbol)
        if finding.kind == "claim":
            params |= word_claim(self.benchmark, finding)
        if finding.kind == "conclusion":
            return params | word_conclusion(self.benchmark, finding, symbol, params)
        return params | self._ranges(params)

    def _ceiling_rate(self, finding: Finding) -> Tellable:
        """The rate that a share is of, and the one that the vendor states."""
        rate, vendor = finding.params["ceiling_rates"][0]["rate"], finding.params["vendors_rate"]
        told = printed({"rate": rate, "vendor": vendor})
        return say("ceiling.rate.vendor" if vendor else "ceiling.rate", **told)

    def _winners(self, finding: Finding, symbol: str) -> Tellable:
        """Who is best along a sweep: ``SdpaCudnn at N = 128; Flash4 at N = 256–1024``."""
        return clauses(
            say(
                "choice.at",
                names=Listed(entry["names"]),
                symbol=symbol,
                values=Listed(ends_of_stretch(entry["values"])),
            )
            for entry in finding.params["winners"]
        )

    def _choice(self, finding: Finding, symbol: str) -> dict[str, Tellable]:
        """Who is best along a sweep, or how often each is among the best of a dataset."""
        if "winners" in finding.params:
            return {"winners": self._winners(finding, symbol)}
        tallies = []
        for tally in finding.params["tallies"]:
            counts = [
                say("choice.count", name=each["implementation"], count=each["level"])
                for each in tally["counts"]
            ]
            metric = Label(self.benchmark.metric(tally["metric"]).labels)
            tallies.append(say("choice.tally", metric=metric, counts=Listed(counts)))
        return {"tallies": clauses(tallies)}

    def _ranges(self, params: Mapping[str, Any]) -> dict[str, Tellable]:
        """The ranges among the params; `ratios` states where the ends of `low` and `high` lie."""
        found: dict[str, Tellable] = {}
        for name, (unit, low, high) in RANGES.items():
            if low in params and high in params:
                if params[low] == params[high]:
                    found[name] = say(f"span.{unit}.one", low=params[low])
                else:
                    found[name] = say(f"span.{unit}.range", low=params[low], high=params[high])
        if "factors" in found and "low_at" in params:
            same = params["low"] == params["high"]
            found["ratios"] = found["factors"] if same else say("span.at", **params)
        return found

    def _clauses(self, finding: Finding, symbol: str) -> Tellable:
        """Where a mixed finding is better, worse, equal and undecided, without the empty ones."""
        return Listed(
            [
                say(
                    f"clause.{name}",
                    *self._about(finding),
                    symbol=symbol,
                    values=Listed(finding.params[f"{name}_at"]),
                )
                for name in CLAUSES
                if finding.params[f"{name}_at"]
            ],
            "clause.separator",
        )


TWO_PLACES = ("exponent", "exponent_low", "exponent_high", "local")
"""Params that are rounded to two places, and printed with both."""

AS_GIVEN = (
    *("times_size", "wanted_least", "wanted_most", "ideal", "times_work"),
    *("whole", "part_size", "capacity", "balance_ideal"),
)
"""Params that are computed, or exact."""


def printed(params: Mapping[str, Any]) -> dict[str, Tellable]:
    """A finding's params as they are printed, without those that are lists of mappings."""
    return {
        name: _printed(name, value)
        for name, value in params.items()
        if not (isinstance(value, list) and value and isinstance(value[0], Mapping))
    }


def _printed(name: str, value: Any) -> Tellable:
    """A text that has one for each language, a list, or a number."""
    if isinstance(value, Mapping):
        return Label(value)
    if isinstance(value, list):
        return Listed([_printed(name, item) for item in value])
    if value is None or name in AS_GIVEN:
        return Number(value)
    if not isinstance(value, float):
        return str(value)
    return Measured(value, 2 if name in TWO_PLACES else None)
