"""In how many processes the runs were measured, and by how much those of a run differ."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from flashlab.findings.model import Evidence, Finding
from flashlab.findings.ratios import rounded
from flashlab.sweep import Row, Sweep, device_of, metrics_of


def processes(sweeps: Sequence[Sweep]) -> Iterator[Finding]:
    """``single``; ``repeated`` where all runs have the same number of processes; else ``varied``.

    The spread is the standard deviation between processes by which intervals were computed: its
    median over all sampled metrics of all runs, and the largest.
    """
    rows: dict[tuple[Any, ...], Row] = {}
    for sweep in sorted(sweeps, key=lambda sweep: sweep.name):
        sampled = {metric.name for metric in metrics_of(sweep.benchmark, exact=False)}
        for row in sweep.metrics:
            if row["metric"] in sampled and row["status"] == "ok":
                rows.setdefault((*sweep.key_of(row), row["metric"]), row)
    if not rows:
        return
    counts = {row["processes"] or 1 for row in rows.values()}
    verdict = "varied" if len(counts) > 1 else "single" if counts == {1} else "repeated"
    params: dict[str, Any] = {"fewest": min(counts), "most": max(counts)}
    known = [row for row in rows.values() if row["deviation"] is not None]
    if known:
        # By name where two are equally large, so that the order of the runs decides nothing.
        largest = max(known, key=lambda row: (row["deviation"], row["implementation"]))
        middle = statistics.median(row["deviation"] for row in known)
        params |= {
            "middle": rounded(100 * middle, 2),
            "largest": rounded(100 * largest["deviation"], 2),
            "implementation": largest["implementation"],
        }
    yield Finding(
        kind="processes",
        experiment=None,
        device=device_of(run for sweep in sweeps for run in sweep.runs),
        subject={},
        verdict=verdict,
        sentences=[],
        params=params,
        evidence=Evidence(
            table="tables/*/metrics.csv",
            rows={"column": "deviation"},
            method="standard deviation between processes of the logarithm of a run's median, "
            "pooled over the runs of an implementation in an experiment unless they scatter "
            "unequally",
            n=len(rows),
        ),
    )
