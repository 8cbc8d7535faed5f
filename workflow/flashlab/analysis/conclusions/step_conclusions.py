"""What a reader should take from a ladder of steps: what each one gains, and how fast the best is.

The steps are compared by the decisive metric, at the last value of the first experiment whose
implementations are steps; other values are in its table.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from flashlab.analysis.conclusions.quoting import (
    Known,
    Told,
    build_conclusion,
    in_units,
    median_at,
    tell,
)
from flashlab.analysis.experiment import Experiment, step_metric
from flashlab.analysis.finding import Finding
from flashlab.analysis.ratios import rounded
from flashlab.benchmarks.model import Metric
from flashlab.devices import find_device
from flashlab.telling.values import (
    InBrackets,
    Label,
    Listed,
    Measured,
    Range,
    Short,
    Statement,
    Within,
    percent,
    say,
    settings,
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


def ladder_of(known: Known) -> Experiment | None:
    """The first experiment of a section whose implementations are steps; None for none."""
    return next((s for s in known.experiments if s.steps and not s.is_summary), None)


def step_conclusions(known: Known) -> Iterator[Finding]:
    """The conclusions of page one on a ladder of steps."""
    experiment = ladder_of(known)
    assert experiment is not None
    every = (
        _whole(known, experiment),
        _climb(known, experiment),
        _verdicts(known, experiment),
        _top(known, experiment),
        _first(experiment),
    )
    for told in [without_times(known.experiments)] if experiment.is_simulated else every:
        if told:
            topic = told[0].key.rpartition(".")[2]
            metric = step_metric(experiment).name
            yield build_conclusion(topic, topic, told, section=experiment.name, metric=metric)


def _medians(experiment: Experiment, value: int, metric: Metric | None = None) -> dict[str, float]:
    """A metric, the decisive one, of every step that has it at a value, in the steps' order."""
    variant, measured = experiment.variants[0], (metric or step_metric(experiment)).name
    names = dict.fromkeys(name for pair in experiment.steps for name in pair)
    medians = {name: median_at(experiment, name, variant, value, measured) for name in names}
    return {name: median for name, median in medians.items() if median is not None}


def _gain(experiment: Experiment, worse: float, better: float) -> float:
    """How many times as good the second median is."""
    return better / worse if step_metric(experiment).higher_is_better else worse / better


def _climb(known: Known, experiment: Experiment) -> list[Told]:
    value = experiment.values[-1]
    medians = _medians(experiment, value)
    if len(medians) < 2:
        return []
    first = next(iter(medians))
    best = _best(experiment, medians)
    found = known.every("step", experiment.name, metric=step_metric(experiment).name)
    return [
        tell(
            "conclusion.front.climb",
            sources=found,
            climb_where=_where(experiment, best, value),
            climb_first=first,
            climb_best=best,
            climb_total=Short(_gain(experiment, medians[first], medians[best])),
            climb_before=in_units(medians[first]),
            climb_after=in_units(medians[best]),
            climb_unit=step_metric(experiment).unit,
        )
    ]


def _whole(known: Known, experiment: Experiment) -> list[Told]:
    """Who ends first as a whole program, what fills its time, and how the fastest kernel fares."""
    found = known.every("whole", experiment.name)
    if not found:
        return []
    facts, unit = found[0].facts, experiment.benchmark.metric(found[0].subject["metric"]).unit
    best, *fastest = facts["told"]
    near = [n for n in dict.fromkeys([*facts["level"], *facts["open"]]) if n != best["name"]]
    told = [
        tell(
            WHOLES[bool(near)],
            sources=found,
            whole_where=_where(experiment, best["name"], facts["at"]),
            whole_best=best["name"],
            whole_time=in_units(best["median"]),
            whole_unit=unit,
            whole_near=Listed(near),
        )
    ]
    for each in fastest:
        told.append(
            tell(
                "conclusion.front.whole.fastest",
                fastest=each["name"],
                fastest_time=in_units(each["median"]),
                fastest_unit=unit,
            )
        )
    longest: dict[str, list[Statement]] = {}
    for each in (best, *fastest):
        name, share = max(each["shares"].items(), key=lambda item: item[1])
        told_share = say(
            "conclusion.each.share", share_name=each["name"], share_percent=percent(share)
        )
        longest.setdefault(name, []).append(told_share)
    for name, shares in longest.items():
        part = Within(Label(experiment.benchmark.metric(name).labels))
        told.append(tell("conclusion.front.whole.part", part=part, shares=Listed(shares)))
    return told


