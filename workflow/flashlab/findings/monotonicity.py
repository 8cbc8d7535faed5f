"""Whether time and memory only rise or only fall along a sweep, or where they do both."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.findings.model import (
    BOOTSTRAP,
    TIMED_PASSES,
    Finding,
    Ratio,
    Sweep,
    mask_name,
    ratio,
    rounded,
    without_samples,
)
from flashlab.statistics import Estimate


@dataclass(frozen=True)
class _Step:
    """A value's ratio to an earlier value of the sweep, and whether it has or may have changed."""

    start: int
    ratio: Ratio
    falls: bool
    rises: bool
    may_fall: bool
    may_rise: bool


def _steps(
    by_value: Mapping[int, float], step: Callable[[int, int], _Step]
) -> tuple[list[_Step], list[_Step]]:
    """Each value against the highest of those before it, and against the lowest."""
    values = list(by_value)
    before = [(values[:i], value) for i, value in enumerate(values) if i]
    return (
        [step(max(earlier, key=by_value.__getitem__), value) for earlier, value in before],
        [step(min(earlier, key=by_value.__getitem__), value) for earlier, value in before],
    )


def _timed_steps(times: Mapping[int, Estimate]) -> tuple[list[_Step], list[_Step]]:
    """Steps of times: by the ±5% rule."""

    def step(start: int, value: int) -> _Step:
        found = ratio(value, times[value], times[start])
        falls, rises = found.verdict == "below", found.verdict == "above"
        return _Step(start, found, falls, rises, found.may_be_below, found.may_be_above)

    return _steps({value: time.median for value, time in times.items()}, step)


def _exact_steps(peaks: Mapping[int, float]) -> tuple[list[_Step], list[_Step]]:
    """Steps of peaks, which are exact: by any digit that is printed."""

    def step(start: int, value: int) -> _Step:
        found = rounded(peaks[value] / peaks[start])
        falls, rises = found < 1, found > 1
        return _Step(start, Ratio(value, found, found, found, 1), falls, rises, falls, rises)

    return _steps(peaks, step)


def _judged(from_highest: Sequence[_Step], from_lowest: Sequence[_Step]) -> tuple[str, Any]:
    """Verdict and params: the direction or, where there is none, the deepest fall and rise."""
    fallen = [step for step in from_highest if step.falls]
    risen = [step for step in from_lowest if step.rises]
    if fallen and risen:
        deepest = min(fallen, key=lambda step: step.ratio.ratio)
        highest = max(risen, key=lambda step: step.ratio.ratio)
        return "broken", {
            f"{name}_{part}": value
            for name, step in (("fall", deepest), ("rise", highest))
            for part, value in (
                ("from", step.start),
                ("to", step.ratio.value),
                ("ratio", rounded(step.ratio.ratio)),
            )
        }
    may_fall = any(step.may_fall for step in from_highest)
    may_rise = any(step.may_rise for step in from_lowest)
    if not from_lowest or (may_fall and may_rise):
        return "inconclusive", {}
    return "monotone", {"direction": "falls" if may_fall else "rises" if may_rise else "level"}


def _finding(
    sweep: Sweep,
    subject: dict[str, str],
    values: Sequence[int],
    steps: tuple[list[_Step], list[_Step]],
    evidence: dict[str, Any],
    exact: bool,
) -> Finding:
    verdict, params = _judged(*steps)
    name, masks = subject["implementation"], [subject["mask"] == "causal"]
    found = [step.ratio for group in steps for step in group]
    return Finding(
        kind="monotonicity",
        experiment=sweep.name,
        device=sweep.device,
        subject=subject,
        verdict=verdict,
        params={
            "count": len(values),
            **({"first": values[0], "last": values[-1]} if values else {}),
            "covaried": sweep.covaried,
            **params,
        },
        evidence={
            **evidence,
            "method": "each value over the highest and over the lowest before it, "
            + ("exact, to three digits" if exact else BOOTSTRAP),
            "n": min((ratio.samples for ratio in found), default=0),
            "estimates": [
                {"against": against, "start": step.start, **step.ratio.to_json()}
                for against, group in zip(("highest", "lowest"), steps, strict=True)
                for step in group
            ],
        },
        reasons=sweep.excluded([name], masks) + without_samples(found),
        warnings=[] if exact else sweep.warnings([name], masks, subject["quantity"]),
    )


def monotonicities(sweep: Sweep) -> Iterator[Finding]:
    """Both passes' time and peak memory, for each implementation and mask."""
    if len(sweep.values) < 2:
        return
    for name, causal in itertools.product(sweep.implementations, sweep.masks):
        subject = {"implementation": name, "mask": mask_name(causal)}
        rows = {"implementation": [name], "causal": causal}
        for timed in TIMED_PASSES:
            times = sweep.times(name, causal, timed)
            yield _finding(
                sweep,
                {**subject, "quantity": timed},
                list(times),
                _timed_steps(times),
                {"table": f"tables/{sweep.name}/samples.csv", "rows": {**rows, "pass": timed}},
                exact=False,
            )
        peaks = {value: row["peak_memory_MiB"] for value, row in sweep.peaks(name, causal).items()}
        yield _finding(
            sweep,
            {**subject, "quantity": "memory"},
            list(peaks),
            _exact_steps(peaks),
            {"table": f"tables/{sweep.name}/runs.csv", "rows": rows},
            exact=True,
        )
