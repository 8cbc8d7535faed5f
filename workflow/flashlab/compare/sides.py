"""The two sides of a comparison: from a name to the records behind it.

A side is `local`, a recorded dataset, a folder (of a dataset, of results, or of records alone), or
a git revision, whose kernels' records are looked up among those that this machine keeps.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from flashlab.benchmarks.implementations import find_implementations
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import find_benchmark
from flashlab.compare.revisions import RevisionError, find_commit, unpack_folder
from flashlab.config import ConfigError
from flashlab.plan.datasets import MANIFEST, dataset_folder, read_dataset, recorded_names, run_of
from flashlab.plan.make import BUNDLED, DATA, LOCAL
from flashlab.plan.plan_files import planned_documents, planned_records, process_files, results_of
from flashlab.plan.value import Plan
from flashlab.records import Record, RecordError, read_record
from flashlab.runs import Run

Side = Mapping[str, Any]
"""A side as the comparison's plan has it: its ``name`` and ``benchmark``, its ``records`` as a plan
lists those of an experiment, once a run, and the file of its device's ``ceilings``, if any."""

Files = Iterable[tuple[Run, Path, str | None]]
"""Records of processes, each with its hash where a manifest vouches for it."""


class SideError(Exception):
    """A name without records, or with records that cannot be compared."""


def _side(name: str, benchmark: Benchmark, files: Files, ceilings: Path | None = None) -> Side:
    records: dict[Run, list[dict[str, Any]]] = {}
    for run, path, sha256 in files:
        file, mine = {"path": path.as_posix(), "sha256": sha256}, records.setdefault(run, [])
        mine += [] if file in mine else [file]
    if not records:
        raise SideError(f"compare: {name} has no records of the benchmark {benchmark.name}")
    entries = [
        {"run": run.to_json(), **first, "replicates": others}
        for run, (first, *others) in records.items()
    ]
    about = {"name": name, "benchmark": benchmark.name, "records": entries}
    return {**about, "ceilings": ceilings and ceilings.as_posix()}


def side_files(side: Side) -> list[str]:
    """Every file that a side is read from."""
    files = [file["path"] for entry in side["records"] for file in process_files(entry)]
    return [*files, *filter(None, [side["ceilings"]])]


def _planned(benchmark: Benchmark, entries: Iterable[Mapping[str, Any]]) -> Files:
    """The records of a benchmark that a plan names (`plan_files.planned_records`)."""
    for entry in entries:
        if entry["benchmark"] == benchmark.name:
            for file in process_files(entry):
                yield run_of(entry), Path(file["path"]), file["sha256"]


def _dataset_side(name: str, folder: Path, benchmark: Benchmark) -> Side:
    """The records of a dataset that were measured by its own protocol."""
    dataset, parameters = read_dataset(folder), [p.name for p in benchmark.given]
    files = (
        (entry.run, entry.path, entry.sha256)
        for entry in dataset.entries
        if entry.protocol["name"] == dataset.protocol and list(entry.run) == parameters
    )
    return _side(name, benchmark, files, dataset.ceilings)


def _records_in(folder: Path) -> Iterator[tuple[Path, Record]]:
    """The records of runs in a folder, without those of counters and files that are no records."""
    for path in sorted(folder.glob("*.json")):
        try:
            record = read_record(path)
        except RecordError:
            continue
        if not record.has_counters:
            yield path, record


def _newest_side(name: str, benchmark: Benchmark, records: Iterable[tuple[Path, Record]]) -> Side:
    """Of each run and process the newest of these records, by the most frequent protocol."""
    ours = [(path, record) for path, record in records if record.benchmark == benchmark.name]
    protocols = Counter(record.protocol["name"] for _, record in ours)
    newest = {
        (record.run, record.process): path
        for path, record in sorted(ours, key=lambda item: item[1].started)
        if record.protocol["name"] == max(protocols, key=protocols.__getitem__)
    }
    return _side(name, benchmark, ((run, newest[run, of], None) for run, of in sorted(newest)))


