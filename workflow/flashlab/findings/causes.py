"""Why a pass takes its time, as far as what was counted of the same run tells.

A cause is stated only of what was counted on that run; where nothing was counted, nothing is said.
Counters are samples of one pass, without an interval. So each rule has a dead zone between the
limit from which something holds and the one under which it does not (`limits`); a value within it
decides nothing. `kernel_causes` and `operator_causes` have the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from flashlab.findings import kernel_causes, operator_causes
from flashlab.findings.ceilings import Ceilings
from flashlab.findings.kernel_causes import CountedKernels, counted_kernels, kernel_params
from flashlab.findings.model import Evidence, Finding
from flashlab.findings.operator_causes import CountedOperators, counted_operators, operator_params
from flashlab.findings.ratios import Estimates
from flashlab.findings.series import Series, build_finding, each_series
from flashlab.sweep import Sweep, device_of


def _finding(
    series: Series,
    group: Sequence[CountedKernels] | Sequence[CountedOperators],
    verdict: str,
    sentence: str,
    params: dict[str, Any],
    method: str,
) -> Finding:
    """The finding about the passes of a series that have one cause."""
    finding = build_finding(
        "cause",
        [series],
        verdict,
        sentences=[sentence],
        params=params,
        method=method,
        n=min(each.samples for each in group),
        estimates=[each.to_json() for each in group],
        values=[each.value for each in group],
        each_alone=True,
    )
    sweep, timed = series.sweep, series.metric.name
    (device,) = {run["device"] for run in sweep.runs}
    counters = sweep.benchmark.counters_on(device)[timed]
    rows = {**finding.evidence.rows, "metric": [timed, *(metric.name for metric in counters)]}
    table = f"tables/{sweep.name}/metrics.csv"
    return replace(finding, evidence=replace(finding.evidence, table=table, rows=rows))


def _causes_of_kernels(
    series: Series, estimates: Estimates, ceilings: Ceilings
) -> Iterator[Finding]:
    groups: dict[str, list[CountedKernels]] = {}
    for row in series.measured_rows:
        if found := counted_kernels(series, row, estimates, ceilings):
            groups.setdefault(found.verdict, []).append(found)
    for verdict, group in sorted(groups.items()):
        params, method = kernel_params(group), kernel_causes.METHOD
        yield _finding(series, group, verdict, f"cause.{verdict}", params, method)


def _causes_of_operators(series: Series, estimates: Estimates) -> Iterator[Finding]:
    groups: dict[str, list[CountedOperators]] = {}
    for row in series.measured_rows:
        if found := counted_operators(series, row, estimates):
            groups.setdefault(found.verdict, []).append(found)
    for verdict, group in sorted(groups.items()):
        params, method = operator_params(group), operator_causes.METHOD
        yield _finding(series, group, verdict, f"cause.{verdict}.operators", params, method)


def causes(sweep: Sweep, estimates: Estimates, ceilings: Ceilings | None) -> Iterator[Finding]:
    """What was counted of a sweep's runs tells of their times; a finding for each verdict.

    Of a GPU nothing is stated without its ceilings, or under those of another device.
    """
    timed = [metric for metric in sweep.benchmark.measured if metric.work]
    kinds = {row["device"] for row in sweep.runs}
    names = {row["device_name"] for row in sweep.runs if row["status"] == "ok"}
    for series in each_series(sweep, timed):
        if kinds == {"cpu"}:
            yield from _causes_of_operators(series, estimates)
        elif ceilings and names == {ceilings.device_name}:
            yield from _causes_of_kernels(series, estimates, ceilings)


def counted_runs(sweeps: Sequence[Sweep]) -> Iterator[Finding]:
    """Of how many runs the counters were read: ``counted``, ``partly`` or ``uncounted``."""
    statuses: dict[tuple[Any, ...], set[str]] = {}
    kinds = sorted({row["device"] for sweep in sweeps for row in sweep.runs})
    for sweep in sweeps:
        declared = (sweep.benchmark.all_counters(kind) for kind in kinds)
        names = {metric.name for metrics in declared for metric in metrics}
        for row in sweep.metrics:
            if row["metric"] in names:
                statuses.setdefault(sweep.key_of(row), set()).add(row["status"])
    if not any(sweep.benchmark.counters for sweep in sweeps):
        return
    count = sum(found == {"ok"} for found in statuses.values())
    failed = len(statuses) - count
    verdict = "partly" if failed else "counted" if count else "uncounted"
    yield Finding(
        kind="counters",
        experiment=None,
        device=device_of(run for sweep in sweeps for run in sweep.runs),
        subject={},
        verdict=verdict,
        sentences=[f"counters.{verdict}" + (".operators" if kinds == ["cpu"] else "")],
        params={"count": count, "failed": failed},
        evidence=Evidence(
            table="tables/*/metrics.csv",
            rows={},
            method="runs with rows of counters",
            n=count,
        ),
    )
