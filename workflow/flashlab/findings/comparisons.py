"""Findings that compare: an implementation with the baseline, causal with full attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flashlab.findings.model import (
    MARGIN,
    TIMED_PASSES,
    Finding,
    Ratio,
    Sweep,
    overall,
    ratios,
    rounded,
    with_verdict,
)

BOOTSTRAP = "ratio of medians, 95% percentile bootstrap, 999 resamples"


def _range(found: Sequence[Ratio]) -> dict[str, Any]:
    """The printed range of the ratios, and where each end lies."""
    lowest = min(found, key=lambda ratio: ratio.ratio)
    highest = max(found, key=lambda ratio: ratio.ratio)
    return {
        "first": found[0].value,
        "last": found[-1].value,
        "count": len(found),
        "low": rounded(lowest.ratio),
        "low_at": lowest.value,
        "high": rounded(highest.ratio),
        "high_at": highest.value,
    }


def _where(found: Sequence[Ratio]) -> dict[str, list[int]]:
    """The values of the sweep at which each verdict holds."""
    return {
        "faster_at": with_verdict(found, "above"),
        "slower_at": with_verdict(found, "below"),
        "equal_at": with_verdict(found, "equal"),
        "undecided_at": with_verdict(found, "inconclusive"),
    }


def _trend(found: Sequence[Ratio]) -> str:
    """Whether the ratio grows from the first to the last value: beyond both intervals and 5%."""
    first, last = found[0], found[-1]
    if len(found) < 2 or None in (first.low, first.high, last.low, last.high):
        return "none"
    assert first.low and first.high and last.low and last.high
    if last.low > first.high * (1 + MARGIN):
        return "widens"
    if last.high < first.low * (1 - MARGIN):
        return "narrows"
    return "none"


def _evidence(sweep: Sweep, found: Sequence[Ratio], **rows: Any) -> dict[str, Any]:
    return {
        "table": f"tables/{sweep.name}/samples.csv",
        "rows": rows,
        "method": BOOTSTRAP,
        "n": min((ratio.samples for ratio in found), default=0),
        "estimates": [ratio.to_json() for ratio in found],
    }


def speedups(sweep: Sweep) -> Iterator[Finding]:
    """How many times as fast as the baseline each implementation is, for each pass and mask."""
    baseline = sweep.plan["baseline"]
    if baseline not in sweep.implementations:
        return
    words = {"above": "faster", "below": "slower", "equal": "equivalent"}
    for name in sweep.implementations:
        if name == baseline:
            continue
        for causal in sweep.masks:
            for timed in TIMED_PASSES:
                found = ratios(
                    sweep.times(baseline, causal, timed), sweep.times(name, causal, timed)
                )
                if not found:
                    continue
                verdict = overall(found)
                reasons = sweep.excluded([name, baseline])
                if all(ratio.low is None for ratio in found):
                    reasons.append("no_samples")
                yield Finding(
                    kind="speedup",
                    experiment=sweep.name,
                    subject={
                        "implementation": name,
                        "baseline": baseline,
                        "pass": timed,
                        "mask": "causal" if causal else "full",
                    },
                    verdict=words.get(verdict, verdict),
                    params={
                        **_range(found),
                        "trend": _trend(found),
                        **_where(found),
                    },
                    evidence=_evidence(
                        sweep,
                        found,
                        implementation=[baseline, name],
                        causal=causal,
                        **{"pass": timed},
                    ),
                    reasons=reasons,
                    warnings=sweep.warnings([name, baseline], [causal], timed),
                )


def causal_effects(sweep: Sweep) -> Iterator[Finding]:
    """What causal masking does to time, and so to TFLOP/s, whose FLOPs it halves by definition."""
    if len(sweep.masks) < 2:
        return
    words = {"above": "faster", "below": "slower", "equal": "same_time"}
    for name in sweep.implementations:
        for timed in TIMED_PASSES:
            found = ratios(sweep.times(name, False, timed), sweep.times(name, True, timed))
            if not found:
                continue
            verdict = overall(found)
            span = _range(found)
            yield Finding(
                kind="causal_effect",
                experiment=sweep.name,
                subject={"implementation": name, "pass": timed},
                verdict=words.get(verdict, verdict),
                params={
                    **span,
                    "rate_low": rounded(span["low"] / 2),
                    "rate_high": rounded(span["high"] / 2),
                    **_where(found),
                },
                evidence=_evidence(sweep, found, implementation=[name], **{"pass": timed}),
                reasons=sweep.excluded([name]),
                warnings=sweep.warnings([name], sweep.masks, timed),
            )


def memory_ratios(sweep: Sweep) -> Iterator[Finding]:
    """Peak memory as a share of the baseline's; exact numbers, so no interval and no margin."""
    baseline = sweep.plan["baseline"]
    if baseline not in sweep.implementations:
        return
    for name in sweep.implementations:
        if name == baseline:
            continue
        for causal in sweep.masks:
            peaks = [
                {
                    row[sweep.parameter]: row["peak_memory_MiB"]
                    for row in sweep.run_rows(which, causal)
                    if row["status"] == "ok"
                }
                for which in (name, baseline)
            ]
            common = sorted(peaks[0].keys() & peaks[1].keys())
            if not common:
                continue
            shares = {value: rounded(peaks[0][value] / peaks[1][value]) for value in common}
            low_at, high_at = (
                min(common, key=shares.__getitem__),
                max(common, key=shares.__getitem__),
            )
            verdict = "mixed"
            if all(share < 1 for share in shares.values()):
                verdict = "less"
            elif all(share > 1 for share in shares.values()):
                verdict = "more"
            elif all(share == 1 for share in shares.values()):
                verdict = "equal"
            yield Finding(
                kind="memory_ratio",
                experiment=sweep.name,
                subject={
                    "implementation": name,
                    "baseline": baseline,
                    "mask": "causal" if causal else "full",
                },
                verdict=verdict,
                params={
                    "first": common[0],
                    "last": common[-1],
                    "count": len(common),
                    "low": shares[low_at],
                    "low_at": low_at,
                    "high": shares[high_at],
                    "high_at": high_at,
                },
                evidence={
                    "table": f"tables/{sweep.name}/runs.csv",
                    "rows": {"implementation": [name, baseline], "causal": causal},
                    "method": "ratio of exact peaks",
                    "n": 1,
                    "estimates": [
                        {"value": value, "estimate": rounded(peaks[0][value] / peaks[1][value], 9)}
                        for value in common
                    ],
                },
                reasons=sweep.excluded([name, baseline]),
            )


def memory_limits(sweep: Sweep) -> Iterator[Finding]:
    """Where an implementation ran out of memory: the largest that fit and what did not."""
    for name in sweep.implementations:
        for causal in sweep.masks:
            rows = sweep.run_rows(name, causal)
            fitted = [row[sweep.parameter] for row in rows if row["status"] == "ok"]
            failed = [row[sweep.parameter] for row in rows if row["status"] == "oom"]
            verdict = "limit_found" if failed and fitted else "nothing_fits" if failed else "none"
            yield Finding(
                kind="out_of_memory",
                experiment=sweep.name,
                subject={"implementation": name, "mask": "causal" if causal else "full"},
                verdict=verdict,
                params={
                    "largest": max(fitted, default=None),
                    "smallest": min(failed, default=None),
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
            )
