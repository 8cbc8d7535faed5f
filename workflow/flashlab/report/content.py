"""What the report holds, as data: the template only sets it in type."""

from __future__ import annotations

import json
import string
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markupsafe import Markup

from flashlab.plan import SUMMARY
from flashlab.records import Run
from flashlab.report.wording import SYMBOLS, Texts, Words, number, sentences
from flashlab.tables import read_csv

TIME_DIGITS = 4
MESSAGE_CHARACTERS = 120
"""Most of a failed run's message that the appendix shows; the record has the whole."""

NOTHING_FOUND = ("none", "none_in_range", "monotone")
"""Verdicts of checks that found nothing: a section gives their number alone."""

MUST_AGREE = ("device_name", "driver", "torch", "dtype", "protocol")
"""Columns of the run table in which the records of one dataset must not differ."""


@dataclass(frozen=True)
class Cell:
    """A table cell: its text, and smaller beside it the interval."""

    text: str
    interval: str = ""


@dataclass(frozen=True)
class Table:
    """A table with one heading a column in every language, and rows of cells."""

    columns: list[Texts]
    rows: list[list[Cell | Texts]]
    numeric_from: int


@dataclass(frozen=True)
class FigureEntry:
    """A figure: its number, picture, caption, and what it shows for who cannot see it."""

    id: str
    number: str
    path: Path
    label: Texts
    caption: Texts
    alt: str


@dataclass(frozen=True)
class Statement:
    """A finding in words, and the mark of the doubts that it carries."""

    text: Texts
    mark: str


@dataclass(frozen=True)
class Statements:
    """Findings in words, and what each mark stands for: the warnings of the records behind them."""

    entries: list[Statement]
    doubts: list[tuple[str, Texts]]


@dataclass(frozen=True)
class Section:
    """One experiment."""

    id: str
    title: Texts
    setting: Texts
    figures: list[FigureEntry]
    statements: Statements
    none_found: Texts | None
    remarks: dict[str, Markup]
    table: Table


@dataclass(frozen=True)
class Report:
    """The whole report."""

    languages: tuple[str, ...]
    title: Texts
    subtitle: Texts
    author: list[tuple[Texts, str]]
    facts: list[tuple[Texts, Texts]]
    notices: list[Texts]
    headline_setting: Texts
    headline: Table
    sections: list[Section]
    method: list[Texts]
    environment: list[tuple[Texts, str]]
    environment_notices: list[Texts]
    runs: Table
    created: str


@dataclass(frozen=True)
class _Experiment:
    plan: Mapping[str, Any]
    runs: list[dict[str, Any]]
    passes: list[dict[str, Any]]

    @property
    def symbol(self) -> str:
        return SYMBOLS[self.plan["sweep"] or "seq_len"]


def _read_experiment(results: Path, name: str) -> _Experiment:
    plan = json.loads((results / "plan" / f"{name}.json").read_text(encoding="utf-8"))
    tables = results / "tables" / name
    return _Experiment(plan, read_csv(tables / "runs.csv"), read_csv(tables / "passes.csv"))


