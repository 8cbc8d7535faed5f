"""Doubts that only the samples show, put beside the warnings that the records carry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flashlab.findings.anomalies import unstable
from flashlab.findings.ratios import Estimates
from flashlab.sweep import Row, Sweep

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
    drifted: dict[Any, set[str]] = {}
    for finding in unstable(sweep, estimates):
        if finding.params.get("sign") == "drift":
            key = finding.subject["implementation"], finding.variant, finding.params["value"]
            drifted.setdefault(key, set()).add(str(finding.metric))
    runs = []
    for run in sweep.runs:
        key = run["implementation"], sweep.variant_of(run), sweep.value_of(run)
        added = [
            {"code": HALVES_DIFFER, "metric": metric}
            for metric in sorted(drifted.get(key, ()))
            if not _is_warned_of_drift(run, metric)
        ]
        runs.append({**run, "warnings": [*(run["warnings"] or ()), *added]} if added else run)
    return replace(sweep, runs=runs)
