"""What conclusions are put together from: findings looked up, and statements quoted from them.

A conclusion quotes other findings and the tables; it decides nothing that they do not hold. Each
statement is the key of a message with the params that the message quotes. Within one conclusion no
two statements have params of the same name with different values.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.findings.model import Evidence, Finding, Reason
from flashlab.findings.ratios import Ratio, exceeds_margin, rounded
from flashlab.sweep import Row, Sweep, Variant, chosen_metrics, device_of, metrics_of

METHOD = "quoted from the findings listed, and from the tables' medians and exact values"

TELLING_CAUSES = (
    *("unfused", "memory_bound", "matrix_bound", "launch_bound", "occupancy"),
    *("elementwise", "products", "fused"),
)
"""Verdicts of a cause that explain a time, the most telling first."""

SHORT_DIGITS = 2


@dataclass(frozen=True)
class Statement:
    """A sentence: the key of its message, what the message quotes, and the findings behind it."""

    key: str
    params: Mapping[str, Any] = field(default_factory=dict)
    sources: Sequence[Finding] = ()


@dataclass(frozen=True)
class Known:
    """The findings that conclusions quote, and the experiments that they are about."""

    findings: Sequence[Finding]
    sweeps: Sequence[Sweep]

    @property
    def benchmark(self) -> Benchmark:
        """The benchmark of the dataset."""
        return self.sweeps[0].benchmark

    @property
    def decisive(self) -> Metric | None:
        """The metric that one chooses by: a total where there is one; None if none is sampled."""
        metrics = chosen_metrics(self.benchmark)
        return metrics[-1] if metrics else None

    @property
    def parts(self) -> list[Metric]:
        """The measured metrics that the decisive one is the total of; empty if it is none."""
        decisive = self.decisive
        if decisive is None or decisive.derived is None:
            return []
        return [self.benchmark.metric(name) for name in decisive.derived.of]

    def every(self, kind: str, experiment: str | None, **subject: Any) -> list[Finding]:
        """The findings of a kind about a subject, in an experiment or on the whole dataset."""
        return [
            finding
            for finding in self.findings
            if finding.kind == kind
            and finding.experiment == experiment
            and finding.is_about(**subject)
        ]

    def find(self, kind: str, experiment: str | None, **subject: Any) -> Finding | None:
        """The first of them, None for none."""
        return next(iter(self.every(kind, experiment, **subject)), None)


def build_conclusion(
    sweeps: Sequence[Sweep],
    topic: str,
    verdict: str,
    statements: Iterable[Statement],
    *,
    experiment: str | None,
    subject: Mapping[str, Any],
    reasons: Sequence[Reason] = (),
    front: int | None = None,
) -> Finding:
    """The conclusion that tells these statements, the first of which is its heading."""
    told = list(statements)
    sources = [finding for statement in told for finding in statement.sources]
    params: dict[str, Any] = {}
    for statement in told:
        params |= statement.params
    return Finding(
        kind="conclusion",
        experiment=experiment,
        device=device_of(run for sweep in sweeps for run in sweep.runs),
        subject={"topic": topic, **subject},
        verdict=verdict,
        sentences=[statement.key for statement in told],
        params=params,
        evidence=Evidence(
            table="findings.json",
            rows={},
            method=METHOD,
            n=min((finding.evidence.n for finding in sources), default=0),
            estimates=[
                {"kind": f.kind, "experiment": f.experiment, "subject": f.subject} for f in sources
            ],
        ),
        reasons=reasons,
        warnings=sorted({code for finding in sources for code in finding.warnings}),
        front=front,
        told=True,
    )


def in_short(value: float) -> str:
    """A number that need not be exact, as it is printed: two digits, whole from 10 on.

    From 1000 on, three digits.
    """
    if value >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    if value >= 9.95:
        return f"{value:.0f}"
    places = max(0, SHORT_DIGITS - 1 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:.{places}f}"


def in_percent(share: float) -> str:
    """A share in percent, in short."""
    return in_short(100 * share)


def in_units(value: float) -> float:
    """An exact value as it is printed: whole from 100 on, else three significant digits."""
    return float(round(value)) if value >= 100 else rounded(value)


def ratio_of(value: int, place: Mapping[str, Any], name: str) -> Ratio:
    """How many times as good as the only other one an implementation is, from a choice of two.

    `place` is what the choice gives at `value`: who is the best there, and its lead.
    """
    estimate, low, high = place["estimate"], place.get("low"), place.get("high")
    if place["best"] != name:
        estimate, low, high = 1 / estimate, high and 1 / high, low and 1 / low
    return Ratio(value, estimate, low, high, place["n"])


def as_ratios(finding: Finding, name: str) -> list[Ratio]:
    """The ratio at each value of a choice of two."""
    return [ratio_of(place["value"], place, name) for place in finding.estimates]


def median_at(sweep: Sweep, name: str, variant: Variant, value: int, metric: str) -> float | None:
    """The value of a metric of one run, None for a run without numbers."""
    run = sweep.run_at(name, variant, value)
    if run is None or run["status"] != "ok":
        return None
    found: float | None = sweep.metric_row(run, metric)["value"]
    return found


def medians_along(sweep: Sweep, name: str, variant: Variant, metric: str) -> dict[int, float]:
    """The values of a metric along a sweep, those of runs with numbers."""
    found = {value: median_at(sweep, name, variant, value, metric) for value in sweep.values}
    return {value: median for value, median in found.items() if median is not None}


# Exact metrics


def tell_exact(known: Known, sweep: Sweep, name: str, variant: Variant) -> Iterator[Statement]:
    """An implementation's exact metrics beside the baseline's, where they differ most."""
    for metric in metrics_of(sweep.benchmark, exact=True):
        about = {"implementation": name, "metric": metric.name, "variant": dict(variant)}
        found = [
            f
            for f in known.every("exact_comparison", sweep.name, **about)
            if f.verdict in ("less", "more", "equal")
        ]
        if not found:
            continue
        if len(found) > 1 or found[0].verdict == "equal":
            key = "conclusion.exact.varies" if len(found) > 1 else "conclusion.exact.equal"
            yield Statement(key, {"exact_metric": dict(metric.labels)}, found)
            continue
        params = found[0].params
        at = params["low_at"] if found[0].verdict == "less" else params["high_at"]
        mine = median_at(sweep, name, variant, at, metric.name)
        theirs = median_at(sweep, sweep.baseline, variant, at, metric.name)
        assert mine is not None and theirs is not None  # the ratio was taken of both
        yield Statement(
            f"conclusion.exact.{found[0].verdict}",
            {
                "exact_metric": dict(metric.labels),
                "exact_unit": metric.unit,
                "exact_low": in_percent(params["low"]),
                "exact_high": in_percent(params["high"]),
                "exact_at": at,
                "exact_mine": in_units(mine),
                "exact_theirs": in_units(theirs),
            },
            found,
        )


def tell_account(known: Known, sweep: Sweep, name: str, variant: Variant) -> Iterator[Statement]:
    """What most of an exact metric consists of, where the exact model gives it."""
    for finding in known.every("exact_account", sweep.name, implementation=name):
        if finding.variant != variant or finding.verdict != "explained":
            continue
        yield Statement(
            "conclusion.account",
            {
                "account_of": name,
                "account_part": finding.params["largest_part"],
                "account_share": in_percent(finding.params["share"] / 100),
                "account_at": finding.params["value"],
                "account_symbol": sweep.parameter.symbol,
            },
            [finding],
        )
        return


def tell_limits(known: Known, sweeps: Sequence[Sweep]) -> Iterator[Statement]:
    """Who runs out of memory, and from which value on."""
    found = [
        finding
        for sweep in sweeps
        for finding in known.every("out_of_memory", sweep.name)
        if finding.verdict == "limit_found"
    ]
    if not found:
        return
    smallest = min(finding.params["smallest"] for finding in found)
    names = sorted({f.subject["implementation"] for f in found if smallest in f.params["failed"]})
    yield Statement("conclusion.out_of_memory", {"oom_names": names, "oom_at": smallest}, found)


# Causes


def telling_cause(
    known: Known, sweeps: Sequence[Sweep], name: str, variant: Variant | None
) -> Finding | None:
    """What the counters of an implementation's runs tell of its times, the most telling verdict."""
    found = [
        finding
        for sweep in sweeps
        for finding in known.every("cause", sweep.name, implementation=name)
        if finding.verdict in TELLING_CAUSES and variant in (None, finding.variant)
    ]
    return min(found, key=_telling_first, default=None)


