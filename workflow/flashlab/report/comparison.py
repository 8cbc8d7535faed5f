"""The section on the implementations: who runs them, the heat map, and how near the ceilings."""

from __future__ import annotations

from flashlab.report.document import Cell, FigureEntry, Implementations, Row, Statements, Table
from flashlab.report.front import overview_figures
from flashlab.report.material import Material
from flashlab.report.statements import Speaker
from flashlab.report.wording import Texts


class Comparison:
    """Writes the section on the implementations."""

    def __init__(self, material: Material, speaker: Speaker) -> None:
        self.material = material
        self.words = material.words
        self.speaker = speaker

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
        return Table(columns, rows, numeric_from=3)

    def _figures(self) -> list[FigureEntry]:
        words, found = self.words, []
        for path in overview_figures(self.material):
            kind = path.stem.rstrip("-0123456789").replace("-", "_")
            if kind == "summary":
                continue
            caption = words.each(f"caption.{kind}", baseline=self.material.baseline)
            label = words.each(f"{kind}.label")
            found.append(FigureEntry(f"figure-{path.stem}", path, label, caption))
        return found

    def implementations(self) -> Implementations:
        """The section on the implementations."""
        return Implementations(self._table(), self._figures(), Statements([], []))
