"""Findings as statements: the sentences, a mark where they are in doubt, links to the evidence."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flashlab.analysis.experiment import Experiment, Row, sections_of
from flashlab.analysis.finding import Finding, Reason
from flashlab.benchmarks.model import Benchmark
from flashlab.report.data import ReportData
from flashlab.report.document import Conclusion, Link, PrintedStatement, Statements
from flashlab.telling.codes import STATUSES, WARNINGS, by_code
from flashlab.telling.values import Label, Listed, Run, Tellable, clauses, in_turn, say, settings

DOUBTS = (
    *("sittings_differ", "processes_differ", "shared_device", "throttled", "cpu_load"),
    *("simulated", "imported"),
)
"""The warnings that put a comparison in doubt, and not one record's precision alone."""

CHECKED = "conclusion.checked"

BRIEF_CHARACTERS = 150
"""How much of a section's conclusion page one quotes after its heading: whole sentences."""

SHOWN_BY_RATES = frozenset({"roofline", "variant_effect", "jump"})
"""Kinds of finding that relate times to the operations behind them."""


FIGURES_OF_MANY = 2
"""Figures of an experiment that are printed where its implementations are too many for all."""


MOST_RUNS = 2000
"""Runs of a report beyond which paper has one figure of each section."""


def printed_figures(data: ReportData, group: Sequence[Experiment]) -> list[tuple[str, str]]:
    """The figures of a section that are on paper, by experiment and id.

    All of one experiment with the headline's implementations alone, or of alternatives; the first
    ones of another; of several experiments the first one of each. One of each section where there
    are many runs.
    """
    figures = [
        [(experiment.name, figure["id"]) for figure in experiment.plan["figures"]]
        for experiment in group
    ]
    if len(data.runs) > MOST_RUNS:
        return next((each[:1] for each in figures if each), [])
    if len(group) > 1:
        return [figure for each in figures for figure in each[:1]]
    if set(data.implementations) <= set(data.headline) or group[0].has_alternatives:
        return figures[0]
    return figures[0][:FIGURES_OF_MANY]


def number_figures(data: ReportData) -> dict[tuple[str, str], str]:
    """Numbers of all figures, by experiment and id: 1, 2, … on paper.

    S1, S2, … are those that the configuration calls supplements, and then those that only the HTML
    page has, so that no number is missing on paper.
    """
    printed = [
        key for group in sections_of(data.experiments) for key in printed_figures(data, group)
    ]
    every = {
        (experiment.name, figure["id"]): figure["supplement"]
        for experiment in data.experiments
        for figure in experiment.plan["figures"]
    }
    main = [key for key in printed if not every[key]]
    others = [key for key in printed if every[key]] + [key for key in every if key not in printed]
    return {key: str(n) for n, key in enumerate(main, start=1)} | {
        key: f"S{n}" for n, key in enumerate(others, start=1)
    }


def row_id(experiment: Experiment, run: Row) -> str:
    """The anchor of a run's row in its experiment's table."""
    parts = (experiment.name, run["implementation"], *dict(experiment.variant_of(run)).values())
    return "-".join(map(str, ("row", *parts, experiment.value_of(run))))


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


