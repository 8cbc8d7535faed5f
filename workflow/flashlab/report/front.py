"""Page one: what was measured, the key findings, one figure, and the headline table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from flashlab.catalogs import SYMBOLS
from flashlab.glyphs import legible
from flashlab.records import PASSES
from flashlab.report.document import Cell, FigureEntry, Front, Row, Statements, Table
from flashlab.report.material import Material
from flashlab.report.material import Row as RunRow
from flashlab.report.selection import key_findings
from flashlab.report.statements import Speaker
from flashlab.report.wording import Texts

COLUMNS = 3
"""How many implementations the headline table can show side by side, a column each."""


def overview_figures(material: Material) -> list[Path]:
    """The figures across experiments that were drawn, in their order."""
    folder = material.results / "overview"
    ids = json.loads((folder / "drawn.json").read_text(encoding="utf-8"))
    return [folder / f"{figure}.svg" for figure in ids]


def without_weakest(front: Front) -> Front | None:
    """Page one without the weakest of its key findings; None where only one is left.

    The nearest approach to the ceiling, which comes after the ranked findings, goes last.
    """
    entries = list(front.key.entries)
    if len(entries) < 2:
        return None
    del entries[front.ranked - 1 if front.ranked else -1]
    doubts = front.key.doubts if any(entry.mark for entry in entries) else None
    return replace(front, key=Statements(entries, doubts), ranked=max(front.ranked - 1, 0))


class FrontPage:
    """Writes page one."""

    def __init__(self, material: Material, speaker: Speaker) -> None:
        self.material = material
        self.words = material.words
        self.speaker = speaker

    def _facts(self) -> list[tuple[Texts, Texts]]:
        words, material = self.words, self.material
        dataset = material.config["dataset"]
        started = material.distinct("started")
        ends = (started[0][:16], started[-1][:16])
        if ends[0][:10] == ends[1][:10]:
            ends = (ends[0], ends[1][11:])
        span = " – ".join(dict.fromkeys(ends)).replace("T", " ")
        devices = material.distinct("device_name")
        named = words.each("dataset.recorded", name=dataset)
        return [
            (
                words.each("device"),
                material.same(", ".join(devices)) if devices else words.each("unknown"),
            ),
            (words.each("measured"), material.same(span)),
            (words.each("dataset"), words.each("dataset.local") if dataset == "local" else named),
            (words.each("dtype"), material.same(", ".join(material.distinct("dtype")))),
        ]

    def _key(self) -> tuple[Statements, int]:
        """The key findings, and how many of them are ranked by strength."""
        material = self.material
        names = [experiment.name for experiment in material.experiments]
        found = key_findings(material.findings, material.headline, names)
        ranked = sum(finding["kind"] != "roofline" for finding in found)
        return self.speaker.say(found, front=True), ranked

    def _figure(self) -> FigureEntry | None:
        for path in overview_figures(self.material):
            if path.stem == "summary":
                caption = self.words.each("caption.summary", baseline=self.material.baseline)
                return FigureEntry("figure-summary", path, self.words.each("summary"), caption)
        return None

    def _headline(self) -> Table:
        by_name = {row["implementation"]: row for row in self.material.summary.ordered}
        if len(by_name) > COLUMNS:
            return self._by_implementation(by_name)
        return self._by_quantity(by_name)

    def _setting(self, key: str = "headline.setting") -> Texts:
        """The shape of the headline table, in the message of this key."""
        run = self.material.summary.ordered[0]
        return self.words.each(
            key,
            **{name: str(run[name]) for name in SYMBOLS},
            mask=self.material.mask(run["causal"]),
            baseline=self.material.baseline,
        )

    def _by_implementation(self, by_name: Mapping[str, RunRow]) -> Table:
        """A row an implementation; beside its times and memory the ratio to the baseline's."""
        words, rows = self.words, []
        for name, run in by_name.items():
            quantities = self._quantities(run, by_name.get(self.material.baseline))
            rows.append(Row([Cell(name), *quantities], implementation=name))
        keys = [f"{name}_time" for name in PASSES] + [f"{name}_rate" for name in PASSES[:2]]
        return Table(
            [
                words.each("column.implementation"),
                *(words.each(f"row.{key}") for key in (*keys, "memory")),
            ],
            rows,
            numeric=range(1, 2 + len(keys)),
            caption=self._setting("headline.setting.ratios"),
        )

    def _quantities(self, run: RunRow, baseline: RunRow | None) -> list[Cell | Texts]:
        """A run's times, rates and memory; the status, once, where there are none."""
        material, pass_row = self.material, self.material.summary.pass_row
        if run["status"] != "ok":
            return [self.words.each(f"status.{run['status']}"), *[Cell("–")] * len(PASSES[:2] * 2)]
        compared = baseline is not None and baseline["status"] == "ok" and run != baseline

        def ratio(mine: float, theirs: float) -> str:
            return f"{material.ratio(mine / theirs)}×" if compared else ""

        cells: list[Cell | Texts] = []
        for name in PASSES:
            mine = pass_row(run, name)["time_ms"]
            theirs = pass_row(baseline or run, name)["time_ms"]
            cells.append(Cell(material.number(mine), ratio(theirs, mine)))
        cells += [Cell(material.number(pass_row(run, p)["rate_TFLOPs"])) for p in PASSES[:2]]
        mine, theirs = run["peak_memory_MiB"], (baseline or run)["peak_memory_MiB"]
        return [*cells, Cell(material.number(mine, 6), ratio(mine, theirs))]

    def _by_quantity(self, by_name: Mapping[str, RunRow]) -> Table:
        """A row a quantity, a column an implementation, and each against the baseline."""
        material, words = self.material, self.words
        compared = [name for name in by_name if name != material.baseline]
        if material.baseline not in by_name:
            compared = []
        rows = []
        for quantity in PASSES:
            rows.append(self._times(f"row.{quantity}_time", quantity, "time_ms", compared))
        for quantity in PASSES[:2]:
            rows.append(self._times(f"row.{quantity}_rate", quantity, "rate_TFLOPs", compared))
        memory: list[Cell | Texts] = [words.each("row.memory")]
        memory += [material.memory(run) for run in by_name.values()]
        for name in compared:
            mine, theirs = (by_name[n]["peak_memory_MiB"] for n in (name, material.baseline))
            memory.append(
                Cell("–")
                if None in (mine, theirs)
                else words.each("ratio.share", ratio=material.ratio(mine / theirs))
            )
        return Table(
            [
                words.each("column.quantity"),
                *(material.same(name) for name in by_name),
                *(
                    material.same(name)
                    if len(compared) > 1
                    else words.each("ratio", baseline=material.baseline)
                    for name in compared
                ),
            ],
            [*rows, Row(memory)],
            numeric=range(1, 1 + len(by_name) + len(compared)),
            caption=self._setting(),
        )

    def _times(self, label: str, name: str, column: str, compared: list[str]) -> Row:
        material, summary = self.material, self.material.summary
        found = {run["implementation"]: summary.pass_row(run, name) for run in summary.ordered}
        cells: list[Cell | Texts] = [self.words.each(label)]
        cells += [material.measured(row, column) for row in found.values()]
        for other in compared:
            mine, theirs = found[other][column], found[material.baseline][column]
            if mine is None or theirs is None:
                cells.append(Cell("–"))
                continue
            ratio = theirs / mine if column == "time_ms" else mine / theirs
            cells.append(self.words.each("ratio.faster", ratio=material.ratio(ratio)))
        return Row(cells)

    def front(self, disagree: bool) -> Front:
        """Page one; `disagree` says that the records' environments do."""
        words, material = self.words, self.material
        author = material.config.get("author", {})
        notices = []
        if material.on_cpu:
            notices.append(words.each("no_gpu"))
        if disagree:
            notices.append(words.each("disagree"))
        labels = [words.chosen(entry["label"]) for entry in material.implementations.values()]
        key, ranked = self._key()
        return Front(
            title=words.each("title"),
            subtitle=words.each("subtitle", implementations=words.listed(labels)),
            author_name=author.get("name", "FlashLab"),
            author=[
                (words.each(label), legible(author[key], f"author.{key}"))
                for key, label in (("name", "author"), ("id", "student_id"), ("course", "course"))
                if key in author
            ],
            facts=self._facts(),
            notices=notices,
            key=key,
            ranked=ranked,
            figure=self._figure(),
            headline=self._headline(),
        )
