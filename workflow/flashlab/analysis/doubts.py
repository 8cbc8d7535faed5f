"""Doubts that only the samples show, put beside the warnings that the records carry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Row, Sweep, metrics_of
from flashlab.analysis.kinds.anomaly import drift
from flashlab.analysis.series import each_series

HALVES_DIFFER = "halves_differ"
"""The code of the warning on a metric of a run whose samples changed decidedly halfway."""


def _is_warned_of_drift(run: Row, metric: str) -> bool:
    return any(
        warning["code"] == "drift" and warning.get("metric") == metric
        for warning in run["warnings"] or ()
    )


def with_doubts(sweep: Sweep, estimates: Estimates) -> Sweep:
    """The sweep with a warning on each metric of a run whose halves differ by more than the margin.

    So every finding that rests on such a run carries the doubt. The warning of drift that the
    measuring gives compares the first third with the last, and may miss it.
    """
    drifted: dict[Any, list[str]] = {}
    for series in each_series(sweep, metrics_of(sweep.benchmark, exact=False)):
        for row in series.measured_rows:
            if drift(sweep, row, estimates):
                drifted.setdefault(sweep.key_of(row), []).append(series.metric.name)
    runs = []
    for run in sweep.runs:
        added = [
            {"code": HALVES_DIFFER, "metric": metric}
            for metric in sorted(drifted.get(sweep.key_of(run), ()))
            if not _is_warned_of_drift(run, metric)
        ]
        runs.append({**run, "warnings": [*(run["warnings"] or ()), *added]} if added else run)
    return replace(sweep, runs=runs)
