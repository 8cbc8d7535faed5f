"""The sections on the experiments: question, setting, what was found, figures, and the data."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from flashlab.catalogs import SYMBOLS
from flashlab.remarks import Remark
from flashlab.report.document import Cell, FigureEntry, Row, Section, Table
from flashlab.report.material import Experiment, Finding, Material
from flashlab.report.remarks import rendered
from flashlab.report.selection import NOTHING_FOUND, PROSE_KINDS, said_in_prose
from flashlab.report.statements import Speaker, row_id
from flashlab.report.wording import Texts, sentences

TIMED = ("forward", "backward")

SIGNS = {
    **{"faster": ("▲", "up"), "slower": ("▼", "down"), "less": ("▲", "up"), "more": ("▼", "down")},
    **{"equivalent": ("=", ""), "same_time": ("=", ""), "equal": ("=", ""), "mixed": ("◆", "")},
    "inconclusive": ("○", ""),
}
"""The sign of a verdict in the table of all implementations, and whether it is good news."""


_logger = logging.getLogger(__name__)


class Sections:
    """Writes the section of each experiment; what an earlier one has said is not said again."""

    def __init__(self, material: Material, speaker: Speaker, remarks: Sequence[Remark]) -> None:
        self.material = material
        self.remarks = remarks
        self.words = material.words
        self.speaker = speaker
        self._said: set[str] = set()

    def _new(self, finding: Finding, symbol: str) -> bool:
        content = {key: finding[key] for key in ("kind", "subject", "params", "verdict")}
        key = json.dumps([content, symbol], sort_keys=True)
        if key in self._said:
            return False
        self._said.add(key)
        return True

    def _setting(self, experiment: Experiment) -> Texts:
        words, runs, sweep = self.words, experiment.runs, experiment.sweep
        varied = experiment.varied_with
        fixed = [
            f"{symbol} = {runs[0][key]}"
            for key, symbol in SYMBOLS.items()
            if key != sweep and key not in varied
        ]
        masks = experiment.masks
        setting = words.each(
            "setting",
            parameter=words.each(sweep),
            values=words.listed([str(v) for v in sorted({row[sweep] for row in runs})]),
            fixed=words.listed(fixed),
            mask=words.each("mask.both") if len(masks) > 1 else self.material.mask(masks[0]),
        )
        if not varied:
            return setting
        with_it = words.each(
            "setting.varied", parameters=words.listed([words.each(key) for key in varied])
        )
        return sentences([setting, with_it])

    # Figures

    def _see(self, experiment: Experiment, figure: Mapping[str, Any]) -> list[Texts]:
        """What to see in a figure: the lowest and highest of its lines at their last common end."""
        words, metric, sweep = self.words, figure["metric"], experiment.sweep
        several = len(figure["implementations"]) > 1
        shown = [r for r in experiment.ordered if r["implementation"] in figure["implementations"]]
        measured = [row for row in shown if row["status"] == "ok"]
        values = sorted({row[sweep] for row in measured}, reverse=True)
        counts = {v: sum(row[sweep] == v for row in measured) for v in values}
        if not counts or max(counts.values()) < 2:
            return []
        at = next(value for value in values if counts[value] == max(counts.values()))
        params: dict[str, Any] = {"symbol": experiment.symbol, "at": at}
        column = {"time": "time_ms", "rate": "rate_TFLOPs"}.get(metric, "peak_memory_MiB")
        for name in ("memory",) if metric == "memory" else TIMED:
            found = []
            for run in measured:
                if run[sweep] != at:
                    continue
                value = run[column] if name == "memory" else experiment.pass_row(run, name)[column]
                mask = self.material.mask(run["causal"])
                label = self.material.same(run["implementation"]) if several else mask
                if several and len(experiment.masks) > 1:
                    label = words.each("of_mask", implementation=label, mask=mask)
                found.append((value, label))
            for end, (value, label) in (
                ("low", min(found, key=_first)),
                ("high", max(found, key=_first)),
            ):
                digits = 6 if name == "memory" else 4
                params |= {f"{name}_{end}": self.material.number(value, digits)}
                params |= {f"{name}_{end}_of": label}
        return [words.each(f"see.{metric}", **params)]

    def _figure(self, experiment: Experiment, figure: Mapping[str, Any]) -> FigureEntry:
        words = self.words
        number = self.speaker.numbers[experiment.name, figure["id"]]
        labels = self.material.implementations
        several = len(figure["implementations"]) > 2
        shown = [words.chosen(labels[name]["label"]) for name in figure["implementations"]]
        said = [
            words.each(
                f"caption.{figure['metric']}",
                parameter=words.each(experiment.sweep),
                implementations=words.each("implementations.count", count=len(shown))
                if several
                else words.listed(shown),
            ),
            *self._see(experiment, figure),
        ]
        sampled = any(row["time_low_ms"] is not None for row in experiment.passes)
        if figure["metric"] != "memory" and sampled:
            said.append(words.each("caption.interval"))
        return FigureEntry(
            id=f"figure-{number}",
            path=self.material.results / "figures" / experiment.name / f"{figure['id']}.svg",
            label=words.each("figure", number=number),
            caption=sentences(said),
        )

    # Tables

    def _quantities(self, experiment: Experiment, run: Mapping[str, Any]) -> list[Cell | Texts]:
        """A run's times, rates and memory; the status, once, where there are none."""
        if run["status"] != "ok":
            return [self.words.each(f"status.{run['status']}"), *[Cell("–")] * 4]
        rows = [experiment.pass_row(run, name) for name in TIMED]
        times = [self.material.measured(row, "time_ms") for row in rows]
        rates = [Cell(self.material.number(row["rate_TFLOPs"])) for row in rows]
        return [*times, *rates, self.material.memory(run)]

    def _data(self, experiment: Experiment, number: int) -> Table:
        """A row a run: its times with intervals, rates, memory, and its number in the appendix."""
        material, words = self.material, self.words
        both_masks = len(experiment.masks) > 1
        columns = [
            words.each("column.implementation"),
            *([words.each("column.mask")] if both_masks else []),
            material.same(experiment.symbol),
            *(
                words.each(f"column.{name}")
                for name in ("forward_time", "backward_time", "forward_rate", "backward_rate")
            ),
            words.each("column.memory"),
            words.each("column.run"),
        ]
        rows, before = [], None
        for run in experiment.ordered:
            group = (run["implementation"], run["causal"])
            cells: list[Cell | Texts] = [
                Cell(run["implementation"] if before is None or before[0] != group[0] else "")
            ]
            if both_masks:
                cells.append(material.mask(run["causal"]) if before != group else Cell(""))
            cells.append(Cell(str(run[experiment.sweep])))
            cells += self._quantities(experiment, run)
            position = material.number_of(run)
            cells.append(Cell(str(position), target=f"run-{position}"))
            rows.append(
                Row(cells, row_id(experiment, run), run["implementation"], first=before != group)
            )
            before = group
        return Table(
            columns,
            rows,
            numeric=range(2 if both_masks else 1, len(columns)),
            caption=words.each("caption.data", number=number),
            id=f"table-{experiment.name}",
        )

    def _found(self, findings: Sequence[Finding], kind: str, **subject: str) -> Finding | None:
        for finding in findings:
            if finding["kind"] == kind and subject.items() <= finding["subject"].items():
                return finding
        return None

    def _ratio_cell(self, finding: Finding | None) -> Cell:
        """A finding about ratios in short: the verdict's sign, and the range."""
        if finding is None or finding["params"].get("low") is None:
            return Cell("–")
        sign, tone = SIGNS.get(finding["verdict"], ("", ""))
        params = finding["params"]
        low, high = (self.material.ratio(params[key]) for key in ("low", "high"))
        text = low if low == high else f"{low} – {high}"
        return Cell(f"{sign} {text}".strip(), tone=tone)

    def _growth_cell(self, finding: Finding | None) -> Cell | Texts:
        """A finding about growth in short: the exponent, or how the local one runs."""
        if finding is None:
            return Cell("–")
        params, number = finding["params"], self.material.number
        match finding["verdict"]:
            case "power_law" | "flat":
                return Cell(number(params["exponent"]))
            case "curved":
                local = params["local"]
                return Cell(f"{number(local[0])} → {number(local[-1])}")
            case "too_few_sizes":
                return self.words.each("growth.too_few_sizes")
        return Cell("○")

    def _others(self, experiment: Experiment, findings: Sequence[Finding]) -> Table | None:
        """All implementations in short, where the prose speaks of a part of them only."""
        words, material = self.words, self.material
        names = experiment.implementations
        if set(names) <= set(material.headline):
            return None
        masks, rows = experiment.masks, []
        causal_too = len(masks) > 1
        for name in names:
            for causal in masks:
                mask = "causal" if causal else "full"
                about = {"implementation": name, "mask": mask}
                cells: list[Cell | Texts] = [Cell(name if causal == masks[0] else "")]
                if causal_too:
                    cells.append(material.mask(causal))
                for timed in TIMED:
                    cells.append(
                        self._ratio_cell(
                            self._found(findings, "speedup", **about, **{"pass": timed})
                        )
                    )
                cells.append(self._ratio_cell(self._found(findings, "memory_ratio", **about)))
                for quantity in (*TIMED, "memory"):
                    cells.append(
                        self._growth_cell(
                            self._found(findings, "scaling", **about, quantity=quantity)
                        )
                    )
                if causal_too:
                    for timed in TIMED:
                        effect = {"implementation": name, "pass": timed}
                        found = self._found(findings, "causal_effect", **effect) if causal else None
                        cells.append(self._ratio_cell(found) if causal else Cell(""))
                rows.append(Row(cells, implementation=name, first=causal == masks[0]))
        against = [
            words.each(f"column.{name}", baseline=material.baseline)
            for name in ("forward_speed", "backward_speed", "memory_share")
        ]
        growth = [words.each(f"column.{name}_growth") for name in (*TIMED, "memory")]
        effects = [words.each(f"column.{name}_causal") for name in TIMED] if causal_too else []
        return Table(
            [
                words.each("column.implementation"),
                *([words.each("column.mask")] if causal_too else []),
                *against,
                *growth,
                *effects,
            ],
            rows,
            numeric=range(2 if causal_too else 1, 10),
            caption=words.each(
                "caption.others" + (".causal" if causal_too else ""),
                baseline=material.baseline,
                symbol=experiment.symbol,
            ),
        )

    def _remarks(self, experiment: str) -> dict[str, Markup]:
        """A student's own words, in the languages of the report; others are warned of."""
        found = {}
        for remark in self.remarks:
            if remark.experiment != experiment:
                continue
            if remark.language in self.words.languages:
                found[remark.language] = rendered(remark)
            else:
                _logger.warning(
                    "%s: the remark on %s is left out, since %s is not among the languages of the "
                    "report (%s)",
                    remark.file,
                    experiment,
                    remark.language,
                    ", ".join(self.words.languages),
                )
        return found

    def section(self, position: int, experiment: Experiment) -> Section:
        """The section of the experiment that stands at this position, from 1."""
        words, name, symbol = self.words, experiment.name, experiment.symbol
        mine = [f for f in self.material.findings if f["experiment"] == name]
        others = self._others(experiment, mine)
        said = [
            finding
            for finding in mine
            if said_in_prose(finding, self.material.headline, tabulated=others is not None)
            and self._new(finding, symbol)
        ]
        nothing = sum(f["kind"] in PROSE_KINDS and f["verdict"] in NOTHING_FOUND for f in mine)
        silent = words.each("checks.none", count=nothing) if nothing else None
        if all(run["status"] != "ok" for run in experiment.runs):
            # Every check says the same of such an experiment.
            said, silent = [], words.each("section.no_numbers", count=len(experiment.runs))
        ordinal = words.each("experiment", number=position)
        title = words.chosen(experiment.plan["title"])
        causal = len(experiment.masks) > 1
        return Section(
            id=f"experiment-{name}",
            title={language: ordinal[language] + title[language] for language in words.languages},
            question=words.each("question.causal" if causal else f"question.{experiment.sweep}"),
            setting=self._setting(experiment),
            statements=self.speaker.say(said),
            figures=[self._figure(experiment, figure) for figure in experiment.plan["figures"]],
            others=others,
            silent=silent,
            remarks=self._remarks(name),
            table=self._data(experiment, position),
        )


def _first(pair: tuple[float, Texts]) -> float:
    return pair[0]
