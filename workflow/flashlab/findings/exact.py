"""Findings about exact metrics: against the baseline and the exact model; where memory ran out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from flashlab.benchmarks.model import Metric
from flashlab.findings.model import Evidence, Finding, Reason, excluded, rows_of, subject_of
from flashlab.findings.ratios import EVIDENCE_DIGITS, Estimates, counted, rounded
from flashlab.runs import Run
from flashlab.sweep import Row, Sweep, Variant, metrics_of

TABLE_DIGITS = 9

Pair = tuple[Row, Row]


def modelled_value(sweep: Sweep, metric: Metric, row: Row) -> float | None:
    """What a run must have by the exact model; None where none covers it."""
    if metric.exact_model is None:
        return None
    run = Run.of(sweep.benchmark, row)
    return metric.exact_model(run, row["provider"], row["device_name"])


def _by_value(sweep: Sweep, name: str, variant: Variant, metric: Metric) -> dict[int, Row]:
    """The metric's rows that hold a value, by sweep value."""
    return {
        sweep.value_of(row): row
        for row in sweep.metric_rows(name, variant, metric.name)
        if row["status"] == "ok"
    }


def _models(sweep: Sweep, metric: Metric, pair: Pair) -> tuple[float | None, ...]:
    runs = (
        sweep.run_at(row["implementation"], sweep.variant_of(row), sweep.value_of(row))
        for row in pair
    )
    return tuple(None if run is None else modelled_value(sweep, metric, run) for run in runs)


def _agreement(sweep: Sweep, metric: Metric, pairs: Mapping[int, Pair]) -> dict[str, list[int]]:
    """At which values both of a pair equal the model, as the table gives them, or do not."""
    agreeing: list[int] = []
    differing: list[int] = []
    for value, pair in pairs.items():
        models = _models(sweep, metric, pair)
        if None in models:
            continue
        same = all(
            rounded(model or 0, TABLE_DIGITS) == row["value"]
            for model, row in zip(models, pair, strict=True)
        )
        (agreeing if same else differing).append(value)
    return {"model_agrees_at": agreeing, "model_differs_at": differing}


def _estimate(sweep: Sweep, metric: Metric, value: int, pair: Pair) -> dict[str, Any]:
    mine, theirs = (row["value"] for row in pair)
    models = _models(sweep, metric, pair)
    return {
        "value": value,
        "estimate": rounded(mine / theirs, EVIDENCE_DIGITS),
        **{
            f"modelled_{whose}": None if model is None else rounded(model, EVIDENCE_DIGITS)
            for whose, model in zip(("implementation", "baseline"), models, strict=True)
        },
    }


def _side(share: float) -> str:
    printed = rounded(share)
    return "less" if printed < 1 else "more" if printed > 1 else "equal"


def exact_comparisons(sweep: Sweep, _: Estimates) -> Iterator[Finding]:
    """An exact metric as a share of the baseline's; exact, so without interval and margin.

    Where it is less at some values and more at others, each side is a finding of its own.
    """
    baseline = sweep.baseline
    if baseline not in sweep.implementations:
        return
    others = sorted(name for name in sweep.implementations if name != baseline)
    metrics = metrics_of(sweep.benchmark, exact=True)
    for name, variant, metric in itertools.product(others, sweep.variants, metrics):
        mine, theirs = (_by_value(sweep, who, variant, metric) for who in (name, baseline))
        pairs = {value: (mine[value], theirs[value]) for value in mine if value in theirs}
        shares = {value: a["value"] / b["value"] for value, (a, b) in pairs.items()}
        sides: dict[str, list[int]] = {}
        for value, share in shares.items():
            sides.setdefault(_side(share), []).append(value)
        for verdict, values in sorted(sides.items()) or [("withheld", [])]:
            params: dict[str, Any] = {"count": len(values)}
            model: dict[str, list[int]] = {}
            if values:
                low_at = min(values, key=shares.__getitem__)
                high_at = max(values, key=shares.__getitem__)
                model = _agreement(sweep, metric, {value: pairs[value] for value in values})
                params |= {
                    "first": values[0],
                    "last": values[-1],
                    "values": values,
                    "low": rounded(shares[low_at]),
                    "low_at": low_at,
                    "high": rounded(shares[high_at]),
                    "high_at": high_at,
                    **model,
                }
            sentences = [counted(f"exact_comparison.{verdict}", len(values))]
            sentences += [f"exact_comparison.{side}" for side, found in model.items() if found]
            yield Finding(
                kind="exact_comparison",
                experiment=sweep.name,
                device=sweep.device,
                subject=subject_of(name, variant, baseline=baseline, metric=metric.name),
                verdict=verdict,
                sentences=sentences,
                params=params,
                evidence=Evidence(
                    table=f"tables/{sweep.name}/metrics.csv",
                    rows=rows_of([name, baseline], variant, metric=metric.name),
                    method="ratio of exact values; the benchmark's exact model in the range that "
                    "it covers, to the nine digits of the table",
                    n=len(values),
                    estimates=[_estimate(sweep, metric, v, pairs[v]) for v in values],
                ).to_json(),
                reasons=excluded(sweep, [name, baseline], [variant]),
            )


def memory_limits(sweep: Sweep, _: Estimates) -> Iterator[Finding]:
    """Where an implementation ran out of memory: the largest that fitted and what did not.

    A run that ended before its memory was measured, such as an incorrect one, is neither.
    """
    for name, variant in itertools.product(sorted(sweep.implementations), sweep.variants):
        rows = sweep.run_rows(name, variant)
        fitted = [sweep.value_of(row) for row in rows if row["status"] == "ok"]
        failed = [sweep.value_of(row) for row in rows if row["status"] == "oom"]
        verdict = "limit_found" if failed else "none"
        yield Finding(
            kind="out_of_memory",
            experiment=sweep.name,
            device=sweep.device,
            subject=subject_of(name, variant),
            verdict=verdict,
            sentences=[f"out_of_memory.{verdict}" + ("" if fitted else ".nothing")],
            params={
                "first": sweep.values[0],
                "last": sweep.values[-1],
                "fitted": fitted,
                "largest": max(fitted, default=None),
                "smallest": min(failed, default=None),
                "failed": failed,
            },
            evidence=Evidence(
                table=f"tables/{sweep.name}/runs.csv",
                rows=rows_of([name], variant),
                method="status of each run",
                n=len(rows),
                estimates=[
                    {"value": sweep.value_of(row), "estimate": row["status"]} for row in rows
                ],
            ).to_json(),
            reasons=_other_failures(sweep, name, variant),
        )


def _other_failures(sweep: Sweep, name: str, variant: Variant) -> list[Reason]:
    """The runs without numbers that did not run out of memory."""
    return [r for r in excluded(sweep, [name], [variant]) if r.status != "oom"]
