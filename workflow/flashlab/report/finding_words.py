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
from flashlab.report.wording import Texts, Words, join_sentences

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

    words: Words
    benchmark: Benchmark

    def tell(self, finding: Finding, symbol: str) -> Texts:
        """A finding's sentences, and what to know about it; `symbol` is the swept parameter's."""
        return join_sentences(self.sentences(finding, symbol))

    def sentences(self, finding: Finding, symbol: str) -> list[Texts]:
        """A finding's sentences one by one, and at the end what to know about it."""
        params = self._params(finding, symbol)
        found = [
            self.words.each(self._special(finding, key), **params) for key in finding.sentences
        ]
        return [*found, *self.reasons(finding.reasons)]

    def reasons(self, reasons: Sequence[Reason]) -> list[Texts]:
        """What to know about a verdict, and the runs that it lacks."""
        found = [self.words.each(f"reason.{r.code}") for r in reasons if r.run is None]
        for code in NAMING:
            runs = [self._run(r) for r in reasons if r.run is not None and r.code == code]
            if runs:
                key = f"reason.{code}" + (".many" if len(runs) > MOST_NAMED else "")
                named, more = self.words.listed(runs[:MOST_NAMED]), len(runs) - MOST_NAMED
                found.append(self.words.each(key, runs=named, more=more))
        return found

    def warnings(self, codes: Sequence[str]) -> Texts:
        """The names of warnings, joined."""
        return self.words.listed([self.words.each(f"warning.{code}") for code in codes])

    def variant(self, variant: Mapping[str, Any]) -> Texts:
        """A variant in brackets; empty for a benchmark without any."""
        settings = self.words.settings(self.benchmark, variant)
        if not settings:
            return self.words.same("")
        return self.words.each("variant", settings=self.words.listed(settings))

    def _special(self, finding: Finding, key: str) -> str:
        """The most special message for one of a finding's keys."""
        names = [self.benchmark.metric(finding.metric).quantity.name] if finding.metric else []
        return self.words.most_special(key, self.benchmark, names)

    def _run(self, reason: Reason) -> Texts:
        """The run of a reason: ``Flash2 [N = 128, causal] (out of memory)``."""
        run = dict(reason.run or {})
        given = self.words.settings(self.benchmark, run)
        given += [self.words.same(run[key]) for key in ("dtype", "device") if key in run]
        name = self.words.with_settings(run["implementation"], given)
        if reason.status is None:
            return name
        status = self.words.each(f"status.{reason.status}")
        return self.words.each("reason.run", run=name, status=status)

    def _params(self, finding: Finding, symbol: str) -> dict[str, Any]:
        """What a finding's sentences may quote, in every language."""
        words, subject = self.words, finding.subject
        plain = {k: v for k, v in finding.params.items() if not k.endswith("_where")}
        params: dict[str, Any] = words.printed(plain)
        params |= {key: name for key, name in subject.items() if isinstance(name, str)}
        variant = self.variant(subject.get("variant", {}))
        params |= {"symbol": symbol, "variant": variant}
        if finding.metric:
            metric = self.benchmark.metric(finding.metric)
            where = words.heading(metric.part or metric.labels)
            params["metric"] = words.label(metric.labels)
            params["where"] = {key: where[key] + variant[key] for key in words.languages}
        if "ceiling_state" in finding.params:
            params["ceiling"] = words.each(f"ceiling.{finding.params['ceiling_state']}")
            params["ceiling_rate"] = self._ceiling_rate(finding)
        if "switched" in subject:
            params["switched"] = words.label(self.benchmark.parameter(subject["switched"]).labels)
        if "other_metric" in subject:
            params["other_metric"] = words.label(
                self.benchmark.metric(subject["other_metric"]).labels
            )
        if "parameter" in subject:
            params["parameter"] = self.benchmark.parameter(subject["parameter"]).symbol
        for key in finding.params.keys() - plain.keys():
            params[key] = words.listed(words.settings(self.benchmark, finding.params[key]))
        if finding.kind == "choice":
            params |= self._choice(finding, symbol)
        if finding.params.get("covaried"):
            names = finding.params["covaried"]
            parameters = [words.parameter(self.benchmark.parameter(name)) for name in names]
            params["covaried"] = words.listed(parameters)
        if finding.verdict == "mixed" and "better_at" in finding.params:
            params["clauses"] = self._clauses(finding, symbol)
        if finding.kind == "claim":
            params |= word_claim(words, self.benchmark, finding)
        if finding.kind == "conclusion":
            return params | word_conclusion(words, self.benchmark, finding, symbol, params)
        return params | self._ranges(params)

    def _ceiling_rate(self, finding: Finding) -> Texts:
        """The rate that a share is of, and the one that the vendor states."""
        rate, vendor = finding.params["ceiling_rates"][0]["rate"], finding.params["vendors_rate"]
        printed = self.words.printed({"rate": rate, "vendor": vendor})
        return self.words.each("ceiling.rate" + (".vendor" if vendor else ""), **printed)

    def _winners(self, finding: Finding, symbol: str) -> Texts:
        """Who is best along a sweep: ``SdpaCudnn at N = 128; Flash4 at N = 256–1024``."""
        words = self.words
        return words.joined(
            "clauses.separator",
            [
                words.each(
                    "choice.at",
                    names=words.listed(entry["names"]),
                    symbol=symbol,
                    values=words.listed(ends_of_stretch(entry["values"])),
                )
                for entry in finding.params["winners"]
            ],
        )

    def _choice(self, finding: Finding, symbol: str) -> dict[str, Texts]:
        """Who is best along a sweep, or how often each is among the best of a dataset."""
        if "winners" in finding.params:
            return {"winners": self._winners(finding, symbol)}
        words, tallies = self.words, []
        for tally in finding.params["tallies"]:
            counts = [
                words.each("choice.count", name=each["implementation"], count=each["level"])
                for each in tally["counts"]
            ]
            metric = words.label(self.benchmark.metric(tally["metric"]).labels)
            tallies.append(words.each("choice.tally", metric=metric, counts=words.listed(counts)))
        return {"tallies": words.joined("clauses.separator", tallies)}

    def _ranges(self, params: Mapping[str, Any]) -> dict[str, Texts]:
        """The ranges among the params; `ratios` states where the ends of `low` and `high` lie."""
        found = {}
        for name, (unit, low, high) in RANGES.items():
            if low in params and high in params:
                key = f"span.{unit}.{'one' if params[low] == params[high] else 'range'}"
                found[name] = self.words.each(key, low=params[low], high=params[high])
        if "factors" in found and "low_at" in params:
            same = params["low"] == params["high"]
            found["ratios"] = found["factors"] if same else self.words.each("span.at", **params)
        return found

    def _clauses(self, finding: Finding, symbol: str) -> Texts:
        """Where a mixed finding is better, worse, equal and undecided, without the empty ones."""
        return self.words.joined(
            "clause.separator",
            [
                self.words.each(
                    self._special(finding, f"clause.{name}"),
                    symbol=symbol,
                    values=self.words.listed(finding.params[f"{name}_at"]),
                )
                for name in CLAUSES
                if finding.params[f"{name}_at"]
            ],
        )