def _best(experiment: Experiment, medians: Mapping[str, float]) -> str:
    choose = max if step_metric(experiment).higher_is_better else min
    return choose(medians, key=lambda name: medians[name])


def _verdicts(known: Known, experiment: Experiment) -> list[Told]:
    """Which steps help, which make no difference, and which hurt."""
    found = known.every("step", experiment.name, metric=step_metric(experiment).name)
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
    told += _elsewhere(known, experiment, by_verdict["no_difference"])
    told += _tell_counter(found)
    return told


def _elsewhere(known: Known, experiment: Experiment, names: Sequence[str]) -> Iterator[Told]:
    """What else steps improve that make no difference by the decisive metric."""
    value = experiment.values[-1]
    for name, finding in itertools.product(names, known.every("step", experiment.name)):
        if finding.subject["implementation"] == name and value in finding.facts["helps_at"]:
            metric = experiment.benchmark.metric(str(finding.metric))
            other = str(finding.subject["other"])
            before, after = (
                median_at(experiment, each, experiment.variants[0], value, metric.name)
                for each in (other, name)
            )
            assert before is not None and after is not None  # the step helps there
            yield tell(
                "conclusion.front.steps.elsewhere",
                sources=[finding],
                else_step=name,
                else_metric=Within(Label(metric.labels)),
                else_before=in_units(before),
                else_after=in_units(after),
                else_unit=metric.unit,
                else_at=value,
                else_symbol=experiment.parameter.symbol,
            )


def _tell_counter(found: Sequence[Finding]) -> list[Told]:
    """What fell most with the step that gains most, of those of which it was counted."""
    moved = [finding for finding in found if "moved" in finding.facts]
    if not moved:
        return [tell("conclusion.front.steps.uncounted")]
    most = max(moved, key=lambda finding: float(finding.facts["high"]))
    counter = most.facts["moved"]
    gain = next(e["estimate"] for e in most.estimates if e["value"] == counter["at"])
    return [
        tell(
            "conclusion.front.steps.counter",
            sources=[most],
            counter_step=most.subject["implementation"],
            counter_factor=Short(gain),
            counter=Within(counter["counter"]),
            counter_unit=counter["unit"],
            counter_before=Measured(counter["before"]),
            counter_after=Measured(counter["after"]),
        )
    ]


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


def _where(experiment: Experiment, name: str, value: int) -> Listed:
    """A problem by its name, with its sizes in brackets."""
    run = experiment.run_at(name, experiment.variants[0], value)
    assert run is not None  # it has a median
    benchmark, parameter = experiment.benchmark, experiment.parameter
    sizes = {p.name: run[p.name] for p in benchmark.given if p != parameter and not p.is_variant}
    named = settings(benchmark, {parameter.name: value})
    return Listed([*named, InBrackets(settings(benchmark, sizes))], "")


def _peak(known: Known, experiment: Experiment, rate: float) -> tuple[str, str, float] | None:
    """The lowest of the device's matrix-product rates that a rate does not exceed.

    Its dtype, whether it was measured or is the data sheet's, and the rate in TFLOP/s.
    """
    device = find_device(experiment.device)
    peaks = {"data_sheet": device.peak_tflops} if device else {}
    if known.ceilings is not None:
        measured = {dtype: each.rate / 1e12 for dtype, each in known.ceilings.matrix.items()}
        peaks = {"measured": measured, **peaks}
    for source, by_dtype in peaks.items():
        above = [(by_dtype[dtype], dtype) for dtype in ("float32", "float16") if dtype in by_dtype]
        found = [(peak, dtype) for peak, dtype in above if peak >= rate]
        if found:
            peak, dtype = min(found)
            return dtype, source, peak
    return None