def _telling_first(finding: Finding) -> tuple[int, float]:
    """By verdict, and then the pass that takes the greatest share of what bounds it."""
    busiest = max(finding.estimates[-1].get(f"{of}_percent", 0.0) for of in ("memory", "matrix"))
    return TELLING_CAUSES.index(finding.verdict), -busiest


def tell_cause(
    known: Known, sweeps: Sequence[Sweep], name: str, variant: Variant | None = None
) -> Iterator[Statement]:
    """The measured cause of an implementation's time at one value, where there is one.

    Of one variant alone, where it is given.
    """
    finding = telling_cause(known, sweeps, name, variant)
    if finding is None:
        return
    figures, metric = finding.estimates[-1], known.benchmark.metric(str(finding.metric))
    if "operators" in figures:  # counted by the profiler of a CPU
        yield _operators(known, name, finding)
        return
    yield Statement(
        f"conclusion.cause.{finding.verdict}",
        {
            "cause_name": name,
            "cause_metric": dict(metric.part or metric.labels),
            "cause_where": _place(known, finding),
            "cause_kernels": figures["kernels"],
            "cause_gigabytes": rounded(figures["dram_bytes"] / 1e9),
            "cause_excess": in_short(figures["dram_bytes"] / figures["compulsory_bytes"]),
            "cause_copy": in_percent(figures["memory_percent"] / 100),
            "cause_matrix": in_percent(figures["matrix_percent"] / 100),
            "cause_idle": in_percent(figures["idle_percent"] / 100),
            "cause_occupancy": in_percent(figures["occupancy_percent"] / 100),
        },
        [finding],
    )


