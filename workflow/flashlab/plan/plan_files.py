"""The plan's files in a dataset's folder of results, which the later stages read.

These import this module rather than `flashlab.plan.make`, which depends on the machine, the kernels
and the recorded datasets: an edit to those reruns no stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import DEFAULT
from flashlab.files import read_json

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