WHOLES = {False: "conclusion.front.whole", True: "conclusion.front.whole.near"}
"""What is told of the time of the whole process, by whether others cannot be told from the best."""

PEAKS = {
    "measured": "conclusion.front.top.measured",
    "data_sheet": "conclusion.front.top.data_sheet",
}


def _top(known: Known, experiment: Experiment) -> list[Told]:
    """The best step's rate, which follows from the decisive metric, beside the device's peak."""
    value, base = experiment.values[-1], (step_metric(experiment).name,)
    derived = [m for m in experiment.benchmark.metrics if m.derived and m.derived.of == base]
    rates = _medians(experiment, value, derived[0]) if derived else {}
    if not rates:
        return []
    best = max(rates, key=lambda name: rates[name])
    told = [
        tell(
            "conclusion.front.top",
            top_name=best,
            top_rate=Measured(rounded(rates[best])),
            top_at=value,
            top_symbol=experiment.parameter.symbol,
        )
    ]
    if peak := _peak(known, experiment, rates[best]):
        dtype, source, limit = peak
        told.append(
            tell(
                PEAKS[source],
                top_dtype=dtype,
                top_peak=Measured(rounded(limit)),
                top_percent=percent(rates[best] / limit),
            )
        )
    return [*told, *_tell_busiest(experiment, best, value)]


def _tell_busiest(experiment: Experiment, name: str, value: int) -> Iterator[Told]:
    """The unit of the device that a step keeps busiest, by its counters in percent."""
    run = experiment.run_at(name, experiment.variants[0], value)
    if run is None:
        return
    metric = step_metric(experiment)
    counted = experiment.counters_of(run, metric.name)
    units = [
        counter
        for counter in experiment.benchmark.counters_on(run["device"]).get(metric.name, ())
        if counter.quantity.name.endswith("_activity") and counter.quantity.name in counted
    ]
    if units:
        busiest = max(units, key=lambda counter: counted[counter.quantity.name])
        yield tell(
            "conclusion.front.top.busiest",
            busiest=Within(Label(busiest.labels)),
            busiest_percent=Short(counted[busiest.quantity.name]),
        )


def _first(experiment: Experiment) -> list[Told]:
    """The step before all others against the best one, wherever both have numbers."""
    found: list[tuple[int, float, str]] = []
    (start, _) = experiment.steps[0]
    for value in experiment.values:
        medians = _medians(experiment, value)
        if start in medians and len(medians) > 1:
            best = _best(experiment, medians)
            found.append((value, _gain(experiment, medians[start], medians[best]), best))
    if not found:
        return []
    value, factor, best = found[-1]
    symbol = experiment.parameter.symbol
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


def without_times(experiments: Sequence[Experiment]) -> list[Told]:
    """The conclusion where a simulator ran everything: how many runs are correct, and no times."""
    runs = {experiment.key_of(run): run for experiment in experiments for run in experiment.runs}
    good = sum(run["status"] == "ok" for run in runs.values())
    return [tell("conclusion.front.simulated", simulated_ok=good, simulated_of=len(runs))]


def section_steps(known: Known, experiment: Experiment) -> list[Told]:
    """What a section says of steps: from the first to the best at each value, and each verdict.

    The verdicts of the experiment that page one is about stand there.
    """
    gains = []
    for value in experiment.values:
        medians = _medians(experiment, value)
        if len(medians) > 1:
            start = next(
                (name for name in medians if name == experiment.baseline), next(iter(medians))
            )
            gains.append(
                (_gain(experiment, medians[start], medians[_best(experiment, medians)]), start)
            )
    if not gains:
        return [tell("conclusion.choice.missing", symbol=experiment.parameter.symbol)]
    least, most = min(gains)[0], max(gains)[0]
    headed = tell(
        "conclusion.steps",
        steps_from=gains[-1][1],
        steps_range=Range(Short(least), Short(most)),
        steps_count=len(gains),
    )
    is_on_front = experiment is ladder_of(known)
    return [headed] if is_on_front else [headed, *_verdicts(known, experiment)[1:]]
