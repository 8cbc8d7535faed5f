"""The paths of the plan's files, and readers of them for the later stages.

The stages after the records import this module rather than `flashlab.plan.make`, which depends
on the machine, the kernels and the recorded datasets: an edit to those reruns no stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import DEFAULT
from flashlab.files import read_json

SUMMARY = "summary"
"""Name of the headline table, which is planned like an experiment of one shape."""


OTHERS_PREFIX = "others-"
"""Prefix of the experiments of an imported folder's settings that are in no sweep, one for each."""


def planned_experiments(results: Path) -> list[str]:
    """The names of all planned experiments, the headline among them."""
    names: list[str] = read_json(results / "plan" / "experiments.json")
    return names


def experiment_file(results: Path, experiment: str) -> Path:
    """The experiment's plan for figures and the report: sweep, implementations, styles, figures."""
    return results / "plan" / "experiments" / f"{experiment}.json"


def sweep_file(results: Path, experiment: str) -> Path:
    """The experiment's plan without figures, for the stages that read only measurements."""
    return results / "plan" / "sweeps" / f"{experiment}.json"


def titles_file(results: Path) -> Path:
    """The experiments' titles by name, apart from their plans: few stages show them."""
    return results / "plan" / "titles.json"


def records_file(results: Path, experiment: str) -> Path:
    """The list of an experiment's records with their hashes, from which its tables are made."""
    return results / "plan" / "records" / f"{experiment}.json"


def results_of(dataset: str, benchmark: Benchmark) -> Path:
    """The folder of a dataset's results, one for each benchmark."""
    name = dataset if benchmark == DEFAULT else f"{dataset}-{benchmark.name}"
    return Path("results", name)


def planned_records(results: Path) -> list[dict[str, Any]]:
    """The entries of all planned records, once for each experiment.

    Each holds ``benchmark``, ``run``, ``path`` and ``sha256``; ``replicates``, a list with the path
    and the hash of each further process; and ``counters`` with another path and hash where the run
    has any.

    Raises:
        OSError, ValueError, KeyError: there is no plan, or it cannot be read.
    """
    files = [records_file(results, name) for name in planned_experiments(results)]
    return planned_documents({file.as_posix(): read_json(file) for file in files})


def planned_documents(documents: Mapping[str, Any]) -> list[dict[str, Any]]:
    """As `planned_records`, of a plan that is not written yet: its documents by their paths."""
    folder = ("plan", "records")
    plans = [plan for name, plan in documents.items() if Path(name).parts[-3:-1] == folder]
    return [
        {"benchmark": plan["benchmark"], **entry} for plan in plans for entry in plan["records"]
    ]


def process_files(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The path and the hash of the record of each process that an entry of a plan names."""
    return [entry, *entry.get("replicates", ())]


def record_paths(results: Path) -> list[Path]:
    """The files of all planned records and counters, each once, by name."""
    entries = planned_records(results)
    parts = [part for entry in entries for part in (*process_files(entry), entry.get("counters"))]
    return sorted({Path(part["path"]) for part in parts if part}, key=lambda path: path.name)
