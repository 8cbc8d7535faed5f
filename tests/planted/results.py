"""The results of a planted report: every stage from records to figures, as the rules call them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flashlab.analysis.experiment import OBSERVATIONS
from flashlab.analysis.stage import make_tables
from flashlab.benchmarks.implementations import Implementation, implementations_of
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import BENCHMARKS
from flashlab.figures.stage import draw_figures, draw_overview
from flashlab.files import read_json, write_json
from flashlab.plan import planning as plan
from flashlab.plan.documents import experiment_document, records_document
from flashlab.plan.plan_files import experiment_file, records_file, sweep_file, titles_file
from flashlab.records import Record, write_record
from flashlab.report.content import compose
from flashlab.report.document import Report
from flashlab.report.render import FIGURES
from flashlab.runs import Run
from flashlab.story.stage import observe


@dataclass(frozen=True)
class PlantedReport:
    """A report whose records are planted.

    `kind` is the number format and the kind of device, `counters` gives the record of a run's
    counters where they were read. Each run is measured alike in `processes`.
    """

    benchmark: Benchmark
    config: Mapping[str, Any]
    kind: tuple[str, str]
    record: Callable[[Run], Record]
    counters: Callable[[Run], Record | None] = lambda run: None
    implementations: Mapping[str, Implementation] | None = None
    processes: int = 1

    @contextmanager
    def declared(self) -> Iterator[None]:
        """The benchmark is among those that there are."""
        before = dict(BENCHMARKS)
        BENCHMARKS[self.benchmark.name] = self.benchmark  # type: ignore[index]
        yield
        BENCHMARKS.clear()  # type: ignore[attr-defined]
        BENCHMARKS.update(before)  # type: ignore[attr-defined]

    def write(self, folder: Path, drawn: Sequence[str] | None = None) -> Path:
        """Write the results into a folder, and return it: with the figures, or as if `drawn`."""
        plans = self.tabulate(folder)
        languages, tables = folder / "plan" / "languages.json", folder / "tables"
        overview = folder / "overview"
        observe(plans, tables, None, folder / OBSERVATIONS)
        if drawn is None:
            comparisons = folder / "comparisons.csv"
            draw_overview(plans, tables, comparisons, languages, overview)
            draw_figures(plans, tables, None, languages, 1, folder / FIGURES)
        else:
            write_json(overview / "drawn.json", list(drawn))
        return folder

    def tabulate(self, folder: Path) -> list[Path]:
        """Write the plan, the records and the tables into a folder; the experiments' plans."""
        experiments = plan.experiments(self.config, self.benchmark, self.kind[1])
        kernels = self.implementations or implementations_of(self.benchmark)
        planned = {}
        for run in {run for experiment in experiments for run in experiment.runs(*self.kind)}:
            planned[run] = self._record(run, folder / "records")
        write_json(folder / "plan" / "experiments.json", [each.name for each in experiments])
        write_json(folder / "plan" / "config.json", self.config)
        write_json(titles_file(folder), {each.name: each.title for each in experiments})
        write_json(folder / "plan" / "languages.json", self.config["languages"])
        plans = []
        for each in experiments:
            plans.append(experiment_file(folder, each.name))
            write_json(plans[-1], experiment_document(each, kernels, self.config, *self.kind))
            records = records_file(folder, each.name)
            write_json(records, records_document(each, planned, kernels, *self.kind))
            write_json(sweep_file(folder, each.name), read_json(plans[-1]))
        make_tables(folder, None, folder / "tables")
        return plans

    def _record(self, run: Run, records: Path) -> plan.PlannedRun:
        planned = []
        for process in range(self.processes):
            path = records / f"{run.slug}{f'-process{process}' * bool(process)}.json"
            record = self.record(run)
            sources = {**record.sources, "process": process} if process else record.sources
            write_record(path, replace(record, sources=sources))
            planned.append(plan.PlannedRun(run, path, process=process))
        counted = None
        if (counters := self.counters(run)) is not None:
            counted = plan.PlannedRun(run, records / f"counters-{run.slug}.json")
            write_record(counted.path, counters)
        return replace(plan.with_replicates(planned), counters=counted)

    def compose(self, home: Path) -> Report:
        """The report as data."""
        return compose(self.config, home, None, [])
