"""What a reader should take from a ladder of steps: what each one gains, and how fast the best is.

The steps are compared by the decisive metric, at the last value of the first experiment whose
implementations are steps; other values are in its table.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flashlab.analysis.conclusions.quoting import Known, Told, build_conclusion, in_units, tell
from flashlab.analysis.experiment import Experiment, ladder_of, step_metric
from flashlab.analysis.finding import Finding
from flashlab.analysis.ratios import rounded
from flashlab.analysis.series import Series
from flashlab.benchmarks.model import Metric
from flashlab.devices import find_device
from flashlab.telling.values import (
    InBrackets,
    Label,
    Listed,
    Measured,
    Range,
    Setting,
    Short,
    clauses,
    percent,
    say,
    setting,
    settings,
)

OUTCOMES = {
    "helps_at": "conclusion.each.step.helps",
    "hurts_at": "conclusion.each.step.hurts",
    "equal_at": "conclusion.each.step.no_difference",
    "undecided_at": "conclusion.each.step.inconclusive",
}
"""What a step does, by the parameter of a finding that lists the values where it does so."""

ALIKE = {
    "hurts_at": "conclusion.front.steps.hurts",
    "equal_at": "conclusion.front.steps.no_difference",
    "undecided_at": "conclusion.front.steps.inconclusive",
}
"""The message that names the steps that do the same wherever they were measured."""


def step_conclusions(known: Known) -> Iterator[Finding]:
    """The conclusions of page one on a ladder of steps."""
    experiment = ladder_of(known.experiments)
    assert experiment is not None
    every = (
        [*_whole(known, experiment)],
        [*_climb(known, experiment), *_top(known, experiment), *_first(experiment)],
        _verdicts(known, experiment),
    )
    for told in [without_times(known.experiments)] if experiment.is_simulated else every:
        if told:
            topic = told[0].key.rpartition(".")[2]
            about: dict[str, Any] = {"section": experiment.name, "metric": known.decisive.name}
            yield build_conclusion(topic, topic, told, **about)


def _medians(experiment: Experiment, value: int, metric: Metric | None = None) -> dict[str, float]:
    """A metric, the decisive one, of every step that has it at a value, in the steps' order."""
    measured = metric or step_metric(experiment)
    along = {
        name: Series(experiment, name, experiment.variants[0], measured).medians
        for name in experiment.step_names
    }
    return {name: medians[value] for name, medians in along.items() if value in medians}


def _gain(experiment: Experiment, worse: float, better: float) -> float:
    """How many times as good the second median is."""
    return better / worse if step_metric(experiment).higher_is_better else worse / better


def _climb(known: Known, experiment: Experiment) -> Iterator[Told]:
    value = experiment.values[-1]
    medians = _medians(experiment, value)
    if len(medians) > 1:
        first, best = next(iter(medians)), _best(experiment, medians)
        yield tell(
            "conclusion.front.climb",
            sources=known.every("step", experiment, metric=known.decisive.name),
            climb_where=_where(experiment, best, value),
            climb_first=first,
            climb_best=best,
            climb_total=Short(_gain(experiment, medians[first], medians[best])),
            climb_before=in_units(medians[first]),
            climb_after=in_units(medians[best]),
            climb_unit=known.decisive.unit,
        )


def _whole(known: Known, experiment: Experiment) -> Iterator[Told]:
    """Who ends first as a whole program, what fills its time, and how the fastest kernel fares."""
    found = known.every("whole", experiment)
    if not found:
        return
    facts, unit = found[0].facts, experiment.benchmark.metric(found[0].subject["metric"]).unit
    best, *fastest = facts["told"]
    level = [name for name in facts["level"] if name != best["name"]]
    undecided = [name for name in facts["open"] if name not in (best["name"], *level)]
    yield tell(
        WHOLES[bool(level), bool(undecided)],
        sources=found,
        whole_where=_where(experiment, best["name"], facts["at"]),
        whole_best=best["name"],
        whole_time=in_units(best["median"]),
        whole_unit=unit,
        whole_level=Listed(level),
        whole_open=Listed(undecided),
    )
    for each in fastest:
        yield tell(
            "conclusion.front.whole.fastest",
            fastest=each["name"],
            fastest_time=in_units(each["median"]),
            fastest_unit=unit,
        )
    parts = []
    for each in (best, *fastest):
        longest = sorted(each["shares"].items(), key=lambda item: -item[1])[:LONGEST_PARTS]
        shares = [
            say(
                "conclusion.each.share",
                share_name=Label(experiment.benchmark.metric(name).labels),
                share_percent=percent(share),
            )
            for name, share in longest
        ]
        parts.append(say("conclusion.each.shares", shares_of=each["name"], shares=Listed(shares)))
    yield tell("conclusion.front.whole.parts", parts=clauses(parts))


