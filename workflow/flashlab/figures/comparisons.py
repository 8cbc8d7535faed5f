"""The comparisons with the baseline across experiments, as one data frame.

They are the very ratios that the findings give, so that figures and sentences agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from flashlab.benchmarks.model import Metric
from flashlab.findings.model import Finding
from flashlab.sweep import Sweep, Variant

KINDS = ("comparison", "exact_comparison")
COLUMNS = (
    *("experiment", "implementation", "variant", "metric", "size", "rank"),
    *("ratio", "low", "high", "decided", "failed"),
)


@dataclass(frozen=True)
class Comparisons:
    """The experiments with a comparison, what is compared in them, and the ratios.

    `data` has a row for each run and metric: ``experiment``, ``implementation``, ``variant`` (its
    position in `variants`), ``metric``, ``size``, ``rank`` (among the
    sizes of the sweep), ``ratio`` with ``low`` and ``high`` (none where
    one of the two runs has no result), ``decided`` (beyond the margin with the whole interval), and
    ``failed`` (the run itself has no result).
    """

    sweeps: Sequence[Sweep]
    entries: Sequence[Mapping[str, Any]]
    metrics: Sequence[Metric]
    variants: Sequence[Variant]
    data: pd.DataFrame

    @property
    def has_ratios(self) -> bool:
        """Whether any run has a ratio to the baseline's."""
        return bool(self.data["ratio"].notna().any())


def _estimates(findings: Sequence[Finding]) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    """Each ratio by experiment, implementation, variant, metric and size."""
    return {
        (
            f.experiment,
            f.subject["implementation"],
            f.variant,
            f.metric,
            estimate["value"],
        ): estimate
        for f in findings
        for estimate in f.estimates
    }


def compare(sweeps: Sequence[Sweep], findings: Sequence[Finding]) -> Comparisons:
    """What the findings compare with the baseline in these experiments."""
    made = [finding for finding in findings if finding.kind in KINDS]
    named = {finding.experiment for finding in made}
    compared = [sweep for sweep in sweeps if not sweep.is_summary and sweep.name in named]
    metrics = {m.name: m for s in compared for m in s.benchmark.measured}
    variants = sorted({variant for sweep in compared for variant in sweep.variants})
    entries = {
        entry["name"]: entry
        for sweep in compared
        for entry in sweep.plan["implementations"]
        if entry["name"] != sweep.baseline
    }
    estimates = _estimates(made)
    rows = []
    for sweep in compared:
        for run in sweep.ordered:
            name, variant, size = run["implementation"], sweep.variant_of(run), sweep.value_of(run)
            if name == sweep.baseline:
                continue
            for metric in metrics:
                found = estimates.get((sweep.name, name, variant, metric, size), {})
                rows.append(
                    {
                        "experiment": sweep.name,
                        "implementation": name,
                        "variant": variants.index(variant),
                        "metric": metric,
                        "size": size,
                        "rank": sweep.values.index(size),
                        "ratio": found.get("estimate"),
                        "low": found.get("low"),
                        "high": found.get("high"),
                        "decided": found.get("verdict") in ("above", "below"),
                        "failed": run["status"] != "ok",
                    }
                )
    data = pd.DataFrame(rows, columns=COLUMNS).astype(
        dict.fromkeys(("ratio", "low", "high"), float)
    )
    styled = sorted(entries.values(), key=lambda entry: entry["style"])
    return Comparisons(compared, styled, list(metrics.values()), variants, data)