def _folder_side(name: str, folder: Path, benchmark: Benchmark) -> Side:
    if (folder / MANIFEST).is_file():
        return _dataset_side(name, folder, benchmark)
    if (folder / "plan" / "experiments.json").is_file():
        # Where the plan says is where they were when it was made.
        planned = _planned(benchmark, planned_records(folder))
        files = ((run, folder / "records" / path.name, sha256) for run, path, sha256 in planned)
        return _side(name, benchmark, files)
    records = folder / "records" if (folder / "records").is_dir() else folder
    return _newest_side(name, benchmark, _records_in(records))


def _revision_side(name: str, commit: str, results: Path, benchmark: Benchmark) -> Side:
    """The records here of the kernels as they were at a commit, the newest of each."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            unpack_folder(commit, "kernels", Path(folder))
        except RevisionError as error:
            raise SideError(f"compare: git has no folder kernels/ at {commit}") from error
        kernels = find_implementations(Path(folder, benchmark.kernels), benchmark.entry_point)
    digests = {kernel.digest for kernel in kernels.values()}
    every = _records_in(results / "records")
    records = [each for each in every if each[1].sources.get("implementation_digest") in digests]
    if not records:
        raise SideError(
            f"compare: {results / 'records'} has no records of the kernels at {name}; measure "
            f"them: git worktree add ../{commit[:12]} {commit[:12]}, call snakemake --cores 1 "
            f"records there, and compare the folder ../{commit[:12]}/{results}"
        )
    return _newest_side(name, benchmark, records)


def comparison_plan(plan: Plan) -> dict[str, Any]:
    """The sides that the configuration's ``compare`` names; this call plans the records of `local`.

    ConfigError for a side that is none, and where a dataset is to be reported besides.
    """
    if plan.dataset != LOCAL:
        raise ConfigError("--config: compare: it names both sides; leave out dataset= and import=")
    benchmark = find_benchmark(plan.benchmark)
    ceilings = Path(plan.ceilings) if plan.ceilings else None
    planned = [*_planned(benchmark, planned_documents(plan.views))]
    try:
        sides = [
            _side(name, benchmark, planned, ceilings)
            if name == LOCAL
            else find_side(name, benchmark)
            for name in plan.config["compare"]
        ]
    except (RecordError, SideError) as error:
        raise ConfigError(str(error)) from None
    return {"sides": sides, "languages": plan.config["languages"]}


def find_side(name: str, benchmark: Benchmark) -> Side:
    """The side that a name stands for, with the records of a benchmark.

    `local`, a recorded dataset, a folder, or a git revision, tried in this order; records of
    revisions are among the results of `local`.

    Raises:
        SideError: the name stands for none of these, or for no records.
        DatasetError, RecordError: a manifest or a record cannot be read.
    """
    results = results_of(LOCAL, benchmark)
    if name == LOCAL:
        if not (results / "plan" / "experiments.json").is_file():
            raise SideError(
                f"compare: nothing has been measured here yet ({results} has no plan); call "
                "snakemake --cores 1 records"
            )
        return _side(name, benchmark, _planned(benchmark, planned_records(results)))
    for data in (DATA, BUNDLED):
        folder = dataset_folder(data, name, benchmark)
        if (folder / MANIFEST).is_file():
            return _dataset_side(name, folder, benchmark)
    if Path(name).is_dir():
        return _folder_side(name, Path(name), benchmark)
    if commit := find_commit(name):
        return _revision_side(name, commit, results, benchmark)
    recorded = {dataset for data in (DATA, BUNDLED) for dataset in recorded_names(data, benchmark)}
    datasets = ", ".join(sorted(recorded)) or "there is none"
    raise SideError(
        f"compare: {name} is neither a recorded dataset ({datasets}) nor a folder nor a git "
        "revision; `local` stands for what is measured here"
    )
