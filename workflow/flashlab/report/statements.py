"""Findings as statements: the sentence, a mark where it is in doubt, links to its evidence."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping

from flashlab.report.document import Link, Statement, Statements
from flashlab.report.material import Experiment, Finding, Material, Row
from flashlab.report.selection import subjects
from flashlab.report.wording import Texts

FIGURE_OF_KIND = {
    "speedup": ("time", "rate"),
    "crossover": ("time", "rate"),
    "monotonicity": ("time", "rate"),
    "causal_effect": ("rate", "time"),
    "memory_ratio": ("memory",),
    "out_of_memory": ("memory",),
    "roofline": ("rate", "time"),
}
"""The metrics of the figures that show a kind of finding, the best one first."""

FRONT_MARK = "*"


def figure_numbers(experiments: Iterable[Experiment]) -> dict[tuple[str, str], str]:
    """Numbers of all figures, by experiment and id: 1, 2, … and S1, S2, … for supplements."""
    numbers, counts = {}, {False: 0, True: 0}
    for experiment in experiments:
        for figure in experiment.plan["figures"]:
            supplement = figure["supplement"]
            counts[supplement] += 1
            prefix = "S" if supplement else ""
            numbers[experiment.name, figure["id"]] = f"{prefix}{counts[supplement]}"
    return numbers


def row_id(experiment: Experiment, row: Row) -> str:
    """The anchor of a run's row in its experiment's table."""
    mask = "causal" if row["causal"] else "full"
    return f"row-{experiment.name}-{row['implementation']}-{mask}-{row[experiment.sweep]}"


class Speaker:
    """Says findings, and marks doubts with the letters a, b, … anew for each part."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self.numbers = figure_numbers(material.experiments)

    def _figure(self, finding: Finding, experiment: Experiment) -> list[Link]:
        """The first figure that shows the finding's quantity for its implementation."""
        quantity = finding["subject"].get("quantity")
        metrics = FIGURE_OF_KIND.get(finding["kind"], ())
        if quantity:
            metrics = ("memory",) if quantity == "memory" else ("time", "rate")
        for metric in metrics:
            for figure in experiment.plan["figures"]:
                shown = set(figure["implementations"])
                if figure["metric"] == metric and subjects(finding) & shown:
                    number = self.numbers[experiment.name, figure["id"]]
                    label = self.material.words.each("figure", number=number)
                    return [Link(f"figure-{number}", label)]
        return []

    def _rows(self, finding: Finding, experiment: Experiment) -> list[Row]:
        """The runs that the finding's evidence names."""
        chosen = finding["evidence"]["rows"]
        return [
            row
            for row in experiment.ordered
            if row["implementation"] in chosen.get("implementation", ())
            and chosen.get("causal", row["causal"]) == row["causal"]
            and row[experiment.sweep] in finding["params"].get("values", [row[experiment.sweep]])
        ]

    def links(self, finding: Finding, front: bool = False) -> list[Link]:
        """Ways to the figure, the table's rows, and the runs in the appendix.

        On the front page, where room is dear, the runs are one way, to the first of them.
        """
        words = self.material.words
        experiment = self.material.experiment(finding["experiment"])
        rows = self._rows(finding, experiment)
        found = self._figure(finding, experiment)
        if rows and experiment.plan["sweep"]:
            found.append(Link(row_id(experiment, rows[0]), words.each("link.table")))
        runs = self.material.run_links(rows)
        if front and runs:
            found.append(Link(runs[0].target, words.each("link.to_runs")))
        elif runs:
            first = Link(runs[0].target, words.each("link.runs", runs=runs[0].text))
            found += [first, *runs[1:]]
        return found

    def say(
        self, findings: Iterable[Finding], front: bool = False, titled: bool = False
    ) -> Statements:
        """The findings as statements, `titled` or on the front page after their experiment's title.

        On the front page, where room is dear, doubts and ways are shorter.
        """
        words = self.material.words
        entries: list[Statement] = []
        marks: dict[tuple[str, ...], str] = {}
        for finding in findings:
            codes = tuple(finding["warnings"])
            if codes and codes not in marks:
                marks[codes] = FRONT_MARK if front else string.ascii_lowercase[len(marks)]
            experiment = self.material.experiment(finding["experiment"])
            entries.append(
                Statement(
                    text=words.finding(finding, experiment.symbol),
                    mark=marks.get(codes, ""),
                    lead=words.chosen(experiment.plan["title"]) if front or titled else None,
                    links=self.links(finding, front),
                    implementations=tuple(sorted(subjects(finding))),
                )
            )
        return Statements(entries, self._doubts(marks, front))

    def _doubts(self, marks: Mapping[tuple[str, ...], str], front: bool) -> Texts | None:
        """What the marks stand for; on the front page, where room is dear, that there are some."""
        words = self.material.words
        if not marks:
            return None
        if front:
            return words.each("warned.front", mark=FRONT_MARK)
        said = [
            words.each("warned.mark", mark=mark, warnings=words.warnings(codes))
            for codes, mark in marks.items()
        ]
        return words.each("warned", warnings=words.joined("clauses.separator", said))
