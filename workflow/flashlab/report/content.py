"""The report's content: page one, a chapter an experiment, how it works, conclusion, appendix."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from flashlab.analysis.experiment import OBSERVATIONS
from flashlab.analysis.frames import Dataset, Sweep, read_dataset
from flashlab.benchmarks.implementations import PACKED_TWIN
from flashlab.figures import MOST_LINES
from flashlab.files import canonical, read_json
from flashlab.labels import LANGUAGES, messages
from flashlab.numbers import begin
from flashlab.plan.experiments import figures_of
from flashlab.plan.plan_files import CONFIG, SUMMARY
from flashlab.remarks import Remark as OwnRemark
from flashlab.remarks import as_html
from flashlab.report import records as of_records
from flashlab.report.document import (
    Beside,
    Block,
    Columns,
    Figure,
    Figures,
    Line,
    Lines,
    Prose,
    Remark,
    Report,
    Section,
    Table,
    Text,
    Words,
    chapter,
    in_both,
    says,
)
from flashlab.report.own_tables import ladder_tables, training_tables
from flashlab.report.tables import WIDE, Tables, label_of, maps, tables_of
from flashlab.story.observation import Observation, read_observations
from flashlab.story.words import REFERS, Texts, paragraphs, sentence
from flashlab.telling.glyphs import legible

SPEEDS = "speedups-"
"""The beginning of the ids of figures across experiments that belong to one of them."""

COUNTERS = "profile"
"""The id of the figure of a ladder's counters, which its first experiment tells of."""

OWN_TABLES = {"ladder": ladder_tables, "training": training_tables}
"""The tables of the reports that have their own."""

_logger = logging.getLogger(__name__)


def compose(
    config: Mapping[str, Any], results: Path, ceilings: Path | None, remarks: Sequence[OwnRemark]
) -> Report:
    """The report of the dataset in `results`, from its plans, tables, figures and observations.

    `ceilings` is the file of the device's measured ceilings, if there is one; `remarks` are the
    author's.
    """
    data = read_dataset(results, ceilings)
    return _Composer(config, data, of_records.read_records(data), remarks).report()