def _best(experiment: Experiment, medians: Mapping[str, float]) -> str:
    choose = max if step_metric(experiment).higher_is_better else min
    return choose(medians, key=lambda name: medians[name])


def _verdicts(known: Known, experiment: Experiment) -> list[Told]:
    """Which steps of an experiment help, and what the others do in every experiment."""
    metric = known.decisive.name
    found = known.every("step", experiment, metric=metric)
    if not found:
        return []
    alike: dict[str, list[str]] = {key: [] for key in OUTCOMES}
    others: list[Told] = []
    for step in found:
        about = {"implementation": step.subject["implementation"], "other": step.subject["other"]}
        places = _places(known, known.every("step", *known.sections, metric=metric, **about))
        decided = places.keys() - {"undecided_at"} or places.keys()
        if len(decided) == 1:
            alike[next(iter(decided))].append(about["implementation"])
        if len(places) > 1:
            step_name, outcomes = about["implementation"], _outcomes(places)
            others.append(tell("conclusion.front.steps.mixed", step=step_name, outcomes=outcomes))
        if "helps_at" not in places:
            others += _elsewhere(known, experiment, about)
    counts = {"step_count": len(found), "helping": len(alike["helps_at"])}
    told = [tell("conclusion.front.steps", sources=found, **counts)]
    told += [tell(ALIKE[key], steps=Listed(alike[key])) for key in ALIKE if alike[key]]
    return [*told, *others]


def _places(known: Known, found: Sequence[Finding]) -> dict[str, list[Setting]]:
    """Where a step does what: by the keys of `OUTCOMES`, those where it does the least often first.

    A problem that several experiments have is there once for each name of it.
    """
    places: dict[str, dict[str, list[int]]] = {}
    for finding, key in itertools.product(found, OUTCOMES):
        at = places.setdefault(key, {})
        for value in finding.facts[key]:
            values = at.setdefault(known.experiment_of(finding).parameter.name, [])
            values += [value] if value not in values else []
    count = {key: sum(map(len, at.values())) for key, at in places.items()}
    return {
        key: settings(known.benchmark, {name: sorted(each) for name, each in places[key].items()})
        for key in sorted(places, key=lambda key: count[key])
        if count[key]
    }


def _outcomes(places: Mapping[str, list[Setting]]) -> Listed:
    """What a step does where; what it does most often, elsewhere."""
    told = []
    for key, at in places.items():
        where = say("conclusion.each.step.at", at=Listed(at))
        if len(places) > 1 and key == list(places)[-1]:
            where = say("conclusion.each.step.elsewhere")
        told.append(say(OUTCOMES[key], step_where=where))
    return Listed(told)


def _elsewhere(known: Known, experiment: Experiment, about: Mapping[str, str]) -> Iterator[Told]:
    """What a step does to the other metrics that it improves at the experiment's last value."""
    value = experiment.values[-1]
    for finding in known.every("step", experiment, **about):
        if value in finding.facts["helps_at"]:
            metric = experiment.benchmark.metric(str(finding.metric))
            found = known.every("step", *known.sections, metric=metric.name, **about)
            medians = _medians(experiment, value, metric)
            yield tell(
                "conclusion.front.steps.elsewhere",
                sources=found,
                else_step=about["implementation"],
                else_metric=Label(metric.labels),
                else_before=in_units(medians[about["other"]]),
                else_after=in_units(medians[about["implementation"]]),
                else_unit=metric.unit,
                else_at=setting(experiment.parameter, value),
                outcomes=_outcomes(_places(known, found)),
            )


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
        dtypes = [dtype for dtype in ("float32", "float16") if by_dtype.get(dtype, 0.0) >= rate]
        if found := [(by_dtype[dtype], dtype) for dtype in dtypes]:
            peak, dtype = min(found)
            return dtype, source, peak
    return None