def _operators(known: Known, name: str, finding: Finding) -> Statement:
    """What a pass on a CPU spends its time in."""
    figures, metric = finding.estimates[-1], known.benchmark.metric(str(finding.metric))
    kinds = ("product", "softmax", "elementwise", "fused")
    key = "conclusion.cause.operators"
    if finding.verdict == "launch_bound":
        key += ".launch_bound"
    elif finding.verdict == "fused" and figures["operators"] == 1:
        key += ".fused"
    return Statement(
        key,
        {
            "cause_name": name,
            "cause_metric": dict(metric.part or metric.labels),
            "cause_where": _place(known, finding),
            "cause_operators": figures["operators"],
            "cause_idle": in_percent(figures["idle_percent"] / 100),
            **{f"cause_{kind}": in_percent(figures[f"{kind}_percent"] / 100) for kind in kinds},
        },
        [finding],
    )


def _place(known: Known, finding: Finding) -> dict[str, Any]:
    """The last value of a finding about a sweep, and its variant where the sweep has several."""
    sweep = next(sweep for sweep in known.sweeps if sweep.name == finding.experiment)
    several = {parameter.name for parameter in sweep.varying_variants}
    variant = {name: value for name, value in finding.variant or () if name in several}
    return {sweep.parameter.name: finding.estimates[-1]["value"], **variant}


# What was looked for and not found


