"""What is true of a planted dataset, and which of its findings are false or missing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from findings.planted import UNSTEADY, Key, Planted, sweep_shape, true_median

from flashlab.analysis.finding import Finding
from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape

MARGIN, BEND, OUTLIER = 0.05, 0.2, 1.25
MEMORY = "peak_memory"
L2_BYTES = 60 * 2**20
"""Of the device that is planted, an H200."""


def _pass(finding: Finding) -> str:
    return str(finding.metric).removesuffix("_time")


def _mask(finding: Finding) -> bool:
    causal: bool = finding.subject["variant"]["causal"]
    return causal


def _change(ratio: float) -> float:
    """A ratio or its inverse, whichever is above 1."""
    return max(ratio, 1 / ratio)


class Judge:
    """What is true of a planted dataset, and what of its findings is not."""

    def __init__(self, dataset: Planted, ceilings: dict[str, float]) -> None:
        self.dataset = dataset
        self.ceilings = ceilings
        self.times = {key: true_median(planted) for key, planted in dataset.passes.items()}

    def time(self, name: str, causal: bool, timed: str) -> dict[int, float]:
        """True milliseconds of the runs that are ok, by size."""
        return {
            shape.seq_len: time
            for (own, shape, own_pass), time in sorted(self.times.items())
            if (own, shape.causal, own_pass) == (name, causal, timed)
            and (own, shape) not in self.dataset.oom
        }

    def peak(self, name: str, causal: bool) -> dict[int, float]:
        """True MiB of the runs that are ok, by size."""
        return {
            shape.seq_len: peak
            for (own, shape), peak in sorted(self.dataset.peaks.items())
            if (own, shape.causal) == (name, causal) and (own, shape) not in self.dataset.oom
        }

    def ratio(
        self, above: tuple[str, bool], below: tuple[str, bool], timed: str
    ) -> dict[int, float]:
        a, b = (self.time(*side, timed) for side in (above, below))
        return {size: a[size] / b[size] for size in a if size in b}

    def _truth(self, finding: Finding) -> dict[int, float]:
        """True values of the metric and the series that a finding is about, by size."""
        name, causal = finding.subject["implementation"], _mask(finding)
        if finding.metric == MEMORY:
            return self.peak(name, causal)
        return self.time(name, causal, _pass(finding))

    # Each kind: whether it is false, whether it misses what is plain, and its intervals' truths

    def _difference(self, finding: Finding, truth: dict[int, float]) -> Any:
        params = finding.params
        false = (
            any(truth[size] <= 1 + MARGIN for size in params["better_at"])
            or any(truth[size] >= 1 / (1 + MARGIN) for size in params["worse_at"])
            or any(_change(truth[size]) > 1 + MARGIN for size in params["equal_at"])
        )
        trend = params.get("trend", "none")
        if trend != "none":
            ends = [truth[params["first"]], truth[params["last"]]]
            false |= {
                "widens": ends[1] / ends[0] <= 1 + MARGIN,
                "narrows": ends[0] / ends[1] <= 1 + MARGIN,
                "peaks": truth[params["high_at"]] <= max(ends) * (1 + MARGIN),
                "dips": truth[params["low_at"]] * (1 + MARGIN) >= min(ends),
            }[trend]
        plain = bool(truth) and all(_change(r) >= (1 + MARGIN) ** 2 for r in truth.values())
        found = set(params["better_at"]) | set(params["worse_at"])
        intervals = [(truth[e["value"]], e) for e in finding.estimates]
        return false, (found != set(truth)) if plain else None, intervals

    def comparison(self, finding: Finding) -> Any:
        subject = finding.subject
        causal, timed = _mask(finding), _pass(finding)
        sides = ((subject["baseline"], causal), (subject["implementation"], causal))
        return self._difference(finding, self.ratio(*sides, timed))

    def variant_effect(self, finding: Finding) -> Any:
        name, timed = finding.subject["implementation"], _pass(finding)
        return self._difference(finding, self.ratio((name, False), (name, True), timed))

    def crossover(self, finding: Finding) -> Any:
        subject, params = finding.subject, finding.params
        causal, timed = _mask(finding), _pass(finding)
        names = (subject["implementation"], subject["other"])
        truth = self.ratio((names[1], causal), (names[0], causal), timed)
        signs = [math.copysign(1, math.log(ratio)) for ratio in truth.values()]
        crosses = any(a != b for a, b in itertools.pairwise(signs))
        strong = [ratio for ratio in truth.values() if abs(math.log(ratio)) > math.log(1.1)]
        plain = min(strong, default=1) < 1 < max(strong, default=1)
        intervals = [(truth[e["value"]], e) for e in finding.estimates]
        false = False
        if finding.verdict == "crosses":
            sign = {names[0]: 1, names[1]: -1}
            false = any(
                sign[params[who]] * (truth[params[at]] - 1) <= 0
                for who, at in (("before", "low_at"), ("after", "high_at"))
            )
            false |= not crosses
        elif finding.verdict == "none_in_range":
            far = [ratio for ratio in truth.values() if _change(ratio) > 1 + MARGIN]
            false = min(far, default=1) < 1 < max(far, default=1)
        return false, (finding.verdict != "crosses") if plain else None, intervals

    def scaling(self, finding: Finding) -> Any:
        subject, verdict = finding.subject, finding.verdict
        if verdict in ("too_few_sizes", "covaried"):
            return False, None, []
        causal, memory, name = _mask(finding), finding.metric == MEMORY, subject["implementation"]
        truth = self._truth(finding)
        local = [
            math.log(truth[b] / truth[a]) / math.log(b / a) for a, b in itertools.pairwise(truth)
        ]
        bend = max(local) - min(local)
        exponent = self.dataset.exponents.get((name, causal, _pass(finding)))
        false = (
            (verdict in ("power_law", "flat") and bend > BEND)
            or (verdict == "curved" and max(local) - min(local) <= (0.1 if memory else BEND))
            or (verdict == "flat" and max(truth.values()) > min(truth.values()) * (1 + MARGIN))
        )
        missed = None
        if exponent is not None and bend <= BEND / 2:
            missed = verdict not in ("power_law", "flat")
        elif bend >= 2 * BEND:
            missed = verdict != "curved"
        found = finding.estimates[-1]
        known = exponent is not None and "exponent" in found
        return false, missed, [(exponent, found)] if known else []

    def monotonicity(self, finding: Finding) -> Any:
        verdict, params = finding.verdict, finding.params
        memory, truth = finding.metric == MEMORY, self._truth(finding)
        edge = 1.0 if memory else 1 + MARGIN
        steps = [truth[b] / truth[a] for a, b in itertools.combinations(truth, 2)]
        falls, rises = min(steps, default=1.0), max(steps, default=1.0)
        false = False
        if verdict == "broken":
            fall, rise = (
                truth[params[f"{name}_to"]] / truth[params[f"{name}_from"]]
                for name in ("fall", "rise")
            )
            false = fall >= 1 / edge or rise <= edge
        elif verdict == "monotone":
            false = {
                "rises": falls < 1 / edge,
                "falls": rises > edge,
                "level": falls < 1 / edge or rises > edge,
            }[params["direction"]]
        missed = None
        if falls < edge**-2 and rises > edge**2:
            missed = verdict != "broken"
        intervals = [(truth[e["value"]] / truth[e["start"]], e) for e in finding.estimates]
        return false, missed, [] if memory else intervals

    def exact_comparison(self, finding: Finding) -> Any:
        subject, verdict = finding.subject, finding.verdict
        mine, theirs = (
            self.peak(subject[who], _mask(finding)) for who in ("implementation", "baseline")
        )
        sides = {"less": [], "more": [], "equal": []}
        for size in mine:
            if size in theirs:
                share = float(f"{mine[size] / theirs[size]:.3g}")
                sides["less" if share < 1 else "more" if share > 1 else "equal"].append(size)
        false = finding.params.get("values", []) != sides.get(verdict, [])
        return false, false, []

    def out_of_memory(self, finding: Finding) -> Any:
        subject = finding.subject
        failed = sorted(
            shape.seq_len
            for name, shape in self.dataset.oom
            if (name, shape.causal) == (subject["implementation"], _mask(finding))
        )
        found = finding.params["failed"]
        return found != failed, (found != failed) if failed else None, []

    def roofline(self, finding: Finding) -> Any:
        subject, verdict = finding.subject, finding.verdict
        causal, timed = _mask(finding), _pass(finding)
        truth = self.time(subject["implementation"], causal, timed)
        false = False
        missed: bool | None = None
        intervals = []
        for estimate in finding.estimates:
            size = estimate["value"]
            shape = sweep_shape(size, causal)
            work = costs.flops(shape)[timed] / self.ceilings["rate"]
            if subject["implementation"] == "Pytorch":
                fewest = costs.naive_fewest_bytes(shape, "float16", L2_BYTES)[timed]
            else:
                fewest = costs.compulsory_bytes(shape, "float16")[timed]
            moved = fewest / self.ceilings["bandwidth"]
            matrix, copy = (100 * share * 1e3 / truth[size] for share in (work, moved))
            right = (
                "model_error"
                if matrix > 100
                else "neither"
                if max(matrix, copy) < 50
                else "compute_bound"
                if matrix >= copy
                else "memory_bound"
            )
            # Above 100% is called an error only where the interval is wholly above it.
            wrong = verdict != right and not (100 < matrix <= 105 and verdict != "neither")
            false |= wrong
            margins = [abs(matrix / 100 - 1), abs(max(matrix, copy) / 50 - 1)]
            if min(margins) > 2 * MARGIN and abs(matrix / copy - 1) > 2 * MARGIN:
                missed = bool(missed) or verdict != right
            intervals += [
                (matrix, estimate["matrix_percent"]),
                (copy, estimate["copy_percent"]),
            ]
        return false, missed, intervals


def anomalies(
    dataset: Planted, findings: Sequence[Finding]
) -> Iterator[tuple[str, bool, bool, bool | None]]:
    """For each pass and check: whether it was reported, falsely reported, or missed."""
    found = {
        (
            finding.verdict,
            finding.subject["implementation"],
            sweep_shape(finding.params["value"], _mask(finding)),
            _pass(finding),
        )
        for finding in findings
        if finding.kind == "anomaly" and finding.verdict != "none"
    }
    for key, planted in dataset.passes.items():
        if key[:2] in dataset.oom:
            continue
        unsteady = abs(planted.drift) > UNSTEADY or planted.spread > 0.2
        reported = ("unstable", *key) in found
        missed = not reported if unsteady else None
        yield "anomaly: unstable", reported, reported and not unsteady, missed
        factor = dataset.spikes.get(key, 1.0)
        reported = ("outlier", *key) in found
        plain = abs(math.log(factor)) > math.log(2 * OUTLIER - 1)
        missed = not reported if plain else None
        yield "anomaly: outlier", reported, reported and factor == 1.0, missed


def judge_claim(finding: Finding, dataset: Planted, times: dict[Key, float]) -> Any:
    """Whether a claim's verdict is false, whether it misses what is plain, and the intervals."""
    params, verdict = finding.params, finding.verdict
    least, most = params["wanted_least"] or 0.0, params["wanted_most"] or math.inf
    truths: dict[str, list[float]] = {}
    intervals = []
    for estimate in finding.estimates:
        values = []
        for name, shape in map(_parsed, estimate["runs"]):
            timed, _, quantity = estimate["metric"].rpartition("_")
            if estimate["metric"] == MEMORY:
                values.append(dataset.peaks[name, shape])
            elif quantity == "time":
                values.append(times[name, shape, timed])
            else:
                values.append(costs.flops(shape)[timed] / 1e9 / times[name, shape, timed])
        truth = _true_figure(values, estimate["compare"])
        truths.setdefault(estimate["compare"], []).append(truth)
        if estimate["metric"] != MEMORY and estimate["estimate"] is not None:
            intervals.append((truth, estimate))
    holds = {all(least <= truth <= most for truth in found) for found in truths.values()}
    false = {
        "confirmed": True not in holds,
        "contradicted": False not in holds,
        "ambiguous": len(holds) < 2,
    }.get(verdict, False)
    missed = None
    known = [truth for found in truths.values() for truth in found]
    if verdict != "other_device" and not any(map(math.isnan, known)):
        room = 1 + 2 * MARGIN
        plain = {
            "confirmed"
            if all(least * room <= truth <= most / room for truth in found)
            else "contradicted"
            if any(truth < least / room or truth > most * room for truth in found)
            else "open"
            for found in truths.values()
        }
        if plain and "open" not in plain:
            missed = verdict != (plain.pop() if len(plain) == 1 else "ambiguous")
    return false, missed, intervals


def _true_figure(values: Sequence[float], compare: str) -> float:
    """What a claim's test comes to; not a number where there is no rise to compare with."""
    if compare == "times":
        first, *others = values
        return first * math.prod(v**p for v, p in zip(others, (-1, -1, 1), strict=False))
    a, b, c, d = values
    return (a - b) / (c - d) if c > d else math.nan


def _parsed(run: str) -> tuple[str, Shape]:
    name, b, n, h, e, mask, *_ = run.split()
    return name, Shape(int(b[1:]), int(n[1:]), int(h[1:]), int(e[1:]), mask == "causal")


def differences(findings: Sequence[Finding]) -> int:
    """How many findings claim any difference between implementations, or between variants."""
    return sum(
        bool(finding.params.get("better_at") or finding.params.get("worse_at"))
        or finding.params.get("trend", "none") != "none"
        or finding.verdict == "crosses"
        for finding in findings
        if finding.kind in ("comparison", "variant_effect", "crossover")
    )