@dataclass
class _Composer:
    """What the parts of one report share."""

    config: Mapping[str, Any]
    data: Dataset
    records: pd.DataFrame
    remarks: Sequence[OwnRemark]
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def report(self) -> Report:
        author, experiments = self.config.get("author", {}), map(self._experiment, self.experiments)
        entries = {"name": "author", "id": "student_id", "course": "course"}
        return Report(
            languages=tuple(self.config["languages"]),
            title=says("title", self.data.benchmark, of=self.data.benchmark.name),
            facts=[*self._facts()],
            notices=[*self._notices()],
            sections=[*self._front(), *experiments, *self._ending(), *self._appendix()],
            created=max(self.records.started),
            author=[
                (says(label), legible(author[entry], f"author.{entry}"))
                for entry, label in entries.items()
                if entry in author
            ],
            author_name=author.get("name", "FlashLab"),
        )

    # What is said

    @cached_property
    def observations(self) -> list[Observation]:
        return read_observations(self.data.folder / OBSERVATIONS)

    @cached_property
    def told(self) -> Mapping[str, Texts]:
        """All that is said, by language, with pointers to tables and figures."""
        refs = {}
        for s in self.experiments:
            first = [("table", str(table.number)) for table in self.tables[s.name][:1]]
            drawn = self.data.figures[s.name][::-1]
            refs[s.name] = {f["quantity"]: self.figures[s.name, f["id"]] for f in drawn}
            refs[s.name] |= dict(first)
        story = self.data.benchmark.name
        return {each: paragraphs(self.observations, each, refs, story) for each in LANGUAGES}

    def _in_each(self, told: Callable[[Texts], str]) -> Text:
        return {language: told(self.told[language]) for language in LANGUAGES}

    # The experiments

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The numbers of the configured experiments, of which an imported folder may lack some."""
        return {each["name"]: n for n, each in enumerate(self.config["experiments"], start=1)}

    @cached_property
    def experiments(self) -> list[Sweep]:
        return [s for s in self.data.sweeps if s.name in self.places]

    def _numbered(self, table: Table) -> Table:
        return replace(table, number=next(self._numbers))

    @cached_property
    def tables(self) -> Tables:
        """The tables of page one, by None, and of each experiment, numbered in this order."""
        own = OWN_TABLES.get(self.data.benchmark.name)
        made = (own and own(self.data)) or tables_of(self.data, self.titles)
        names = (None, *(s.name for s in self.experiments))
        return {name: [*map(self._numbered, made.get(name, ()))] for name in names}

    @cached_property
    def figures(self) -> dict[tuple[str, str], str]:
        """The number of each figure, by experiment and id: 1, 2, … and S1, S2, … of supplements.

        What an imported folder lacks has its numbers all the same.
        """
        found, counts = dict[tuple[str, str], str](), Counter[str]()
        for each in self.config["experiments"]:
            for figure in figures_of(each):
                kind = "S" * figure["supplement"]
                counts[kind] += 1
                found[each["name"], figure["id"]] = f"{kind}{counts[kind]}"
        return found

    @cached_property
    def drawn(self) -> list[str]:
        """The ids of the figures across experiments."""
        return list(read_json(self.data.folder / "overview" / "drawn.json"))

    @cached_property
    def titles(self) -> Mapping[str, Text]:
        return {
            name: {e: legible(of[e], f"experiment {name}: title.{e}") for e in LANGUAGES}
            for name, of in self.data.titles.items()
            if of  # the headline has none
        }

    def _experiment(self, s: Sweep) -> Section:
        number, told = self.places[s.name], self._in_each(lambda of: of.sections.get(s.name, ""))
        if not s.names:
            told = says("section.no_numbers", count=len(s.plan["runs"]))
        blocks = chapter(told, self.tables[s.name], [*self._figures(s)])
        kind = " ".join(["begin"] * (number == 1) + ["wide"] * (len(s.names) >= WIDE))
        title = says("experiment", number=number, title=self.titles[s.name])
        blocks += self._remarks(s.name)
        return Section(f"experiment-{s.name}", blocks, title, self._setting(s), kind)

    def _setting(self, s: Sweep) -> Markup:
        """What is fixed, what varies along with the sweep, and the variants."""
        benchmark = self.data.benchmark
        swept = benchmark.parameter(self.data.swept[s.name])
        runs = [benchmark.all_parameters(run) for run in s.plan["runs"]]
        runs.sort(key=lambda run: run[swept.name])
        fixed, varying, variants = list[str](), list[str](), list[Markup]()
        for parameter in benchmark.stated(runs):
            values = list(dict.fromkeys(run[parameter.name] for run in runs))
            if parameter.is_variant and parameter.words:
                words = [parameter.words[value] for value in sorted(values)]
                variants.append(in_both({e: ", ".join(w[e] for w in words) for e in LANGUAGES}))
            elif parameter.name == swept.name or parameter.stands_for:
                continue
            elif len(values) == 1:
                fixed.append(f"{parameter.symbol} = {values[0]}")
            elif not swept.stands_for:  # else a problem's own sizes
                varying.append(f"{parameter.symbol} = {', '.join(map(str, values))}")
        return Markup(" · ").join([", ".join(fixed + varying), *variants])

    # Figures

    def _figures(self, s: Sweep) -> Iterator[Figure]:
        """The figures of an experiment; a ladder's first has that of its counters too."""
        if COUNTERS in self.drawn and s.name == self.experiments[0].name:
            yield self._across(COUNTERS)
        for figure in self.data.figures[s.name]:
            path = self.data.folder / "figures" / s.name / f"{figure['id']}.svg"
            label = says("figure", number=self.figures[s.name, figure["id"]])
            caption = self._caption(s, figure)
            yield Figure(path, label, caption, self._shown(s, figure["quantity"], caption))

    def _caption(self, s: Sweep, figure: Mapping[str, Any]) -> Text:
        benchmark, quantity = self.data.benchmark, figure["quantity"]
        known, own = messages(LANGUAGES[0], "report"), f"caption.{quantity}"
        names = figure["implementations"]
        if f"{benchmark.name}.{own}.one" in known and len(names) == 1 and s.is_switch:
            return says(f"{own}.one", benchmark, name=names[0])
        marked = ".two" if len(names) <= 2 else ".many" if len(names) > MOST_LINES else ""
        for each in (f"{own}{marked * (len(s.variants) == 1)}", own):
            if f"{benchmark.name}.{each}" in known:
                return says(each, benchmark)
        curve = next((c for c in benchmark.curves if c.name == quantity), None)
        panel = None if curve else benchmark.panels(quantity)[0]
        labels = curve.labels if curve else panel.quantity.labels or panel.labels if panel else {}
        return {"zh_TW": f"{begin(labels['zh_TW'])}。", "en": f"{begin(labels['en'])}."}

    def _shown(self, s: Sweep, quantity: str, caption: Text) -> Text:
        """What a figure shows: its caption, and the sentence on what it is of."""
        about = [o for o in self.observations if (o.section, o.place) == (s.name, "section")]
        own = [o for o in about if quantity in REFERS.get(o.name, ())]
        story = self.data.benchmark.name
        return {
            each: " ".join([caption[each], *(sentence(o, each, story) for o in (own or about)[:1])])
            for each in LANGUAGES
        }

    def _across(self, figure: str) -> Figure:
        """A figure across experiments."""
        path = self.data.folder / "overview" / f"{figure}.svg"
        caption = says(f"caption.{figure}")
        shows = {each: f"{caption[each]} {self.told[each].answer}" for each in LANGUAGES}
        return Figure(path, says(f"{figure}.label"), caption, shows)

    def _remarks(self, experiment: str) -> list[Block]:
        """The author's own words, in the languages of the report; others cause a warning."""
        languages = self.config["languages"]
        found = {each.language: each for each in self.remarks if each.experiment == experiment}
        for language in found.keys() - {*languages}:
            _logger.warning(
                "%s: the remark on %s is left out, since %s is not among the languages of the "
                "report (%s)",
                *(found[language].file, experiment, language, ", ".join(languages)),
            )
        told = {each: Markup(as_html(of)) for each, of in found.items() if each in languages}
        return [Remark(told)] if told else []

    # Page one

    def _front(self) -> Iterator[Section]:
        tables, answer = self.tables[None], self._in_each(lambda texts: texts.answer)
        blocks: list[Block] = [Prose(answer, "answer")] if any(answer.values()) else []
        blocks += [*tables, *self._lines()]
        drawn = (each for each in self.drawn if not each.startswith(SPEEDS) and each != COUNTERS)
        across = [Figures([self._across(each)]) for each in drawn]
        chosen = maps(self.data) if self.data.is_of_many else []
        yield Section("key", [*blocks, *([] if chosen else across)])
        if chosen:
            yield Section("overview", [*chosen, *across], says("section.overview"))

    def _lines(self) -> Iterator[Lines]:
        """A line an experiment."""
        lines = []
        for s in self.experiments:
            text = self._in_each(lambda of, name=s.name: of.lines.get(name, ""))  # type: ignore[misc]
            if not any(text.values()):
                continue
            figure, title = f"{SPEEDS}{s.name}", self.titles[s.name]
            path = self.data.folder / "overview" / f"{figure}.svg"
            caption = says("caption.speeds", title=title)
            drawn = Figure(path, says("figure", number=""), caption, caption)
            shown = drawn if figure in self.drawn else None
            lines.append(Line(f"experiment-{s.name}", title, text, shown))
        if lines:
            yield Lines(lines, says("lines.key") if any(line.figure for line in lines) else "")

    def _facts(self) -> Iterator[Words]:
        """Device, number format, versions, runs, dates, dataset; what the names stand for."""
        records = self.records
        for column, before in (("device_name", ""), ("dtype", ""), ("torch", "torch ")):
            if found := of_records.distinct(records, column):
                yield before + ", ".join(found)
        counts = records.groupby("run").size()
        key = "files" if of_records.is_imported(records) else "one" if counts.max() < 2 else "runs"
        yield says(f"front.{key}", runs=len(counts), processes=of_records.ends(counts))
        beside = (s.plan["runs"] for s in self.data.beside if s.name != SUMMARY)
        if count := sum(map(len, beside)):
            yield says("front.others", count=count)
        days = sorted(each[:10] for each in records.started if each)
        yield "–".join(dict.fromkeys((days[0], days[-1]))) if days else ""
        local = self.config["dataset"] == "local"
        yield says("dataset.local") if local else f"data/{self.config['dataset']}"
        for name in self.data.declared:
            if self.data.benchmark.naive and not name.endswith(PACKED_TWIN):
                of = label_of(self.data, name).items()
                yield {e: t if t.startswith(name) else f"{name}: {t}" for e, t in of}

    def _notices(self) -> Iterator[tuple[str, Text]]:
        """What is to be known first."""
        if self.config.get("quick"):
            yield "preview", says("quick")
        for told in zip(*(self.told[each].notices for each in LANGUAGES), strict=True):
            yield "notice", dict(zip(LANGUAGES, told, strict=True))
        if not len(self.data.runs):
            yield "wrong", says("front.no_numbers", count=self.records.run.nunique())
        if self.data.device == "cpu":
            yield "notice", says("no_gpu", self.data.benchmark)
        if of_records.disagreements(self.records):
            yield "notice", says("disagree")

    # The end

    def _ending(self) -> Iterator[Section]:
        beginning = f"{self.data.benchmark.name}.how."
        keys = [k for k in messages(LANGUAGES[0], "report") if k.startswith(beginning)]
        names = dict.fromkeys(key.rpartition(".")[0] for key in keys)
        if names:
            parts = [(says(f"{name}.title"), says(f"{name}.text")) for name in names]
            yield Section("how", [Columns(parts)], says("section.how"), "", "begin")
        conclusion = self._in_each(lambda texts: texts.conclusion)
        if any(conclusion.values()):
            yield Section("conclusion", [Prose(conclusion, "answer")], says("section.conclusion"))

    def _appendix(self) -> Iterator[Section]:
        data, records = self.data, self.records
        method = [Prose(text, "small") for text in of_records.method(data, records)]
        yield Section("method", method, says("section.method"), "", "long")
        machine = [of_records.machine_table(data, records), of_records.warnings_table(records)]
        blocks: list[Block] = [
            Beside([self._numbered(table) for table in machine if table]),
            self._numbered(of_records.implementations_table(data, records)),
            *(Prose(each, "small") for each in of_records.notices(data, records, self.config)),
        ]
        if failed := of_records.failures_table(data):
            blocks.append(self._numbered(failed))
        yield Section("environment", blocks, says("section.environment"), "", "long")
        runs: list[Block] = [of_records.runs_table(data, records)]
        yield Section("runs", runs, says("section.runs"), "", "screen")


# The evidence


def print_statements(results: Path, language: str) -> None:
    """Print the observations of a dataset's report, each above the rows of its evidence.

    One without rows rests on its facts, which are counted or exact.
    """
    story = read_json(results / CONFIG)["benchmark"]
    for each in read_observations(results / OBSERVATIONS):
        where = ": ".join([each.section or "page one", each.name])
        print(f"[{where}] {sentence(each, language, story)}")
        for row in each.evidence or [each.facts]:
            print(f"  {canonical(row)}")
