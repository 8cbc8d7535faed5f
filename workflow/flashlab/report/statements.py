"""Findings as statements: the sentences, a mark where they are in doubt, links to the evidence."""

from __future__ import annotations

from collections.abc import Sequence

from flashlab.analysis.finding import Finding, Reason
from flashlab.benchmarks.model import Benchmark
from flashlab.report.data import ReportData
from flashlab.report.document import Conclusion, Link
from flashlab.telling.codes import STATUSES, WARNINGS, by_code
from flashlab.telling.values import Listed, Run, Tellable, in_turn, say, settings

DOUBTS = (
    *("cards_differ", "sittings_differ", "processes_differ", "shared_device", "throttled"),
    *("cpu_load", "simulated"),
)
"""The warnings that put a comparison in doubt, and not one record's precision alone."""

TOLD_ELSEWHERE = ("imported", "dips")
"""The warnings that a report tells as what they are: where the records come from, odd points."""

CHECKED = "conclusion.checked"

BRIEF_CHARACTERS = 150
"""How much of a section's conclusion page one quotes after its heading: whole sentences."""

REASONS = by_code(
    *("reason.ceiling_drifted", "reason.above_copy_rate", "reason.published_mean"),
    *("reason.needs_training", "reason.no_samples"),
)
"""The message for each reason that is about no run."""

NAMING = {
    "excluded": ("reason.excluded", "reason.excluded.many"),
    "missing": ("reason.missing", "reason.missing.many"),
    "incorrect": ("reason.incorrect", "reason.incorrect.many"),
    "worse": ("reason.worse", "reason.worse.many"),
}
"""Those for reasons that name runs, in the order in which they are stated: for a few, for many."""

MOST_NAMED = 8
"""Runs without numbers that a sentence names; the finding's reasons have them all."""


def told_reasons(benchmark: Benchmark, reasons: Sequence[Reason]) -> list[Tellable]:
    """What to know about a verdict, and the runs that it lacks."""
    found: list[Tellable] = [say(REASONS[r.code]) for r in reasons if r.run is None]
    for code, (few, many) in NAMING.items():
        runs = [_named(benchmark, r) for r in reasons if r.run is not None and r.code == code]
        if len(runs) > MOST_NAMED:
            named = Listed(runs[:MOST_NAMED])
            found.append(say(many, runs=named, more=len(runs) - MOST_NAMED))
        elif runs:
            found.append(say(few, runs=Listed(runs)))
    return found


def _named(benchmark: Benchmark, reason: Reason) -> Tellable:
    """The run of a reason: ``Flash2 [N = 128, causal] (out of memory)``."""
    run = dict(reason.run or {})
    given: list[Tellable] = [*settings(benchmark, run)]
    given += [run[key] for key in ("dtype", "device") if key in run]
    name = Run(run["implementation"], given)
    if reason.status is None:
        return name
    return say("reason.run", run=name, status=say(STATUSES[reason.status]))


def sentences(data: ReportData, finding: Finding) -> list[Tellable]:
    """A finding's sentences one by one, and at the end what to know about it."""
    return [*finding.statements, *told_reasons(data.benchmark, finding.reasons)]


# Conclusions


def render_conclusion(data: ReportData, finding: Finding) -> Conclusion:
    """A conclusion in words; what was looked for and not found stands apart."""
    checked = next((told for told in finding.statements if told.key == CHECKED), None)
    heading, *others = (told for told in finding.statements if told is not checked)
    body = [*others, *told_reasons(data.benchmark, finding.reasons), *_doubts_of(data, finding)]
    body += _dips_in(data, finding)
    if finding.rank == 0 and data.is_imported:
        body += [told for found in data.of_kind("processes") for told in found.statements]
    brief = _brief(data, others)
    return Conclusion(
        heading=heading,
        body=in_turn(body) if body else None,
        brief=brief,
        brief_length=sum(map(len, data.told(brief))) if brief else 0,
        checked=checked,
        links=_conclusion_links(data, finding),
        implementations=sorted(finding.implementations),
    )


def _conclusion_links(data: ReportData, finding: Finding) -> list[Link]:
    """Links from a conclusion of page one to what shows it; a section's stands beside it."""
    section = finding.subject.get("section")
    if finding.experiment is not None:
        return []
    if finding.subject["topic"] == "choice":
        return [Link("map", say("link.map"))]
    return [
        Link(f"chapter-{group[0].name}", say("table", number=number))
        for number, group in data.chapters
        if any(experiment.name == section for experiment in group)
    ]


def _doubts_of(data: ReportData, finding: Finding) -> list[Tellable]:
    """The warnings that no conclusion before it has, page one's being the first.

    Those that put comparisons in doubt come first, then those of single records' precision; each
    with how many runs carry it by themselves.
    """
    told = [f for f in data.of_kind("conclusion") if f.verdict != "map"]
    told.sort(key=lambda f: (f.rank is None, f.rank))
    before = {code for f in told[: told.index(finding)] for code in f.warnings}
    new = [code for code in finding.warnings if code not in (*before, *TOLD_ELSEWHERE)]

    def counted(code: str) -> Tellable:
        count, warning = len(data.warned.get(code, ())), say(WARNINGS[code])
        if not count:
            return warning
        return say("warned.counted", warning=warning, count=count, total=len(data.runs))

    doubts = [counted(code) for code in DOUBTS if code in new]
    others = [counted(code) for code in new if code not in DOUBTS]
    lists = {"warned.here": doubts, "warned.others": others}
    return [say(key, warnings=Listed(listed)) for key, listed in lists.items() if listed]


def _dips_in(data: ReportData, finding: Finding) -> list[Tellable]:
    """What is to be known of runs that are slower than their neighbours allow.

    Of those of a section, which tells its own in full; page one's first conclusion names all.
    """
    if finding.experiment is None and finding.rank != 0:
        return []
    told: list[Tellable] = []
    for dip in data.of_kind("anomaly"):
        if dip.facts.get("sign") != "dips":
            continue
        at_home = data.experiment(dip.experiment)
        shown = data.experiment(finding.experiment) if finding.experiment else at_home
        run = data.run_of(dip, dip.facts["value"])
        if finding.experiment == at_home.name:
            told += dip.statements
        elif any(shown.key_of(run) == shown.key_of(own) for own in shown.runs):
            told.append(
                say(
                    "anomaly.dips.elsewhere",
                    implementation=run["implementation"],
                    symbol=shown.parameter.symbol,
                    value=shown.value_of(run),
                    number=data.ordinals[at_home.name],
                )
            )
    return [each for i, each in enumerate(told) if each not in told[:i]]


def _brief(data: ReportData, sentences: Sequence[Tellable]) -> Tellable | None:
    """The first sentences that fit, one at least; None where there are none."""
    brief: Tellable | None = None
    for count in range(1, len(sentences) + 1):
        more = in_turn(sentences[:count])
        if brief is not None and max(map(len, data.told(more))) > BRIEF_CHARACTERS:
            break
        brief = more
    return brief
