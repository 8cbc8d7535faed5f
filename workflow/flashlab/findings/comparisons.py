"""Findings that compare times: implementation with implementation, causal with full attention."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from flashlab.findings.model import (
    BOOTSTRAP,
    MARGIN,
    TIMED_PASSES,
    Finding,
    Ratio,
    Sweep,
    mask_name,
    overall,
    ratios,
    rounded,
    with_verdict,
    without_samples,
)


def _range(found: Sequence[Ratio]) -> dict[str, Any]:
    """The printed range of the ratios, and where each end lies; the count alone where none is."""
    if not found:
        return {"count": 0}
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
    if len(found) < 2:
        return "none"
    first, last = found[0], found[-1]
    if first.low is None or first.high is None or last.low is None or last.high is None:
        return "none"
    if rounded(last.low) > rounded(first.high) * (1 + MARGIN):
        return "widens"
    if rounded(last.high) < rounded(first.low) * (1 - MARGIN):
        return "narrows"
    return "none"


def _evidence(sweep: Sweep, found: Sequence[Ratio], method: str, **rows: Any) -> dict[str, Any]:
    return {
        "table": f"tables/{sweep.name}/samples.csv",
        "rows": rows,
        "method": f"{method}, {BOOTSTRAP}",
        "n": min((ratio.samples for ratio in found), default=0),
        "estimates": [ratio.to_json() for ratio in found],
    }


def speedups(sweep: Sweep) -> Iterator[Finding]:
    """How many times as fast as the baseline each implementation is, for each pass and mask."""
    baseline = sweep.plan["baseline"]
    if baseline not in sweep.implementations:
        return
    words = {"above": "faster", "below": "slower", "equal": "equivalent"}
    others = [name for name in sweep.implementations if name != baseline]
    for name, causal, timed in itertools.product(others, sweep.masks, TIMED_PASSES):
        found = ratios(sweep.times(baseline, causal, timed), sweep.times(name, causal, timed))
        verdict = overall(found)
        yield Finding(
            kind="speedup",
            experiment=sweep.name,
            device=sweep.device,
            subject={
                "implementation": name,
                "baseline": baseline,
                "pass": timed,
                "mask": mask_name(causal),
            },
            verdict=words.get(verdict, verdict),
            params={**_range(found), "trend": _trend(found), **_where(found)},
            evidence=_evidence(
                sweep,
                found,
                "median time of the baseline over median time",
                implementation=[baseline, name],
                causal=causal,
                **{"pass": timed},
            ),
            reasons=sweep.excluded([name, baseline], [causal]) + without_samples(found),
            warnings=sweep.warnings([name, baseline], [causal], timed),
        )


def causal_effects(sweep: Sweep) -> Iterator[Finding]:
    """What causal masking does to time, and so to TFLOP/s, whose FLOPs it halves by definition."""
    if len(sweep.masks) < 2:
        return
    words = {"above": "faster", "below": "slower", "equal": "same_time"}
    for name, timed in itertools.product(sweep.implementations, TIMED_PASSES):
        found = ratios(sweep.times(name, False, timed), sweep.times(name, True, timed))
        verdict = overall(found)
        span = _range(found)
        if found:
            rates = [speed.ratio / 2 for speed in found]
            span |= {"rate_low": rounded(min(rates)), "rate_high": rounded(max(rates))}
        yield Finding(
            kind="causal_effect",
            experiment=sweep.name,
            device=sweep.device,
            subject={"implementation": name, "pass": timed},
            verdict=words.get(verdict, verdict),
            params={**span, **_where(found)},
            evidence=_evidence(
                sweep,
                found,
                "median time of full over that of causal attention (half of it is the ratio of "
                "TFLOP/s, as causal FLOPs are half by definition)",
                implementation=[name],
                **{"pass": timed},
            ),
            reasons=sweep.excluded([name], sweep.masks) + without_samples(found),
            warnings=sweep.warnings([name], sweep.masks, timed),
        )


def _changes(found: Sequence[Ratio]) -> list[tuple[Ratio, Ratio]]:
    """Neighbours, among the sizes at which one is faster, of which not the same one is."""
    decided = [ratio for ratio in found if ratio.verdict in ("above", "below")]
    return [pair for pair in itertools.pairwise(decided) if pair[0].verdict != pair[1].verdict]


def _no_change(found: Sequence[Ratio], names: tuple[str, str]) -> dict[str, str] | None:
    """Who is nowhere more than 5% slower, None where that cannot be said of either."""
    first_slower = any(ratio.may_be_below for ratio in found)
    second_slower = any(ratio.may_be_above for ratio in found)
    if first_slower and second_slower:
        return None
    if not first_slower and not second_slower:
        return {"relation": "level"}
    leader, trailer = names if second_slower else names[::-1]
    return {"relation": "leads", "leader": leader, "trailer": trailer}


def crossovers(sweep: Sweep) -> Iterator[Finding]:
    """Between which measured values the faster of two implementations changes: a finding each."""
    if len(sweep.values) < 2:
        return
    for names in itertools.combinations(sweep.implementations, 2):
        for causal, timed in itertools.product(sweep.masks, TIMED_PASSES):
            # Above 1 the first of the two is the faster one.
            found = ratios(*(sweep.times(name, causal, timed) for name in names[::-1]))
            span: dict[str, Any] = {"count": len(found)}
            if found:
                span |= {"first": found[0].value, "last": found[-1].value}
            said: list[tuple[str, dict[str, Any]]] = [
                (
                    "crosses",
                    {
                        "low_at": before.value,
                        "high_at": after.value,
                        "before": names[before.verdict == "below"],
                        "after": names[after.verdict == "below"],
                    },
                )
                for before, after in _changes(found)
            ]
            if not said:
                unchanged = _no_change(found, names) if len(found) > 1 else None
                said = [("none_in_range", unchanged) if unchanged else ("inconclusive", {})]
            for verdict, params in said:
                yield Finding(
                    kind="crossover",
                    experiment=sweep.name,
                    device=sweep.device,
                    subject={
                        "implementation": names[0],
                        "other": names[1],
                        "pass": timed,
                        "mask": mask_name(causal),
                    },
                    verdict=verdict,
                    params=span | params,
                    evidence=_evidence(
                        sweep,
                        found,
                        "median time of the second over that of the first",
                        implementation=list(names),
                        causal=causal,
                        **{"pass": timed},
                    ),
                    reasons=sweep.excluded(names, [causal]) + without_samples(found),
                    warnings=sweep.warnings(names, [causal], timed),
                )