class FindingRenderer:
    """Renders findings, and marks doubts with the letters a, b, … anew for each part."""

    def __init__(self, data: ReportData) -> None:
        self.data = data
        self.numbers = number_figures(data)

    def _quantities(self, finding: Finding) -> list[str]:
        """The quantities whose figures show a finding, the best one first.

        Its metric's, then those that follow from it, or the other way round for what is read off
        rates; all for a finding about no metric, the exact ones first.
        """
        benchmark = self.data.benchmark
        if finding.metric is None:
            ordered = sorted(benchmark.quantities.values(), key=lambda found: not found.exact)
            return [quantity.name for quantity in ordered]
        own = benchmark.metric(finding.metric).quantity.name
        following = [
            metric.quantity.name
            for metric in benchmark.metrics
            if metric.derived and finding.metric in metric.derived.of
        ]
        return [*following, own] if finding.kind in SHOWN_BY_RATES else [own, *following]

    def _figure(self, finding: Finding, experiment: Experiment) -> list[Link]:
        """The first figure that shows the finding for one of its implementations."""
        for quantity in self._quantities(finding):
            for figure in experiment.plan["figures"]:
                shown = finding.implementations & set(figure["implementations"])
                if figure["quantity"] == quantity and shown:
                    number = self.numbers[experiment.name, figure["id"]]
                    label = say("figure", number=number)
                    return [Link(f"figure-{number}", label)]
        return []

    def _rows(self, finding: Finding, experiment: Experiment) -> list[Row]:
        """The runs behind a finding: at the values that its facts name, if they name any."""
        names, variant = finding.implementations, finding.variant or ()
        values = finding.facts.get("values", experiment.values)
        return [
            run
            for run in experiment.ordered
            if (not names or run["implementation"] in names)
            and set(variant) <= set(experiment.variant_of(run))
            and experiment.value_of(run) in values
        ]

    def links(self, finding: Finding) -> list[Link]:
        """Links to the figure, the table's rows, and the runs in the appendix."""
        if finding.experiment is None:
            return self._dataset_links(finding)
        experiment = self.data.experiment(finding.experiment)
        rows = self._rows(finding, experiment)
        found = self._figure(finding, experiment)
        if rows and not experiment.is_summary:
            found.append(Link(row_id(experiment, rows[0]), say("link.table")))
        return found + self._run_links(rows)

    def sentences(self, finding: Finding) -> list[Tellable]:
        """A finding's sentences one by one, and at the end what to know about it."""
        return [*finding.statements, *told_reasons(self.data.benchmark, finding.reasons)]

    def _conclusion_links(self, finding: Finding) -> list[Link]:
        """Links from a conclusion of page one to what shows it; a section's stands beside it."""
        section = finding.subject.get("section")
        if finding.experiment is not None:
            return []
        if finding.subject["topic"] == "choice":
            return [Link("map", say("link.map"))]
        return [
            Link(f"chapter-{group[0].name}", say("table", number=number))
            for number, group in enumerate(sections_of(self.data.experiments), start=1)
            if any(experiment.name == section for experiment in group)
        ]

    def _run_links(self, rows: Iterable[Row]) -> list[Link]:
        """Links to runs in the appendix, of which the first says what they are."""
        runs = self.data.run_links(rows)
        return [Link(link.target, say("link.runs", runs=link.text)) for link in runs[:1]] + runs[1:]

    def _dataset_links(self, finding: Finding) -> list[Link]:
        """Links to the runs that the reasons of a finding about the whole dataset name."""
        named: dict[tuple[str, ...], set[tuple[Any, ...]]] = {}  # values by the columns they are of
        for reason in finding.reasons:
            if reason.run is not None:
                named.setdefault(tuple(reason.run), set()).add(tuple(reason.run.values()))
        return self._run_links(
            run
            for run in self.data.runs
            if any(tuple(map(run.get, columns)) in values for columns, values in named.items())
        )

    def conclusion(self, finding: Finding) -> Conclusion:
        """A conclusion in words; what was looked for and not found stands apart."""
        checked = next((told for told in finding.statements if told.key == CHECKED), None)
        heading, *others = (told for told in finding.statements if told is not checked)
        body = [*others, *told_reasons(self.data.benchmark, finding.reasons)]
        body += self._doubts_of(finding)
        brief = self._brief(others)
        return Conclusion(
            heading=heading,
            body=in_turn(body) if body else None,
            brief=brief,
            brief_length=sum(map(len, self.data.told(brief))) if brief else 0,
            checked=checked,
            links=self._conclusion_links(finding),
            implementations=tuple(sorted(finding.implementations)),
        )

    def _doubts_of(self, finding: Finding) -> list[Tellable]:
        """The warnings that no conclusion before it has, page one's being the first.

        Those that put comparisons in doubt come first, then those of single records' precision.
        """
        told = [f for f in self.data.findings if f.kind == "conclusion" and f.verdict != "map"]
        told.sort(key=lambda f: (f.rank is None, f.rank))
        before = {code for f in told[: told.index(finding)] for code in f.warnings}
        new = [code for code in finding.warnings if code not in before]
        doubts = [self._counted(code) for code in DOUBTS if code in new]
        others = [self._counted(code) for code in new if code not in DOUBTS]
        lists = {"warned.here": doubts, "warned.others": others}
        return [say(key, warnings=Listed(listed)) for key, listed in lists.items() if listed]

    def _counted(self, code: str) -> Tellable:
        """A warning, and how many runs carry it by themselves."""
        warned = [{w["code"] for w in run["warnings"] or ()} for run in self.data.runs]
        count, warning = sum(code in codes for codes in warned), say(WARNINGS[code])
        if not count:
            return warning
        return say("warned.counted", warning=warning, count=count, total=len(warned))

    def _brief(self, sentences: Sequence[Tellable]) -> Tellable | None:
        """The first sentences that fit, one at least; None where there are none."""
        brief: Tellable | None = None
        for count in range(1, len(sentences) + 1):
            more = in_turn(sentences[:count])
            if brief is not None and max(map(len, self.data.told(more))) > BRIEF_CHARACTERS:
                break
            brief = more
        return brief

    def render(self, findings: Iterable[Finding], titled: bool = False) -> Statements:
        """The findings as statements, where `titled` after their experiment's title."""
        entries: list[PrintedStatement] = []
        marks: dict[tuple[str, ...], str] = {}
        for finding in findings:
            codes = tuple(finding.warnings)
            if codes and codes not in marks:
                marks[codes] = string.ascii_lowercase[len(marks)]
            lead: Tellable = say("dataset.all")
            if finding.experiment is not None:
                lead = Label(self.data.experiment(finding.experiment).plan["title"])
            entries.append(
                PrintedStatement(
                    text=in_turn(self.sentences(finding)),
                    mark=marks.get(codes, ""),
                    lead=lead if titled else None,
                    links=self.links(finding),
                    implementations=tuple(sorted(finding.implementations)),
                )
            )
        return Statements(entries, self._doubts(marks))

    def _doubts(self, marks: Mapping[tuple[str, ...], str]) -> Tellable | None:
        """What the marks stand for; None without any."""
        if not marks:
            return None
        explained = [
            say("warned.mark", mark=mark, warnings=Listed([say(WARNINGS[code]) for code in codes]))
            for codes, mark in marks.items()
        ]
        return say("warned", warnings=clauses(explained))
