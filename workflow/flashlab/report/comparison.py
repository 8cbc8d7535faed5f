"""The section on the implementations: who runs them, how near the ceilings, who overtakes whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flashlab.report.document import Cell, FigureEntry, Implementations, Row, Statements, Table
from flashlab.report.front import overview_figures
from flashlab.report.material import Experiment, Finding, Material
from flashlab.report.selection import subjects
from flashlab.report.statements import Speaker
from flashlab.report.wording import Texts

TIMED = ("forward", "backward")
BOUNDS = ("compute_bound", "memory_bound", "neither", "model_error")


class Comparison:
    """Writes the section on the implementations."""

    def __init__(self, material: Material, speaker: Speaker) -> None:
        self.material = material
        self.words = material.words
        self.speaker = speaker
        self.rooflines = [f for f in material.findings if f["kind"] == "roofline"]

    def _table(self) -> Table:
        """Each implementation: its name and label, what ran it, its runs and how they went."""
        words, material = self.words, self.material
        rows = []
        for name, entry in material.implementations.items():
            mine = [run for run in material.runs if run["implementation"] == name]
            providers = sorted({run["provider"] for run in mine if run["provider"]})
            good = sum(run["status"] == "ok" for run in mine)
            cells: list[Cell | Texts] = [
                Cell(name),
                words.chosen(entry["label"]),
                Cell(", ".join(providers) or "–"),
                Cell(str(len(mine))),
                Cell(str(good)),
            ]
            rows.append(Row(cells, implementation=name))
        headings = ("implementation", "label", "provider", "runs", "runs_ok")
        columns = [words.each(f"column.{key}") for key in headings]
        return Table(columns, rows, numeric=range(3, 5))

    def _figures(self) -> list[FigureEntry]:
        words, found = self.words, []
        for path in overview_figures(self.material):
            kind = path.stem.partition("-")[0]
            if kind == "summary":
                continue
            caption = words.each(f"caption.{kind}", baseline=self.material.baseline)
            label = words.each(f"{kind}.label")
            found.append(FigureEntry(f"figure-{path.stem}", path, label, caption))
        return found

    # The roofline

    def _standings(self, name: str, timed: str) -> Iterator[tuple[Finding, Experiment, Any]]:
        """Every estimate of an implementation's pass, with its finding and experiment."""
        for finding in self.rooflines:
            if (finding["subject"]["implementation"], finding["subject"]["pass"]) == (name, timed):
                experiment = self.material.experiment(finding["experiment"])
                for estimate in finding["evidence"]["estimates"]:
                    yield finding, experiment, estimate

    def _roofline_row(self, name: str, timed: str, first: bool) -> Row | None:
        """An implementation's nearest approach to either ceiling, and how its runs are bound."""
        words, material = self.words, self.material
        bound: dict[str, set[int]] = {verdict: set() for verdict in BOUNDS}
        nearest: dict[str, tuple[float, int]] = {}
        for finding, experiment, estimate in self._standings(name, timed):
            causal = finding["subject"]["mask"] == "causal"
            run = experiment.run(name, causal, estimate["value"])
            number = material.number_of(run)
            bound[finding["verdict"]].add(number)
            for ceiling in ("matrix_percent", "copy_percent"):
                share = estimate[ceiling]["estimate"]
                if ceiling not in nearest or share > nearest[ceiling][0]:
                    nearest[ceiling] = (share, number)
        if not nearest:
            return None
        cells: list[Cell | Texts] = [Cell(name if first else ""), words.each(f"pass.{timed}")]
        for ceiling in ("matrix_percent", "copy_percent"):
            share, number = nearest[ceiling]
            cells.append(Cell(f"{material.number(share, 3)}%"))
            cells.append(Cell(str(number), target=f"run-{number}"))
        cells += [Cell(str(len(bound[verdict]))) for verdict in BOUNDS]
        return Row(cells, implementation=name, first=first)

    def _roofline(self) -> Table | None:
        rows = []
        for name in self.material.implementations:
            for timed in TIMED:
                row = self._roofline_row(name, timed, first=timed == TIMED[0])
                if row:
                    rows.append(row)
        if not rows:
            return None
        words = self.words
        headings = ("implementation", "pass", "matrix_share", "run", "copy_share", "run", *BOUNDS)
        return Table(
            [words.each(f"column.{key}") for key in headings],
            rows,
            numeric=range(2, len(headings)),
            caption=words.each("caption.roofline_table"),
        )

    def _said(self) -> Statements:
        """Of each of the headline's implementations the nearest approach; every model error.

        The table has the others.
        """
        nearest: dict[str, Finding] = {}
        errors = [f for f in self.rooflines if f["verdict"] == "model_error"]
        for finding in self.rooflines:
            if not subjects(finding) <= set(self.material.headline) or finding in errors:
                continue
            key = finding["subject"]["implementation"]
            best = nearest.get(key)
            if best is None or finding["params"]["matrix_high"] > best["params"]["matrix_high"]:
                nearest[key] = finding
        return self.speaker.say([*errors, *nearest.values()], titled=True)

    # Crossovers

    def _crossovers(self) -> Table | None:
        """Where the faster one of any two implementations changes, beyond what the prose says."""
        words, material, rows = self.words, self.material, []
        before: tuple[str, ...] = ()
        said: set[str] = set()
        for finding in material.findings:
            if finding["kind"] != "crossover" or finding["verdict"] != "crosses":
                continue
            if subjects(finding) <= set(material.headline):
                continue
            experiment = material.experiment(finding["experiment"])
            params, subject = finding["params"], finding["subject"]
            group = (experiment.name, subject["mask"], subject["pass"])
            first = group[:2] != before[:2]
            title = words.each(
                "crossover.where",
                title=words.chosen(experiment.plan["title"]),
                mask=words.each(f"mask.{subject['mask']}"),
            )
            span = f"{experiment.symbol} = {params['low_at']} – {params['high_at']}"
            links = self.speaker.links(finding)
            # An experiment that shares its runs with an earlier one says the same again.
            once = str([subject, params, [link.target for link in links if "run" in link.target]])
            if once in said:
                continue
            said.add(once)
            link = links[-1]
            rows.append(
                Row(
                    [
                        title if first else Cell(""),
                        words.each(f"pass.{subject['pass']}") if group != before else Cell(""),
                        Cell(f"{params['before']} → {params['after']}"),
                        Cell(span, target=link.target),
                    ],
                    implementation=subject["implementation"],
                    first=first,
                )
            )
            before = group
        headings = ("experiment", "pass", "overtaking", "between")
        if not rows:
            return None
        return Table(
            [words.each(f"column.{key}") for key in headings],
            rows,
            caption=words.each("caption.crossovers"),
        )

    def implementations(self) -> Implementations:
        """The section on the implementations."""
        figures = self._figures()
        return Implementations(
            table=self._table(),
            rooflines=[f for f in figures if f.id.startswith("figure-roofline")],
            statements=self._said(),
            roofline=self._roofline(),
            heat_maps=[f for f in figures if f.id.startswith("figure-heat")],
            crossovers=self._crossovers(),
        )