def tell_checks(known: Known, sweeps: Sequence[Sweep], names: Sequence[str]) -> Iterator[Statement]:
    """What was checked and not found: overtaking, running out of memory, unstable times."""
    absent, sources = [], []
    for code, kind, clean in (
        ("crossover", "crossover", {"none_in_range"}),
        ("out_of_memory", "out_of_memory", {"none"}),
        ("monotonicity", "monotonicity", {"monotone"}),
        ("anomaly", "anomaly", {"none"}),
    ):
        found = [
            finding
            for sweep in sweeps
            for finding in known.every(kind, sweep.name)
            if finding.implementations <= set(names)
        ]
        if found and all(finding.verdict in clean for finding in found):
            absent.append(code)
            sources += found[:1]
    if absent:
        yield Statement("conclusion.checked", {"absent": absent}, sources)


# One implementation by itself


def _works(sweep: Sweep, metric: Metric) -> set[float]:
    """The operations behind a metric at each value of a sweep; empty where they are not known."""
    timed = [sweep.benchmark.metric(name) for name in sweep.benchmark.measured_behind(metric.name)]
    if not all(m.work for m in timed):
        return set()
    return {rounded(sum(m.work.operations(run) for m in timed if m.work), 6) for run in sweep.runs}


def tell_equal_work(known: Known, sweep: Sweep, name: str, variant: Variant) -> Iterator[Statement]:
    """Where the operations stay the same along the sweep: the best value, and the worst one."""
    metric = known.decisive
    if metric is None or len(_works(sweep, metric)) != 1:
        return
    found = medians_along(sweep, name, variant, metric.name)
    if len(found) < 2 or metric.higher_is_better:
        return
    best, worst = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    times = found[worst] / found[best]
    if not _is_surely_longer(sweep, name, variant, metric, worst, best):
        return
    yield Statement(
        "conclusion.equal_work",
        {
            "work_name": name,
            "work_unit": metric.unit,
            "work_best": rounded(found[best]),
            "work_best_where": _sizes(sweep, name, variant, best),
            "work_worst_where": _sizes(sweep, name, variant, worst),
            "work_percent": in_percent(times - 1),
        },
    )


def _is_surely_longer(
    sweep: Sweep, name: str, variant: Variant, metric: Metric, value: int, other: int
) -> bool:
    """Whether even the near ends of the 95% intervals differ by more than the margin."""

    def end(at: int, column: str) -> float | None:
        run = sweep.run_at(name, variant, at)
        assert run is not None  # it has numbers
        measured = sweep.benchmark.measured_behind(metric.name)
        ends = [sweep.metric_row(run, each)[column] for each in measured]
        return None if None in ends else sum(ends)

    low, high = end(value, "low"), end(other, "high")
    return low is not None and high is not None and exceeds_margin(low / high)


def _sizes(sweep: Sweep, name: str, variant: Variant, value: int) -> dict[str, Any]:
    """The swept parameter at a value, and what derives from it."""
    run: Row | None = sweep.run_at(name, variant, value)
    assert run is not None
    derived = [p for p in sweep.varying if p != sweep.parameter and p.derive is not None]
    return {p.name: run[p.name] for p in (sweep.parameter, *derived)}


def tell_saturation(known: Known, sweep: Sweep, name: str, variant: Variant) -> Iterator[Statement]:
    """From which value on more work is no longer done any faster."""
    found = [
        finding
        for finding in known.every("saturation", sweep.name, implementation=name)
        if finding.variant == variant
    ]
    reached = [f for f in found if f.verdict == "reached" and f.params["from"] != f.params["first"]]
    if not found or len(reached) != len(found):
        return
    start = max(finding.params["from"] for finding in reached)
    if start != sweep.values[-1]:
        yield Statement("conclusion.saturation", {"full_name": name, "full_from": start}, reached)


def stretches_of(winners: Mapping[int, Sequence[str]]) -> list[dict[str, Any]]:
    """Values with the same winners, by stretches of neighbours."""
    grouped = itertools.groupby(sorted(winners), key=lambda value: list(winners[value]))
    return [{"names": names, "values": list(values)} for names, values in grouped]
