"""The results of a planted report: every stage from records to figures, as the rules call them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flashlab.analysis.experiment import OBSERVATIONS
from flashlab.analysis.frames import Dataset, read_dataset
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

    def write(self, folder: Path, drawn: Sequence[str] | None = None) -> None:
        """Write the results into a folder: with the figures, or as if these were `drawn`."""
        self._tabulate(folder)
        observe(folder, None, folder / OBSERVATIONS)
        if drawn is None:
            draw_figures(folder, None, folder / FIGURES, folder / "overview")
        else:
            write_json(folder / "overview" / "drawn.json", list(drawn))

    def dataset(self, folder: Path) -> Dataset:
        """Write the plan, the records and the tables into a folder; these as frames."""
        self._tabulate(folder)
        return read_dataset(folder)

    def _tabulate(self, folder: Path) -> None:
        config = {"anonymous": False, "quick": False, **self.config}
        experiments = experiments_of(config, self.benchmark, self.kind)
        processes, counters = dict[Run, list[Entry]](), dict[Run, Entry]()
        for run in runs_of(experiments):
            record = self.record(run)
            for process in range(self.processes):
                path = folder / "records" / f"{run.slug}-{process}.json"
                write_record(path, replace(record, sources={**record.sources, "process": process}))
                processes.setdefault(run, []).append(Entry(run, {}, path, None, process))
            if (counted := self.counters(run)) is not None:
                path = folder / "records" / f"counters-{run.slug}.json"
                write_record(path, counted)
                counters[run] = Entry(run, {}, path, None)
        kernels, planned = implementations_of(self.benchmark), Planned(processes, counters)
        for name, view in views_of(
            self.benchmark, kernels, config, folder, experiments, planned
        ).items():
            write_json(Path(name), view)
        write_json(folder / CONFIG, self.config)
        make_tables(folder, None, folder / "tables")
