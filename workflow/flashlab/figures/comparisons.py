"""The comparisons with the baseline across experiments, as one data frame.

They are the very ratios that the findings give, so that figures and sentences agree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from flashlab.analysis.experiment import Sweep, Variant, variants_of
from flashlab.analysis.finding import Finding
from flashlab.benchmarks.model import Metric

KINDS = ("comparison", "exact_comparison")


@dataclass(frozen=True)
class Comparisons:
    """The experiments with a comparison, what is compared in them, and the ratios.

    `data` has a row for each run and metric: ``experiment``, ``record``, ``implementation``,
    ``variant`` (its position in `variants`), ``block`` (`block_name`), ``metric``, ``size``, its
    ``rank`` in the sweep, ``ratio`` with ``low`` and ``high`` (none where one of the two runs has
    no result), ``decided`` (beyond the margin with the whole interval), and ``failed`` (the run
    itself has no result).
    """

    sweeps: Sequence[Sweep]
    entries: Sequence[Mapping[str, Any]]
    metrics: Sequence[Metric]
    variants: Sequence[Variant]
    data: pd.DataFrame


def block_name(sweep: Sweep, variant: Variant) -> str:
    """The name of an experiment's rows of one variant."""
    return f"{sweep.name} {sweep.variants.index(variant)}"


def compare(sweeps: Sequence[Sweep], findings: Sequence[Finding]) -> Comparisons:
    """What the findings compare with the baseline in these experiments."""
    made = [finding for finding in findings if finding.kind in KINDS]
    experiments = {finding.experiment for finding in made}
    compared = [sweep for sweep in sweeps if not sweep.is_summary and sweep.name in experiments]
    metrics = {metric.name: metric for sweep in compared for metric in sweep.benchmark.compared}
    variants = variants_of(compared)
    entries = {
        entry["name"]: entry
        for sweep in compared
        for entry in sweep.plan["implementations"]
        if entry["name"] != sweep.baseline
    }
    estimates = {
        (
            f.experiment,
            f.subject["implementation"],
            f.variant,
            f.metric,
            estimate["value"],
        ): estimate
        for f in made
        for estimate in f.estimates
    }
    rows = []
    for sweep in compared:
        for run in sweep.ordered:
            name, variant, size = run["implementation"], sweep.variant_of(run), sweep.value_of(run)
            for metric in metrics if name != sweep.baseline else ():
                found = estimates.get((sweep.name, name, variant, metric, size), {})
                rows.append(
                    {
                        "experiment": sweep.name,
                        "record": run["record"],
                        "implementation": name,
                        "variant": variants.index(variant),
                        "block": block_name(sweep, variant),
                        "metric": metric,
                        "size": size,
                        "rank": sweep.values.index(size),
                        "ratio": found.get("estimate", math.nan),
                        "low": found.get("low") or math.nan,
                        "high": found.get("high") or math.nan,
                        "decided": found.get("verdict") in ("above", "below"),
                        "failed": run["status"] != "ok",
                    }
                )
    data = pd.DataFrame(rows)
    styled = sorted(entries.values(), key=lambda entry: entry["style"])
    return Comparisons(compared, styled, list(metrics.values()), variants, data)