class _Composer:
    def __init__(self, config: Mapping[str, Any], results: Path, ceilings: Path | None) -> None:
        self.ceilings = json.loads(ceilings.read_text(encoding="utf-8")) if ceilings else None
        self.config = config
        self.results = results
        self.words = Words(config["languages"])
        self.summary = _read_experiment(results, SUMMARY)
        self.experiments = [
            _read_experiment(results, entry["name"]) for entry in config["experiments"]
        ]
        self.findings = json.loads((results / "findings.json").read_text(encoding="utf-8"))
        by_record = {
            row["record"]: row
            for experiment in (self.summary, *self.experiments)
            for row in experiment.runs
        }
        self.runs = [by_record[record] for record in sorted(by_record)]

    # Pieces

    def _same(self, value: str) -> Texts:
        return dict.fromkeys(self.words.languages, value)

    def _mask(self, causal: bool) -> Texts:
        return self.words.each("mask.causal" if causal else "mask.full")

    def _number(self, value: float | None, digits: int = TIME_DIGITS) -> str:
        return number(value, self.words.languages[0], digits)

    def _measured(self, row: Mapping[str, Any], name: str) -> Cell:
        """A time or rate with its interval, as columns ``<name>``, ``<low>``, ``<high>``."""
        stem, unit = name.rsplit("_", 1)
        low, high = row[f"{stem}_low_{unit}"], row[f"{stem}_high_{unit}"]
        interval = "" if low is None else f"{self._number(low)} – {self._number(high)}"
        return Cell(self._number(row[name]), interval)

    def _distinct(self, column: str) -> list[str]:
        return sorted({str(row[column]) for row in self.runs if row[column] is not None})

    def _statements(self, experiment: str, symbol: str, said: set[str]) -> Statements:
        """The experiment's findings in words, less those that an earlier section has said."""
        items: list[Statement] = []
        marks: dict[tuple[str, ...], str] = {}
        for finding in self.findings:
            if finding["experiment"] != experiment or finding["verdict"] in NOTHING_FOUND:
                continue
            content = {key: finding[key] for key in ("kind", "subject", "params", "verdict")}
            key = json.dumps([content, symbol], sort_keys=True)
            if key in said:
                continue
            said.add(key)
            codes = tuple(finding["warnings"])
            if codes and codes not in marks:
                marks[codes] = string.ascii_lowercase[len(marks)]
            items.append(Statement(self.words.finding(finding, symbol), marks.get(codes, "")))
        doubts = [
            (mark, self.words.each("warned", warnings=self.words.warnings(codes)))
            for codes, mark in marks.items()
        ]
        return Statements(items, doubts)

    def _pass_row(
        self, experiment: _Experiment, run: Mapping[str, Any], name: str
    ) -> dict[str, Any]:
        keys = ("implementation", "batch_size", "seq_len", "num_heads", "emb_dim", "causal")
        return next(
            row
            for row in experiment.passes
            if row["pass"] == name and all(row[key] == run[key] for key in keys)
        )

    # Parts of the report

    def facts(self) -> list[tuple[Texts, Texts]]:
        words, dataset = self.words, self.config["dataset"]
        started = self._distinct("started")
        span = " – ".join(dict.fromkeys((started[0][:16], started[-1][:16]))).replace("T", " ")
        name = (
            words.each("dataset.local")
            if dataset == "local"
            else words.each("dataset.recorded", name=dataset)
        )
        devices = self._distinct("device_name")
        return [
            (
                words.each("device"),
                self._same(", ".join(devices)) if devices else words.each("unknown"),
            ),
            (words.each("measured"), self._same(span)),
            (words.each("dataset"), name),
            (words.each("dtype"), self._same(", ".join(self._distinct("dtype")))),
        ]

    def notices(self) -> list[Texts]:
        found = []
        if self._distinct("device") == ["cpu"]:
            found.append(self.words.each("no_gpu"))
        pairs = {(row["implementation"], row["provider"]) for row in self.runs if row["provider"]}
        provided = [
            self.words.each("provider", implementation=implementation, provider=provider)
            for implementation, provider in sorted(pairs)
            if implementation != self.config["baseline"]
        ]
        if provided:
            found.append(sentences(provided))
        for name in sorted({row["implementation"] for row in self.runs if row["source_changed"]}):
            found.append(self.words.each("source_changed", implementation=name))
        return found

    def headline_setting(self) -> Texts:
        run = self.summary.runs[0]
        return self.words.each(
            "headline.setting",
            **{key: str(run[key]) for key in SYMBOLS},
            mask=self._mask(run["causal"]),
        )

    def headline(self) -> Table:
        """A row a quantity, a column an implementation, and each against the baseline."""
        words, baseline = self.words, self.config["baseline"]
        by_name = {row["implementation"]: row for row in self.summary.runs}
        others = [name for name in by_name if name != baseline]
        compared = baseline in by_name
        columns = [words.each("column.quantity"), *(self._same(name) for name in by_name)]
        if compared:
            columns += [
                self._same(name) if len(others) > 1 else words.each("ratio", baseline=baseline)
                for name in others
            ]
        rows: list[list[Cell | Texts]] = []
        quantities = [
            (f"row.{name}_{metric}", name, column)
            for metric, column, names in (
                ("time", "time_ms", ("forward", "backward", "forward_backward")),
                ("rate", "rate_TFLOPs", ("forward", "backward")),
            )
            for name in names
        ]
        for key, name, column in quantities:
            found = {n: self._pass_row(self.summary, run, name) for n, run in by_name.items()}
            cells: list[Cell | Texts] = [words.each(key)]
            cells += [self._measured_or_status(row, column) for row in found.values()]
            if compared:
                for other in others:
                    mine, theirs = found[other][column], found[baseline][column]
                    cells.append(self._ratio(mine, theirs, inverted=column == "time_ms"))
            rows.append(cells)
        cells = [words.each("row.memory")]
        cells += [self._memory_or_status(run) for run in by_name.values()]
        if compared:
            for other in others:
                mine, theirs = (by_name[n]["peak_memory_MiB"] for n in (other, baseline))
                cells.append(
                    Cell("–")
                    if None in (mine, theirs)
                    else words.each("ratio.share", ratio=self._number(mine / theirs, 3))
                )
        return Table(columns, [*rows, cells], 1)

    def _ratio(self, mine: float | None, theirs: float | None, inverted: bool) -> Cell | Texts:
        if mine is None or theirs is None:
            return Cell("–")
        ratio = theirs / mine if inverted else mine / theirs
        return self.words.each("ratio.faster", ratio=self._number(ratio, 3))

    def _measured_or_status(self, row: Mapping[str, Any], column: str) -> Cell | Texts:
        if row["status"] != "ok":
            return self.words.each(f"status.{row['status']}")
        return self._measured(row, column)

    def _memory_or_status(self, run: Mapping[str, Any]) -> Cell | Texts:
        if run["status"] != "ok":
            return self.words.each(f"status.{run['status']}")
        return Cell(self._number(run["peak_memory_MiB"], 6))

    def _numbered_figures(self) -> dict[tuple[str, str], str]:
        """Numbers of all figures, by experiment and id: 1, 2, … and S1, S2, … for supplements."""
        numbers, counts = {}, {False: 0, True: 0}
        for experiment in self.experiments:
            for figure in experiment.plan["figures"]:
                supplement = figure["supplement"]
                counts[supplement] += 1
                number_ = f"{'S' if supplement else ''}{counts[supplement]}"
                numbers[experiment.plan["name"], figure["id"]] = number_
        return numbers

    def _setting(self, experiment: _Experiment) -> Texts:
        sweep, runs = experiment.plan["sweep"], experiment.runs
        words = self.words
        varied = [key for key in SYMBOLS if key != sweep and len({row[key] for row in runs}) > 1]
        fixed = [
            f"{symbol} = {runs[0][key]}"
            for key, symbol in SYMBOLS.items()
            if key != sweep and key not in varied
        ]
        masks = {row["causal"] for row in runs}
        mask = words.each("mask.both") if len(masks) > 1 else self._mask(masks.pop())
        setting = words.each(
            "setting",
            parameter=words.each(sweep),
            values=words.listed([str(v) for v in sorted({row[sweep] for row in runs})]),
            fixed=words.listed(fixed),
            mask=mask,
        )
        if not varied:
            return setting
        with_it = words.each(
            "setting.varied", parameters=words.listed([words.each(key) for key in varied])
        )
        return sentences([setting, with_it])

    def _figure(
        self, experiment: _Experiment, figure: Mapping[str, Any], number_: str
    ) -> FigureEntry:
        words, plan = self.words, experiment.plan
        labels = {entry["name"]: entry["label"] for entry in plan["implementations"]}
        caption = words.each(
            f"caption.{figure['metric']}",
            parameter=words.each(plan["sweep"]),
            implementations=words.listed([labels[name] for name in figure["implementations"]]),
        )
        sampled = any(row["time_low_ms"] is not None for row in experiment.passes)
        if figure["metric"] != "memory" and sampled:
            bars = words.each("caption.interval")
            caption = sentences([caption, bars])
        return FigureEntry(
            id=f"figure-{number_}",
            number=number_,
            path=self.results / "figures" / plan["name"] / f"{figure['id']}.svg",
            label=words.each("figure", number=number_),
            caption=caption,
            alt=" ".join(caption.values()),
        )

    def _table(self, experiment: _Experiment) -> Table:
        words, sweep = self.words, experiment.plan["sweep"]
        both_masks = len({row["causal"] for row in experiment.runs}) > 1
        columns = [
            self._same(SYMBOLS[sweep]),
            *([words.each("column.mask")] if both_masks else []),
            words.each("column.implementation"),
            *(
                words.each(f"column.{name}")
                for name in (
                    *("forward_time", "backward_time", "forward_rate", "backward_rate"),
                    "memory",
                )
            ),
        ]
        rows: list[list[Cell | Texts]] = []
        order = [entry["name"] for entry in experiment.plan["implementations"]]
        for run in sorted(
            experiment.runs,
            key=lambda row: (row["causal"], row[sweep], order.index(row["implementation"])),
        ):
            cells: list[Cell | Texts] = [Cell(str(run[sweep]))]
            if both_masks:
                cells.append(self._mask(run["causal"]))
            cells.append(Cell(run["implementation"]))
            for column in ("time_ms", "rate_TFLOPs"):
                for name in ("forward", "backward"):
                    row = self._pass_row(experiment, run, name)
                    cells.append(self._measured_or_status(row, column))
            cells.append(self._memory_or_status(run))
            rows.append(cells)
        return Table(columns, rows, 3 if both_masks else 2)

    def sections(self) -> list[Section]:
        numbers = self._numbered_figures()
        said: set[str] = set()
        found = []
        for position, experiment in enumerate(self.experiments, start=1):
            name, symbol = experiment.plan["name"], experiment.symbol
            ordinal = self.words.each("experiment", number=position)
            nothing = sum(
                finding["experiment"] == name and finding["verdict"] in NOTHING_FOUND
                for finding in self.findings
            )
            found.append(
                Section(
                    id=f"experiment-{name}",
                    title={
                        language: ordinal[language] + experiment.plan["title"][language]
                        for language in self.words.languages
                    },
                    setting=self._setting(experiment),
                    figures=[
                        self._figure(experiment, figure, numbers[name, figure["id"]])
                        for figure in experiment.plan["figures"]
                    ],
                    statements=self._statements(name, symbol, said),
                    none_found=self.words.each("checks.none", count=nothing) if nothing else None,
                    remarks=self._remarks(name),
                    table=self._table(experiment),
                )
            )
        return found

    def _remarks(self, experiment: str) -> dict[str, Markup]:
        """A student's own words, from Markdown without raw HTML."""
        markdown = MarkdownIt("commonmark", {"html": False})
        files = self.config["remarks"].get(experiment, {})
        return {
            # The Markdown renderer escapes everything that it does not mark up itself.
            language: Markup(markdown.render(Path(path).read_text(encoding="utf-8")))
            for language, path in files.items()
            if language in self.words.languages
        }

    def method(self) -> list[Texts]:
        protocols = self._distinct("protocol")
        keys = ["inputs", "gate", "flops", *protocols, "memory", "difference"]
        return [self.words.each(f"method.{key}") for key in keys]

    def environment(self) -> list[tuple[Texts, str]]:
        words = self.words
        software = [
            f"{name} {', '.join(self._distinct(column))}"
            for name, column in (("torch", "torch"), ("driver", "driver"))
            if self._distinct(column)
        ]
        return [
            (words.each("device"), ", ".join(self._distinct("device_name"))),
            (words.each("environment.packages"), ", ".join(software)),
            (words.each("environment.protocol"), ", ".join(self._distinct("protocol"))),
            *self._ceilings(),
        ]

    def _ceilings(self) -> Iterator[tuple[Texts, str]]:
        """The measured rate of a large matrix product for each dtype, and of a large copy."""
        if self.ceilings is None:
            return
        rates = [
            f"{dtype} {self._number(found['rate(TFLOPs/s)'], 3)} TFLOP/s"
            for dtype, found in self.ceilings["matrix_product"].items()
        ]
        yield self.words.each("environment.matrix_product"), ", ".join(rates)
        bandwidth = self._number(self.ceilings["copy"]["bandwidth(GB/s)"], 3)
        yield self.words.each("environment.copy"), f"{bandwidth} GB/s"

    def environment_notices(self) -> list[Texts]:
        words, total = self.words, len(self.runs)
        found = [
            words.each("environment.mixed", field=column, values=words.listed(values))
            for column in MUST_AGREE
            if len(values := self._distinct(column)) > 1
        ]
        for key, count in (
            ("environment.warned", sum(bool(row["warnings"]) for row in self.runs)),
            ("environment.failed", sum(row["status"] != "ok" for row in self.runs)),
        ):
            if count:
                found.append(words.each(key, count=count, total=total))
        return found

    def run_table(self) -> Table:
        words = self.words
        columns = [
            words.each(f"column.{name}")
            for name in ("implementation", "shape", "status", "warnings", "record")
        ]
        rows: list[list[Cell | Texts]] = []
        for row in self.runs:
            shape = str(Run.from_json(row)).removeprefix(f"{row['implementation']} ")
            status: Texts = words.each(f"status.{row['status']}")
            if row["message"]:
                said = textwrap.shorten(row["message"], MESSAGE_CHARACTERS, placeholder=" …")
                status = {language: f"{word}: {said}" for language, word in status.items()}
            codes = sorted({warning["code"] for warning in row["warnings"] or ()})
            rows.append(
                [
                    Cell(row["implementation"]),
                    Cell(shape),
                    status,
                    words.warnings(codes) if codes else Cell("–"),
                    Cell(Path(row["record"]).name, row["sha256"]),
                ]
            )
        return Table(columns, rows, len(columns))

    def compose(self) -> Report:
        words, author = self.words, self.config.get("author", {})
        names = list(dict.fromkeys(row["implementation"] for row in self.runs))
        return Report(
            languages=words.languages,
            title=words.each("title"),
            subtitle=words.each("subtitle", implementations=words.listed(sorted(names))),
            author=[
                (words.each(label), author[key])
                for key, label in (("name", "author"), ("id", "student_id"), ("course", "course"))
                if key in author
            ],
            facts=self.facts(),
            notices=self.notices(),
            headline_setting=self.headline_setting(),
            headline=self.headline(),
            sections=self.sections(),
            method=self.method(),
            environment=self.environment(),
            environment_notices=self.environment_notices(),
            runs=self.run_table(),
            created=max(self._distinct("started")),
        )


def compose(config: Mapping[str, Any], results: Path, ceilings: Path | None) -> Report:
    """The report of the dataset in `results`, from its plans, tables and findings.

    `ceilings` is the file of the device's measured ceilings, if there is one.
    """
    return _Composer(config, results, ceilings).compose()


def texts_joined(texts: Texts, languages: Sequence[str]) -> str:
    """The distinct texts, joined by a middle dot."""
    return " · ".join(dict.fromkeys(texts[language] for language in languages))