LONGEST_PARTS = 2
"""Of how many parts of the whole time the share is told."""

WHOLES = {
    (False, False): "conclusion.front.whole",
    (True, False): "conclusion.front.whole.level.near",
    (False, True): "conclusion.front.whole.open.near",
    (True, True): "conclusion.front.whole.near",
}
"""What is told of the time of the whole process, by whether others are within the margin of the
best, and whether of any that is not decided."""

PEAKS = {
    "measured": "conclusion.front.top.measured",
    "data_sheet": "conclusion.front.top.data_sheet",
}


def _top(known: Known, experiment: Experiment) -> Iterator[Told]:
    """The best step's rate, which follows from the decisive metric, beside the device's peak."""
    value, base = experiment.values[-1], (known.decisive.name,)
    derived = [m for m in experiment.benchmark.metrics if m.derived and m.derived.of == base]
    rates = _medians(experiment, value, derived[0]) if derived else {}
    if not rates:
        return
    best = max(rates, key=lambda name: rates[name])
    near = [
        finding
        for finding in known.every("step", experiment, metric=known.decisive.name)
        if best in (finding.subject["implementation"], finding.subject["other"])
        and value in (*finding.facts["equal_at"], *finding.facts["undecided_at"])
    ]
    names = {f.subject[role] for f in near for role in ("implementation", "other")} | {best}
    yield tell(
        "conclusion.front.top",
        sources=near,
        top_names=Listed([name for name in rates if name in names]),
        top_rate=Measured(rounded(rates[best])),
        top_at=setting(experiment.parameter, value),
    )
    if peak := _peak(known, experiment, rates[best]):
        dtype, source, limit = peak
        yield tell(
            PEAKS[source],
            top_dtype=dtype,
            top_peak=Measured(rounded(limit)),
            top_percent=percent(rates[best] / limit),
        )
    # The unit of the device that it keeps busiest, by its counters in percent.
    run = experiment.run_at(best, experiment.variants[0], value)
    assert run is not None  # it has a rate
    counted, kind = experiment.counters_of(run, known.decisive.name), run["device"]
    units = [
        (counted[counter.quantity.name], counter.labels)
        for counter in experiment.benchmark.counters_on(kind).get(known.decisive.name, ())
        if counter.quantity.name.endswith("_activity") and counter.quantity.name in counted
    ]
    if units:
        most, labels = max(units, key=lambda unit: unit[0])
        yield tell(
            "conclusion.front.top.busiest",
            busiest=Label(labels),
            busiest_of=best,
            busiest_percent=Short(most),
        )


def _first(experiment: Experiment) -> Iterator[Told]:
    """The step before all others against the best one, at the last value where both are."""
    (start, _) = experiment.steps[0]
    for value in reversed(experiment.values):
        medians = _medians(experiment, value)
        if start in medians and len(medians) > 1:
            best = _best(experiment, medians)
            yield tell(
                "conclusion.front.start",
                start_name=start,
                start_best=best,
                start_factor=Short(_gain(experiment, medians[start], medians[best])),
                start_at=setting(experiment.parameter, value),
            )
            return


def without_times(experiments: Sequence[Experiment]) -> list[Told]:
    """The conclusion where a simulator ran everything: how many runs are correct, and no times."""
    runs = {experiment.key_of(run): run for experiment in experiments for run in experiment.runs}
    good = sum(run["status"] == "ok" for run in runs.values())
    return [tell("conclusion.front.simulated", simulated_ok=good, simulated_of=len(runs))]


def section_steps(experiment: Experiment) -> list[Told]:
    """What a section says of steps: from the first to the best. Page one tells of each step."""
    gains = []
    for value in experiment.values:
        medians = _medians(experiment, value)
        if len(medians) > 1:
            first, best = next(iter(medians)), _best(experiment, medians)
            start = experiment.baseline if experiment.baseline in medians else first
            gains.append((_gain(experiment, medians[start], medians[best]), start))
    if not gains:
        return [tell("conclusion.choice.missing", symbol=experiment.parameter.symbol)]
    least, most = min(gains)[0], max(gains)[0]
    return [
        tell(
            "conclusion.steps",
            steps_from=gains[-1][1],
            steps_range=Range(Short(least), Short(most)),
            steps_count=len(gains),
        )
    ]
