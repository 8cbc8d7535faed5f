"""Findings about peak memory: compared with the baseline and the exact model, and its limits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from flashlab import costs
from flashlab.devices import find_device
from flashlab.findings.model import EVIDENCE_DIGITS, Finding, Sweep, mask_name, rounded
from flashlab.records import Run
from flashlab.tables import SIGNIFICANT_DIGITS as TABLE_DIGITS


def modelled_peak(row: Mapping[str, Any]) -> float | None:
    """Peak memory in MiB by the exact model; None for a run that the model does not cover.

    It covers flash-attn's FlashAttention-2 and, on a device whose cuBLAS workspaces are known, the
    naive implementation: on CUDA, in float16, in the range in which `costs` is exact.
    """
    run = Run.from_json(row)
    if run.device != "cuda" or run.dtype != "float16":
        return None
    if run.implementation == "Flash2" and str(row["provider"]).startswith("flash-attn "):
        if costs.flash2_memory_is_exact(run.shape):
            return costs.flash2_peak_memory(run.shape) / costs.MIB
    elif run.implementation == "Pytorch" and costs.naive_memory_is_exact(run.shape):
        device = find_device(row["device_name"])
        if device is not None and device.cublas_workspaces is not None:
            return costs.naive_peak_memory(run.shape, device.cublas_workspaces) / costs.MIB
    return None


def _against_model(
    rows: Mapping[int, tuple[Mapping[str, Any], Mapping[str, Any]]],
) -> dict[str, list[int]]:
    """The values at which both peaks of a pair equal the model to the table's digits, or not."""
    agreeing: list[int] = []
    differing: list[int] = []
    for value, pair in rows.items():
        modelled = [modelled_peak(row) for row in pair]
        if None in modelled:
            continue
        same = all(
            rounded(model or 0, TABLE_DIGITS) == row["peak_memory_MiB"]
            for model, row in zip(modelled, pair, strict=True)
        )
        (agreeing if same else differing).append(value)
    return {"model_agrees_at": agreeing, "model_differs_at": differing}


def _estimate(value: int, pair: tuple[Mapping[str, Any], Mapping[str, Any]]) -> dict[str, Any]:
    mine, theirs = (row["peak_memory_MiB"] for row in pair)
    return {
        "value": value,
        "estimate": rounded(mine / theirs, EVIDENCE_DIGITS),
        **{
            f"modelled_{whose}_MiB": None if model is None else rounded(model, EVIDENCE_DIGITS)
            for whose, model in zip(
                ("implementation", "baseline"), map(modelled_peak, pair), strict=True
            )
        },
    }


def memory_ratios(sweep: Sweep) -> Iterator[Finding]:
    """Peak memory as a share of the baseline's; exact numbers, so no interval and no margin.

    Where it is less at some values and more at others, each side is a separate finding.
    """
    baseline = sweep.plan["baseline"]
    if baseline not in sweep.implementations:
        return
    others = [name for name in sweep.implementations if name != baseline]
    for name, causal in itertools.product(others, sweep.masks):
        mine, theirs = sweep.peaks(name, causal), sweep.peaks(baseline, causal)
        rows = {value: (mine[value], theirs[value]) for value in mine if value in theirs}
        shares = {
            value: a["peak_memory_MiB"] / b["peak_memory_MiB"] for value, (a, b) in rows.items()
        }
        sides: dict[str, list[int]] = {}
        for value, share in shares.items():
            printed = rounded(share)
            side = "less" if printed < 1 else "more" if printed > 1 else "equal"
            sides.setdefault(side, []).append(value)
        for verdict, values in sorted(sides.items()) or [("withheld", [])]:
            params: dict[str, Any] = {"count": len(values)}
            if values:
                low_at = min(values, key=shares.__getitem__)
                high_at = max(values, key=shares.__getitem__)
                params |= {
                    "first": values[0],
                    "last": values[-1],
                    "values": values,
                    "low": rounded(shares[low_at]),
                    "low_at": low_at,
                    "high": rounded(shares[high_at]),
                    "high_at": high_at,
                    **_against_model({value: rows[value] for value in values}),
                }
            yield Finding(
                kind="memory_ratio",
                experiment=sweep.name,
                device=sweep.device,
                subject={
                    "implementation": name,
                    "baseline": baseline,
                    "mask": mask_name(causal),
                },
                verdict=verdict,
                params=params,
                evidence={
                    "table": f"tables/{sweep.name}/runs.csv",
                    "rows": {"implementation": [name, baseline], "causal": causal},
                    "method": "ratio of exact peaks; the model of costs.py where it is exact, "
                    "to the nine digits of the table",
                    "n": len(values),
                    "estimates": [_estimate(value, rows[value]) for value in values],
                },
                reasons=sweep.excluded([name, baseline], [causal]),
            )


def memory_limits(sweep: Sweep) -> Iterator[Finding]:
    """Where an implementation ran out of memory: the largest size that fit, and those that did not.

    A run that ended before its memory was measured, such as an incorrect one, counts as neither.
    """
    for name, causal in itertools.product(sweep.implementations, sweep.masks):
        rows = sweep.run_rows(name, causal)
        fitted = [row[sweep.parameter] for row in rows if row["status"] == "ok"]
        failed = [row[sweep.parameter] for row in rows if row["status"] == "oom"]
        yield Finding(
            kind="out_of_memory",
            experiment=sweep.name,
            device=sweep.device,
            subject={"implementation": name, "mask": mask_name(causal)},
            verdict="limit_found" if failed else "none",
            params={
                "first": sweep.values[0],
                "last": sweep.values[-1],
                "fitted": fitted,
                "largest": max(fitted, default=None),
                "smallest": min(failed, default=None),
                "failed": failed,
            },
            evidence={
                "table": f"tables/{sweep.name}/runs.csv",
                "rows": {"implementation": [name], "causal": causal},
                "method": "status of each run",
                "n": len(rows),
                "estimates": [
                    {"value": row[sweep.parameter], "estimate": row["status"]} for row in rows
                ],
            },
            reasons=[
                reason
                for reason in sweep.excluded([name], [causal])
                if not reason.endswith(": oom")
            ],
        )
