"""The plan of a call as one frozen value, its files, and readers of them for the later stages.

These import this module rather than `flashlab.plan.make`, which depends on the machine, the kernels
and the recorded datasets: an edit to those reruns no stage.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import DEFAULT
from flashlab.files import json_text, open_atomically, read_json

FILE = Path("results", "plan.json")
"""The plan of the last call in a folder: a job that reads the rules again, on a node, reads it."""

CONFIG, LANGUAGES = "plan/config.json", "plan/languages.json"
"""The configuration as a report shows it, and its languages."""
EXPERIMENTS = "plan/experiments.json"
"""The experiments by name, the headline among them: sweep, implementations, styles, runs."""
FIGURES, TITLES = "plan/figures.json", "plan/titles.json"
"""Each experiment's figures, and its title, by its name: few stages need these."""
RECORDS = "plan/records.json"
"""The records of each experiment, from which its tables are made."""

SUMMARY = "summary"
"""Name of the headline table, which is planned like an experiment of one shape."""


@dataclass(frozen=True)
class Plan:
    """What a call makes: runs, their files and order, and what of them is not as it should be.

    Paths are relative to the working directory. `home` is the folder of the results, `report` the
    stem of the report's name. `experiments` have the files of their records and of their
    `counters`. `orders` are what to measure, in that order, and `imports` what to convert, by
    record; both are empty where records are recorded. `views` are what single stages read, by path.
    `redo` are the planned files that are missing, damaged or asked for `again`, each with the
    reason; `notices` say how imported files were read, and `upgrades` why runs that were measured
    before are measured again. `config` is the resolved configuration.
    """

    benchmark: str
    report: str
    dataset: str
    home: str
    device: str
    device_name: str
    config: Mapping[str, Any]
    experiments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    counters: Sequence[str] = ()
    ceilings: str | None = None
    orders: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    imports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    redo: Mapping[str, str] = field(default_factory=dict)
    notices: Sequence[str] = ()
    upgrades: Sequence[str] = ()
    views: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def records(self) -> list[str]:
        """The files of all records and counters, each once."""
        return sorted({file for files in self.experiments.values() for file in files})

    def view(self, name: str) -> Any:
        """What stages read in a file of `flashlab.plan.plan_files`; nothing of one not planned."""
        return self.views.get(f"{self.home}/{name}", {})


def write_views(views: Mapping[str, Any], folder: Path = Path()) -> None:
    """Write documents below a folder.

    In the working directory one that is there already is left as it is: a new time means new
    content. For a dry run, elsewhere, it keeps the modification time that it has here.
    """
    for path, document in views.items():
        here, target, text = Path(path), folder / path, json_text(document)
        is_there = here.is_file() and here.read_bytes() == text.encode()
        if not is_there:
            with open_atomically(target, durable=folder == Path()) as file:
                file.write(text)
        elif folder != Path():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(here, target)


def read_plan() -> Plan:
    """The plan of the call that a job belongs to."""
    return Plan(**read_json(FILE))


def results_of(dataset: str, benchmark: Benchmark) -> Path:
    """The folder of a dataset's results, one for each benchmark."""
    name = dataset if benchmark == DEFAULT else f"{dataset}-{benchmark.name}"
    return Path("results", name)


def planned_records(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entries of all records that a document `RECORDS` has, once for each experiment.

    Each holds ``run``, ``path`` and ``sha256``; ``replicates``, a list with the path and the hash
    of each further process; and ``counters`` with another path and hash where the run has any.
    """
    return [entry for records in plan.get("experiments", {}).values() for entry in records]


def process_files(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The path and the hash of the record of each process that an entry of a plan names."""
    return [entry, *entry.get("replicates", ())]


def record_paths(results: Path) -> list[Path]:
    """The files of all planned records and counters, each once, by name.

    Raises:
        OSError, ValueError, KeyError: there is no plan, or it cannot be read.
    """
    entries = planned_records(read_json(results / RECORDS))
    parts = [part for entry in entries for part in (*process_files(entry), entry.get("counters"))]
    return sorted({Path(part["path"]) for part in parts if part}, key=lambda path: path.name)
