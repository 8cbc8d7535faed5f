"""The results of a planted report: every stage from records to figures, as the rules call them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flashlab.analysis.experiment import OBSERVATIONS
from flashlab.analysis.stage import make_tables
from flashlab.benchmarks.implementations import implementations_of
from flashlab.benchmarks.model import Benchmark
from flashlab.figures.stage import draw_figures
from flashlab.files import write_json
from flashlab.plan.datasets import Entry
from flashlab.plan.experiments import experiments_of, runs_of
from flashlab.plan.plan_files import CONFIG
from flashlab.plan.runs import Planned
from flashlab.plan.views import views_of
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
    processes: int = 1

    def write(self, folder: Path, drawn: Sequence[str] | None = None) -> Path:
        """Write the results into a folder, and return it: with the figures, or as if `drawn`."""
        self.tabulate(folder)
        overview = folder / "overview"
        observe(folder, None, folder / OBSERVATIONS)
        if drawn is None:
            draw_figures(folder, None, folder / FIGURES, overview)
        else:
            write_json(overview / "drawn.json", list(drawn))
        return folder

    def tabulate(self, folder: Path) -> None:
        """Write the plan, the records and the tables into a folder."""
        config = {"anonymous": False, "quick": False, **self.config}
        experiments = experiments_of(config, self.benchmark, self.kind)
        kernels = implementations_of(self.benchmark)
        records, counters = folder / "records", dict[Run, Entry]()
        planned = {run: self._record(run, records) for run in runs_of(experiments)}
        for run in planned:
            if (counted := self.counters(run)) is not None:
                path = records / f"counters-{run.slug}.json"
                write_record(path, counted)
                counters[run] = Entry(run, {}, path, None)
        views = views_of(
            self.benchmark, kernels, config, folder, experiments, Planned(planned, counters)
        )
        for name, view in views.items():
            write_json(Path(name), view)
        write_json(folder / CONFIG, self.config)
        make_tables(folder, None, folder / "tables")

    def _record(self, run: Run, records: Path) -> list[Entry]:
        planned = []
        for process in range(self.processes):
            path = records / f"{run.slug}{f'-process{process}' * bool(process)}.json"
            record = self.record(run)
            sources = {**record.sources, "process": process} if process else record.sources
            write_record(path, replace(record, sources=sources))
            planned.append(Entry(run, {}, path, None, process))
        return planned

    def compose(self, home: Path) -> Report:
        """The report as data."""
        return compose(self.config, home, None, [])
