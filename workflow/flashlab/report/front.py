"""Page one: what was measured, the key findings, one figure, and the headline table."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

from flashlab.catalogs import SYMBOLS
from flashlab.glyphs import legible
from flashlab.report.document import Cell, FigureEntry, Front, Row, Statements, Table
from flashlab.report.material import Finding, Material
from flashlab.report.selection import AT_LEAST, key_findings
from flashlab.report.statements import Speaker
from flashlab.report.wording import Texts

ROOM_LINES = 22
"""Lines of key findings that page one has room for, beside the figure and the headline table."""

CHARACTERS = {"zh_TW": 36, "en": 68}
"""About how many characters of a language fill a line of page one."""


def overview_figures(material: Material) -> list[Path]:
    """The figures across experiments that were drawn, in their order."""
    folder = material.results / "overview"
    ids = json.loads((folder / "drawn.json").read_text(encoding="utf-8"))
    return [folder / f"{figure}.svg" for figure in ids]


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

    def _key(self) -> Statements:
        material = self.material
        names = [experiment.name for experiment in material.experiments]
        found = key_findings(material.findings, material.headline, names)
        # The nearest approach to the ceiling is the last; what gives way is the weakest before it.
        while len(found) > AT_LEAST + 1 and self._lines(found) > ROOM_LINES:
            del found[-2]
        return self.speaker.say(found, front=True)

    def _lines(self, findings: Sequence[Finding]) -> int:
        """About how many lines the findings take on the page, one language beside the other."""
        statements = self.speaker.say(findings, front=True).entries
        return sum(
            max(
                math.ceil(len(said.text[language]) / CHARACTERS[language])
                for language in self.words.languages
            )
            for said in statements
        )

    def _figure(self) -> FigureEntry | None:
        for path in overview_figures(self.material):
            if path.stem == "summary":
                caption = self.words.each("caption.summary", baseline=self.material.baseline)
                return FigureEntry("figure-summary", path, self.words.each("summary"), caption)
        return None

    def _headline(self) -> Table:
        """A row a quantity, a column an implementation, and each against the baseline."""
        material, words, summary = self.material, self.words, self.material.summary
        by_name = {row["implementation"]: row for row in summary.ordered}
        compared = [name for name in by_name if name != material.baseline]
        if material.baseline not in by_name:
            compared = []
        rows = []
        for quantity in ("forward", "backward", "forward_backward"):
            rows.append(self._times(f"row.{quantity}_time", quantity, "time_ms", compared))
        for quantity in ("forward", "backward"):
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
        run = summary.ordered[0]
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
            caption=words.each(
                "headline.setting",
                **{key: str(run[key]) for key in SYMBOLS},
                mask=material.mask(run["causal"]),
            ),
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
        if material.distinct("device") == ["cpu"]:
            notices.append(words.each("no_gpu"))
        if disagree:
            notices.append(words.each("disagree"))
        labels = [words.chosen(entry["label"]) for entry in material.implementations.values()]
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
            key=self._key(),
            figure=self._figure(),
            headline=self._headline(),
        )
