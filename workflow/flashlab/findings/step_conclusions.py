"""What a reader should take from a ladder of steps: what each one gains, and how fast the best is.

The steps are compared by the decisive metric, at the last value of the first experiment whose
implementations are steps; other values are in its table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flashlab.devices import find_device
from flashlab.findings.conclusion_parts import (
    Known,
    Statement,
    build_conclusion,
    in_percent,
    in_short,
    median_at,
)
from flashlab.findings.model import Finding
from flashlab.findings.ratios import rounded
from flashlab.sweep import Sweep, step_metric

VERDICTS = ("helps", "hurts", "no_difference", "mixed", "inconclusive")

DECIDED_AT = {"helps": "helps_at", "hurts": "hurts_at", "no_difference": "equal_at"}
"""The parameter of a finding that lists the values where a verdict was reached."""


def ladder_of(known: Known) -> Sweep | None:
    """The first experiment of a section whose implementations are steps; None for none."""
    return next((s for s in known.sweeps if s.steps and not s.is_summary), None)


def step_conclusions(known: Known) -> Iterator[Finding]:
    """The conclusions of page one on a ladder of steps."""
    sweep = ladder_of(known)
    assert sweep is not None
    every = (_climb(known, sweep), _verdicts(known, sweep), _top(sweep), _first(sweep))
    for told in [without_times(known.sweeps)] if sweep.is_simulated else every:
        if told:
            topic = told[0].key.rpartition(".")[2]
            yield build_conclusion(
                known.sweeps,
                topic,
                topic,
                told,
                experiment=None,
                subject={"section": sweep.name, "metric": step_metric(sweep).name},
            )


def _medians(sweep: Sweep, value: int) -> dict[str, float]:
    """The decisive metric of every step that has it at a value, in the order of the steps."""
    (variant,) = sweep.variants[:1]
    metric = step_metric(sweep)
    names = list(dict.fromkeys(name for pair in sweep.steps for name in pair))
    found = {name: median_at(sweep, name, variant, value, metric.name) for name in names}
    return {name: median for name, median in found.items() if median is not None}


def _gain(sweep: Sweep, worse: float, better: float) -> float:
    """How many times as good the second median is."""
    return better / worse if step_metric(sweep).higher_is_better else worse / better


def _climb(known: Known, sweep: Sweep) -> list[Statement]:
    value = sweep.values[-1]
    medians = _medians(sweep, value)
    if len(medians) < 2:
        return []
    first = next(iter(medians))
    best = _best(sweep, medians)
    found = known.every("step", sweep.name, metric=step_metric(sweep).name)
    climbed = [
        {"name": finding.subject["implementation"], "factor": in_short(estimate["estimate"])}
        for finding in found
        for estimate in finding.estimates
        if estimate["value"] == value
    ]
    params: dict[str, Any] = {
        "climb_first": first,
        "climb_best": best,
        "climb_total": in_short(_gain(sweep, medians[first], medians[best])),
        "climb_at": value,
        "climb_symbol": sweep.parameter.symbol,
    }
    return [
        Statement("conclusion.front.climb", params, found),
        Statement("conclusion.front.climb.steps", {"climb": climbed}),
    ]


def _best(sweep: Sweep, medians: Mapping[str, float]) -> str:
    choose = max if step_metric(sweep).higher_is_better else min
    return choose(medians, key=lambda name: medians[name])


def _verdicts(known: Known, sweep: Sweep) -> list[Statement]:
    """Which steps help, which make no difference, and which hurt."""
    found = known.every("step", sweep.name, metric=step_metric(sweep).name)
    by_verdict: dict[str, list[str]] = {verdict: [] for verdict in VERDICTS}
    for finding in found:
        by_verdict[_decided_verdict(finding)].append(finding.subject["implementation"])
    if not found:
        return []
    told = [
        Statement(
            "conclusion.front.steps",
            {"step_count": len(found), "helping": len(by_verdict["helps"])},
            found,
        )
    ]
    told += [
        Statement(f"conclusion.front.steps.{verdict}", {f"steps_{verdict}": names})
        for verdict, names in by_verdict.items()
        if names and verdict not in ("helps", "inconclusive")
    ]
    undecided = [finding for finding in found if finding.params["undecided_at"]]
    by_verdict["in_part"] = [
        name
        for finding in undecided
        if (name := finding.subject["implementation"]) not in by_verdict["inconclusive"]
    ]
    few = ".few" if all(_has_few_calls(finding) for finding in undecided) else ""
    told += [
        Statement(f"conclusion.front.steps.{which}{few}", {f"steps_{which}": names})
        for which in ("inconclusive", "in_part")
        if (names := by_verdict[which])
    ]
    moved = [finding for finding in found if "counter" in finding.params]
    if moved:
        most = max(moved, key=lambda finding: float(finding.params["high"]))
        quoted = {k: v for k, v in most.params.items() if k.startswith("counter")}
        quoted["counter_step"] = most.subject["implementation"]
        told.append(Statement("conclusion.front.steps.counter", quoted))
    else:
        told.append(Statement("conclusion.front.steps.uncounted"))
    return told


def _decided_verdict(finding: Finding) -> str:
    """The verdict that a step has wherever it is decided; ``mixed`` where it has several."""
    decided = [verdict for verdict, at in DECIDED_AT.items() if finding.params[at]]
    if not decided:
        return "inconclusive"
    return decided[0] if len(decided) == 1 else "mixed"


def _has_few_calls(finding: Finding) -> bool:
    """Whether a step is undecided only where too few calls were timed for an interval."""
    undecided_at = finding.params["undecided_at"]
    return all(e["low"] is None for e in finding.estimates if e["value"] in undecided_at)


def _rates(sweep: Sweep, value: int) -> dict[str, float]:
    """What follows from the decisive metric as a rate, by step."""
    (variant,) = sweep.variants[:1]
    metric = step_metric(sweep)
    rate = next(
        (m for m in sweep.benchmark.metrics if m.derived and m.derived.of == (metric.name,)), None
    )
    if rate is None:
        return {}
    names = _medians(sweep, value)
    found = {name: median_at(sweep, name, variant, value, rate.name) for name in names}
    return {name: median for name, median in found.items() if median is not None}


def _top(sweep: Sweep) -> list[Statement]:
    """The best step's rate beside the device's peak rates."""
    value = sweep.values[-1]
    rates = _rates(sweep, value)
    if not rates:
        return []
    best = max(rates, key=lambda name: rates[name])
    params: dict[str, Any] = {
        "top_name": best,
        "top_rate": rounded(rates[best]),
        "top_at": value,
        "top_symbol": sweep.parameter.symbol,
    }
    told = [Statement("conclusion.front.top", params)]
    device = find_device(sweep.device)
    if device:
        peaks = device.peak_tflops
        told.append(
            Statement(
                "conclusion.front.top.peak",
                {
                    "top_fp32": peaks["float32"],
                    "top_fp32_percent": in_percent(rates[best] / peaks["float32"]),
                    "top_fp16_percent": in_percent(rates[best] / peaks["float16"]),
                },
            )
        )
    busiest = _busiest(sweep, best, value)
    if busiest:
        told.append(Statement("conclusion.front.top.busiest", busiest))
    return told


def _busiest(sweep: Sweep, name: str, value: int) -> dict[str, Any]:
    """The unit of the device that a step keeps busiest, by its counters in percent."""
    (variant,) = sweep.variants[:1]
    run = sweep.run_at(name, variant, value)
    if run is None:
        return {}
    metric = step_metric(sweep)
    counted = sweep.counters_of(run, metric.name)
    units = [
        counter
        for counter in sweep.benchmark.counters_on(run["device"]).get(metric.name, ())
        if counter.quantity.name.endswith("_activity") and counter.quantity.name in counted
    ]
    if not units:
        return {}
    busiest = max(units, key=lambda counter: counted[counter.quantity.name])
    return {
        "busiest": dict(busiest.labels),
        "busiest_percent": in_short(counted[busiest.quantity.name]),
    }


def _first(sweep: Sweep) -> list[Statement]:
    """The step before all others against the best one, wherever both have numbers."""
    found: list[tuple[int, float, str]] = []
    (start, _) = sweep.steps[0]
    for value in sweep.values:
        medians = _medians(sweep, value)
        if start in medians and len(medians) > 1:
            best = _best(sweep, medians)
            found.append((value, _gain(sweep, medians[start], medians[best]), best))
    if not found:
        return []
    value, factor, best = found[-1]
    return [
        Statement(
            "conclusion.front.start",
            {
                "start_name": start,
                "start_best": best,
                "start_factor": in_short(factor),
                "start_at": value,
                "start_symbol": sweep.parameter.symbol,
            },
        )
    ]


def without_times(sweeps: Sequence[Sweep]) -> list[Statement]:
    """The conclusion where a simulator ran everything: how many runs are correct, and no times."""
    runs = {sweep.key_of(run): run for sweep in sweeps for run in sweep.runs}
    good = sum(run["status"] == "ok" for run in runs.values())
    params = {"simulated_ok": good, "simulated_of": len(runs)}
    return [Statement("conclusion.front.simulated", params)]


def section_steps(known: Known, sweep: Sweep) -> list[Statement]:
    """What a section says of steps: from the first to the best at each value, and each verdict."""
    gains = []
    for value in sweep.values:
        medians = _medians(sweep, value)
        if len(medians) > 1:
            start = next((name for name in medians if name == sweep.baseline), next(iter(medians)))
            gains.append((_gain(sweep, medians[start], medians[_best(sweep, medians)]), start))
    if not gains:
        return [Statement("conclusion.choice.missing")]
    least, most = min(gains)[0], max(gains)[0]
    params = {
        "steps_from": gains[-1][1],
        "steps_low": in_short(least),
        "steps_high": in_short(most),
        "steps_count": len(gains),
    }
    return [Statement("conclusion.steps", params), *_verdicts(known, sweep)[1:]]
