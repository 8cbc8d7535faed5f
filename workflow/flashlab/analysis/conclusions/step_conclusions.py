"""What a reader should take from a ladder of steps: what each one gains, and how fast the best is.

The steps are compared by the decisive metric, at the last value of the first experiment whose
implementations are steps; other values are in its table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from flashlab.analysis.conclusions.quoting import Known, Told, build_conclusion, median_at, tell
from flashlab.analysis.experiment import Sweep, step_metric
from flashlab.analysis.finding import Finding
from flashlab.analysis.ratios import rounded
from flashlab.benchmarks.model import Metric
from flashlab.devices import find_device
from flashlab.telling.values import (
    Label,
    Listed,
    Measured,
    Range,
    Short,
    Statement,
    Within,
    percent,
)

VERDICTS = ("helps", "hurts", "no_difference", "mixed", "inconclusive")

TOLD_OF_STEPS = {
    "hurts": ("conclusion.front.steps.hurts", "steps_hurts"),
    "no_difference": ("conclusion.front.steps.no_difference", "steps_no_difference"),
    "mixed": ("conclusion.front.steps.mixed", "steps_mixed"),
}
"""By verdict the message that names the steps, and what it calls them."""

UNDECIDED_STEPS = {
    "inconclusive": (
        ("conclusion.front.steps.inconclusive", "conclusion.front.steps.inconclusive.few"),
        "steps_inconclusive",
    ),
    "in_part": (
        ("conclusion.front.steps.in_part", "conclusion.front.steps.in_part.few"),
        "steps_in_part",
    ),
}
"""The same of undecided steps, with the message where too few calls were timed."""

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
            metric = step_metric(sweep).name
            yield build_conclusion(topic, topic, told, section=sweep.name, metric=metric)


def _medians(sweep: Sweep, value: int, metric: Metric | None = None) -> dict[str, float]:
    """A metric, the decisive one, of every step that has it at a value, in the steps' order."""
    variant, measured = sweep.variants[0], (metric or step_metric(sweep)).name
    names = dict.fromkeys(name for pair in sweep.steps for name in pair)
    medians = {name: median_at(sweep, name, variant, value, measured) for name in names}
    return {name: median for name, median in medians.items() if median is not None}


def _gain(sweep: Sweep, worse: float, better: float) -> float:
    """How many times as good the second median is."""
    return better / worse if step_metric(sweep).higher_is_better else worse / better


def _climb(known: Known, sweep: Sweep) -> list[Told]:
    value = sweep.values[-1]
    medians = _medians(sweep, value)
    if len(medians) < 2:
        return []
    first = next(iter(medians))
    best = _best(sweep, medians)
    found = known.every("step", sweep.name, metric=step_metric(sweep).name)
    climbed = [
        f"{finding.subject['implementation']} {Short(estimate['estimate']).text}×"
        for finding in found
        for estimate in finding.estimates
        if estimate["value"] == value
    ]
    return [
        tell(
            "conclusion.front.climb",
            sources=found,
            climb_first=first,
            climb_best=best,
            climb_total=Short(_gain(sweep, medians[first], medians[best])),
            climb_at=value,
            climb_symbol=sweep.parameter.symbol,
        ),
        tell("conclusion.front.climb.steps", climb=Listed(climbed)),
    ]


def _best(sweep: Sweep, medians: Mapping[str, float]) -> str:
    choose = max if step_metric(sweep).higher_is_better else min
    return choose(medians, key=lambda name: medians[name])


def _verdicts(known: Known, sweep: Sweep) -> list[Told]:
    """Which steps help, which make no difference, and which hurt."""
    found = known.every("step", sweep.name, metric=step_metric(sweep).name)
    by_verdict: dict[str, list[str]] = {verdict: [] for verdict in VERDICTS}
    for finding in found:
        by_verdict[_decided_verdict(finding)].append(finding.subject["implementation"])
    if not found:
        return []
    counts = {"step_count": len(found), "helping": len(by_verdict["helps"])}
    told = [tell("conclusion.front.steps", sources=found, **counts)]
    told += [
        Told(Statement(key, {name: Listed(by_verdict[verdict])}))
        for verdict, (key, name) in TOLD_OF_STEPS.items()
        if by_verdict[verdict]
    ]
    undecided = [finding for finding in found if finding.facts["undecided_at"]]
    by_verdict["in_part"] = [
        name
        for finding in undecided
        if (name := finding.subject["implementation"]) not in by_verdict["inconclusive"]
    ]
    few = all(_has_few_calls(finding) for finding in undecided)
    told += [
        Told(Statement(keys[few], {name: Listed(by_verdict[which])}))
        for which, (keys, name) in UNDECIDED_STEPS.items()
        if by_verdict[which]
    ]
    told.append(_tell_counter(found))
    return told


