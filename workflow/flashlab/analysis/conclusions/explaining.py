"""What conclusions say of causes: what was counted of the runs, and where a baseline changes.

A cause explains the pass that it was counted of. What a variant changes is explained by what
changed in the pass that changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flashlab.analysis.conclusions.quoting import Known, Told, off_and_on, part_name, tell
from flashlab.analysis.counted_passes import EXCESS
from flashlab.analysis.experiment import Experiment, Variant, fixed_of, sections_of
from flashlab.analysis.finding import Finding
from flashlab.analysis.launched import CLASS_LABELS, by_class, read_kernels
from flashlab.analysis.ratios import rounded
from flashlab.analysis.select import MIN_CHOICES
from flashlab.telling.codes import by_code
from flashlab.telling.values import Listed, Measured, Short, Tellable, percent, say, settings

KERNEL_CAUSES = by_code(
    *("conclusion.cause.unfused", "conclusion.cause.memory_bound", "conclusion.cause.matrix_bound"),
    *("conclusion.cause.neither", "conclusion.cause.launch_bound"),
)
"""Verdicts of a cause that explain a time on a GPU, the most telling first."""

TELLING_CAUSES = (*KERNEL_CAUSES, "elementwise", "products", "fused")


def _telling_first(finding: Finding) -> tuple[int, float]:
    """By verdict, and then the pass that takes the greatest share of what bounds it."""
    busiest = max(finding.estimates[-1].get(f"{of}_percent", 0.0) for of in ("copy", "matrix"))
    return TELLING_CAUSES.index(finding.verdict), -busiest


def tell_cause(known: Known, experiments: Sequence[Experiment], *names: str) -> Iterator[Told]:
    """What was counted of a pass of the first of these of which anything was.

    It is the pass of the most telling verdict, where that holds.
    """
    every = (
        known.every("cause", *experiments, verdicts=TELLING_CAUSES, implementation=name)
        for name in names
    )
    finding = min(next(filter(None, every), ()), key=_telling_first, default=None)
    if finding is None:
        return
    figures, metric = finding.estimates[-1], known.benchmark.metric(str(finding.metric))

    def share(of: str) -> Short:
        return percent(figures[f"{of}_percent"] / 100)

    values: dict[str, Tellable] = {
        "cause_name": finding.subject["implementation"],
        "cause_metric": part_name(metric),
        "cause_where": Listed(settings(known.benchmark, _place(known, finding))),
        "cause_idle": share("idle"),
    }
    if "operators" in figures:  # counted by the profiler of a CPU
        yield _operators(finding, figures, values)
        return
    excess = figures["bytes"] / figures["compulsory_bytes"]
    key = KERNEL_CAUSES[finding.verdict]
    if finding.verdict == "neither" and figures["kernels"] > 1 and EXCESS.holds(excess):
        key = "conclusion.cause.neither.unfused"
    yield tell(
        key,
        sources=[finding],
        **values,
        cause_kernels=figures["kernels"],
        cause_gigabytes=Measured(rounded(figures["bytes"] / 1e9)),
        cause_excess=Short(excess),
        cause_copy=share("copy"),
        cause_matrix=share("matrix"),
    )


SHARES_OF_OPERATORS = {
    "product": "conclusion.each.share.product",
    "softmax": "conclusion.each.share.softmax",
    "elementwise": "conclusion.each.share.elementwise",
    "fused": "conclusion.each.share.fused",
}


def _operators(
    finding: Finding, figures: Mapping[str, Any], values: Mapping[str, Tellable]
) -> Told:
    """What a pass on a CPU spends its time in, the most first, without what takes none."""
    key = "conclusion.cause.operators"
    if finding.verdict == "launch_bound":
        key = "conclusion.cause.operators.launch_bound"
    elif finding.verdict == "fused" and figures["operators"] == 1:
        key = "conclusion.cause.operators.fused"
    found = {of: figures[f"{of}_percent"] for of in SHARES_OF_OPERATORS}
    listed = [
        say(SHARES_OF_OPERATORS[of], share=percent(share / 100))
        for of, share in sorted(found.items(), key=lambda item: -item[1])
        if share >= 0.5
    ]
    return tell(key, sources=[finding], **values, cause_shares=Listed(listed))


def _place(known: Known, finding: Finding) -> dict[str, Any]:
    """The last value of a finding about a sweep, and what tells its runs from others of a section.

    That is the variant where the sweep has several, and in what the section's experiments differ.
    """
    experiment, value = known.experiment_of(finding), finding.estimates[-1]["value"]
    place = {experiment.parameter.name: value, **experiment.telling(finding.variant or ())}
    for group in sections_of(known.sections):
        if experiment.name in (each.name for each in group):
            others = [fixed_of(each) for each in group]
            for name, mine in fixed_of(experiment).items():
                if any(other.get(name) != mine for other in others):
                    place[name] = mine
    return place


def tell_changed_pass(
    known: Known,
    experiment: Experiment,
    effects: Mapping[str, Mapping[str, Finding]],
    names: Sequence[str],
    value: int,
) -> Iterator[Told]:
    """Of the first of these that a variant makes worse: the pass that changed, and what in it."""
    for name in sorted(names, key=lambda each: (each != experiment.baseline, each)):
        worse = {
            metric: estimate["estimate"]
            for metric, finding in effects[name].items()
            for estimate in finding.estimates
            if estimate["value"] == value and estimate["verdict"] == "below"
        }
        for metric in sorted(set(worse) & {m.name for m in known.parts}, key=worse.__getitem__):
            finding, about = effects[name][metric], {"implementation": name, "metric": metric}
            variants = off_and_on(experiment, finding)
            counted = [
                each
                for variant in variants
                for cause in known.every("cause", experiment, variant=dict(variant), **about)
                for each in cause.estimates
                if each["value"] == value and "kernels" in each
            ]
            if len(counted) < len(variants):
                continue
            before, after = counted
            grown = _grown(experiment, name, metric, variants, value)
            yield tell(
                "conclusion.variant.changed.kernels" if grown else "conclusion.variant.changed",
                sources=[finding],
                **grown,
                changed_name=name,
                changed_part=part_name(known.benchmark.metric(metric)),
                ms_before=Measured(rounded(before["milliseconds"])),
                ms_after=Measured(rounded(after["milliseconds"])),
                kernels_before=before["kernels"],
                kernels_after=after["kernels"],
                gb_before=Measured(rounded(before["bytes"] / 1e9)),
                gb_after=Measured(rounded(after["bytes"] / 1e9)),
            )
            return


def _grown(
    experiment: Experiment, name: str, metric: str, variants: Sequence[Variant], value: int
) -> dict[str, Tellable]:
    """The class of kernels that takes most longer in a pass with a variant than without it."""
    times: list[dict[str, float]] = []
    for variant in variants:
        run = experiment.run_at(name, variant, value)
        if run is None or not run["kernels"]:
            return {}
        found = by_class(read_kernels(run["kernels"], metric))
        times.append({launched.kind: launched.milliseconds for launched in found})
    before, after = times
    more = {kind: time - before.get(kind, 0.0) for kind, time in after.items()}
    most = max(more, key=more.__getitem__)
    return {"grown_class": say(CLASS_LABELS[most]), "grown": Measured(rounded(more[most]))}


JUMPS = {"rises": "conclusion.jump.rises", "falls": "conclusion.jump.falls"}


def tell_jump(known: Known, experiments: Sequence[Experiment]) -> Iterator[Told]:
    """Where the baseline's rate changes from one value to the next, and so every ratio to it.

    Not where a derived size, such as the head dimension, changes too, nor of two implementations,
    whose ratios say so themselves.
    """
    plain = [e for e in experiments if not {p.derive for p in e.varying} - {None}]
    found = [
        finding
        for each in plain
        for finding in known.every("jump", each, verdicts=JUMPS, implementation=each.baseline)
    ]
    others = {name for experiment in plain for name in experiment.implementations}
    if found and len(others) >= MIN_CHOICES:
        most = max(found, key=lambda f: abs(float(f.facts["ratio"]) - 1))
        said = most.statements[0].values
        yield tell(
            JUMPS[most.verdict],
            sources=[most],
            jump_name=most.subject["implementation"],
            jump_part=part_name(known.benchmark.metric(str(most.metric))),
            symbol=known.experiment_of(most).parameter.symbol,
            before=said["before"],
            value=said["value"],
            jump=Short(most.facts["ratio"]),
        )