def _tell_counter(found: Sequence[Finding]) -> Told:
    """The counter that changed with the step that gains most of those with a changed counter."""
    moved = [finding for finding in found if "moved" in finding.facts]
    if not moved:
        return tell("conclusion.front.steps.uncounted")
    most = max(moved, key=lambda finding: float(finding.facts["high"]))
    counter = most.facts["moved"]
    return tell(
        "conclusion.front.steps.counter",
        counter_step=most.subject["implementation"],
        counter=Within(counter["counter"]),
        counter_unit=counter["unit"],
        counter_before=Measured(counter["before"]),
        counter_after=Measured(counter["after"]),
    )


def _decided_verdict(finding: Finding) -> str:
    """The verdict that a step has wherever it is decided; ``mixed`` where it has several."""
    decided = [verdict for verdict, at in DECIDED_AT.items() if finding.facts[at]]
    if not decided:
        return "inconclusive"
    return decided[0] if len(decided) == 1 else "mixed"


def _has_few_calls(finding: Finding) -> bool:
    """Whether a step is undecided only where too few calls were timed for an interval."""
    undecided_at = finding.facts["undecided_at"]
    return all(e["low"] is None for e in finding.estimates if e["value"] in undecided_at)


def _top(sweep: Sweep) -> list[Told]:
    """The best step's rate, which follows from the decisive metric, beside the device's peaks."""
    value, base = sweep.values[-1], (step_metric(sweep).name,)
    derived = [m for m in sweep.benchmark.metrics if m.derived and m.derived.of == base]
    rates = _medians(sweep, value, derived[0]) if derived else {}
    if not rates:
        return []
    best = max(rates, key=lambda name: rates[name])
    told = [
        tell(
            "conclusion.front.top",
            top_name=best,
            top_rate=Measured(rounded(rates[best])),
            top_at=value,
            top_symbol=sweep.parameter.symbol,
        )
    ]
    device = find_device(sweep.device)
    if device:
        peaks = device.peak_tflops
        told.append(
            tell(
                "conclusion.front.top.peak",
                top_fp32=Measured(peaks["float32"]),
                top_fp32_percent=percent(rates[best] / peaks["float32"]),
                top_fp16_percent=percent(rates[best] / peaks["float16"]),
            )
        )
    return [*told, *_tell_busiest(sweep, best, value)]


def _tell_busiest(sweep: Sweep, name: str, value: int) -> Iterator[Told]:
    """The unit of the device that a step keeps busiest, by its counters in percent."""
    run = sweep.run_at(name, sweep.variants[0], value)
    if run is None:
        return
    metric = step_metric(sweep)
    counted = sweep.counters_of(run, metric.name)
    units = [
        counter
        for counter in sweep.benchmark.counters_on(run["device"]).get(metric.name, ())
        if counter.quantity.name.endswith("_activity") and counter.quantity.name in counted
    ]
    if units:
        busiest = max(units, key=lambda counter: counted[counter.quantity.name])
        yield tell(
            "conclusion.front.top.busiest",
            busiest=Within(Label(busiest.labels)),
            busiest_percent=Short(counted[busiest.quantity.name]),
        )


def _first(sweep: Sweep) -> list[Told]:
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
    symbol = sweep.parameter.symbol
    return [
        tell(
            "conclusion.front.start",
            start_name=start,
            start_best=best,
            start_factor=Short(factor),
            start_at=value,
            start_symbol=symbol,
        )
    ]


def without_times(sweeps: Sequence[Sweep]) -> list[Told]:
    """The conclusion where a simulator ran everything: how many runs are correct, and no times."""
    runs = {sweep.key_of(run): run for sweep in sweeps for run in sweep.runs}
    good = sum(run["status"] == "ok" for run in runs.values())
    return [tell("conclusion.front.simulated", simulated_ok=good, simulated_of=len(runs))]


def section_steps(known: Known, sweep: Sweep) -> list[Told]:
    """What a section says of steps: from the first to the best at each value, and each verdict."""
    gains = []
    for value in sweep.values:
        medians = _medians(sweep, value)
        if len(medians) > 1:
            start = next((name for name in medians if name == sweep.baseline), next(iter(medians)))
            gains.append((_gain(sweep, medians[start], medians[_best(sweep, medians)]), start))
    if not gains:
        return [tell("conclusion.choice.missing", symbol=sweep.parameter.symbol)]
    least, most = min(gains)[0], max(gains)[0]
    headed = tell(
        "conclusion.steps",
        steps_from=gains[-1][1],
        steps_range=Range(Short(least), Short(most)),
        steps_count=len(gains),
    )
    return [headed, *_verdicts(known, sweep)[1:]]
