"""The two sides of a comparison: from a name to the records behind it.

A side is `local`, a recorded dataset, a folder (of a dataset, of results, or of records alone), or
a git revision, whose kernels' records are looked up among those that this machine keeps.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashlab.archives import unpack
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import DEFAULT, find_benchmark
from flashlab.files import read_json
from flashlab.plan.datasets import MANIFEST, dataset_folder, read_dataset, recorded_names
from flashlab.plan.implementations import find_implementations
from flashlab.plan.plan_files import planned_records, process_files, results_of
from flashlab.plan.source import BUNDLED, DATA, LOCAL
from flashlab.records import Record, RecordError, parse_record, read_record
from flashlab.runs import Run


class SideError(Exception):
    """A name without records, or with records that cannot be compared."""


@dataclass(frozen=True)
class File:
    """A record's file; its hash where a manifest vouches for it."""

    path: Path
    sha256: str | None = None


@dataclass(frozen=True)
class Side:
    """The records of one side: of each run, the file of each process."""

    name: str
    benchmark: Benchmark
    files: Mapping[Run, Sequence[File]]

    def to_json(self) -> dict[str, Any]:
        """The side as it stands in the comparison's plan."""
        return {
            "name": self.name,
            "benchmark": self.benchmark.name,
            "runs": [
                {
                    "run": run.to_json(),
                    "files": [{"path": f.path.as_posix(), "sha256": f.sha256} for f in files],
                }
                for run, files in sorted(self.files.items())
            ],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Side:
        """Inverse of `to_json`."""
        benchmark = find_benchmark(document["benchmark"])
        files = {
            Run.of(benchmark, entry["run"]): [
                File(Path(file["path"]), file["sha256"]) for file in entry["files"]
            ]
            for entry in document["runs"]
        }
        return cls(document["name"], benchmark, files)

    @property
    def paths(self) -> list[Path]:
        """Every record's file."""
        return [file.path for files in self.files.values() for file in files]

    def read(self) -> dict[Run, list[Record]]:
        """The records of each run; RecordError for one that is missing or damaged."""
        return {
            run: [read_record(file.path, run, file.sha256) for file in files]
            for run, files in self.files.items()
        }


def _side(name: str, benchmark: Benchmark, found: Iterable[tuple[Run, File]]) -> Side:
    files: dict[Run, list[File]] = {}
    for run, file in found:
        if file not in files.setdefault(run, []):
            files[run].append(file)
    if not files:
        raise SideError(f"compare: {name} has no records of the benchmark {benchmark.name}")
    return Side(name, benchmark, files)


def planned_side(
    name: str,
    benchmark: Benchmark,
    entries: Iterable[Mapping[str, Any]],
    folder: Path | None = None,
) -> Side:
    """The records of a benchmark that a plan names (`plan_files.planned_records`).

    `folder` is where they are now, if not where the plan says.
    """
    return _side(
        name,
        benchmark,
        (
            (
                Run.of(benchmark, entry["run"]),
                File(folder / Path(f["path"]).name if folder else Path(f["path"]), f["sha256"]),
            )
            for entry in entries
            if entry["benchmark"] == benchmark.name
            for f in process_files(entry)
        ),
    )


def _dataset_side(name: str, folder: Path, benchmark: Benchmark) -> Side:
    """The records of a dataset that were measured by its own protocol."""
    dataset = read_dataset(folder)
    parameters = [parameter.name for parameter in benchmark.given]
    return _side(
        name,
        benchmark,
        (
            (entry.run, File(entry.path, entry.sha256))
            for entry in dataset.entries
            if entry.protocol["name"] == dataset.protocol and list(entry.run) == parameters
        ),
    )


def read_records(folder: Path) -> Iterator[tuple[Path, Record]]:
    """Every record in a folder that holds metrics; files that are no records are passed over."""
    for path in sorted(folder.glob("*.json")):
        try:
            record = parse_record(read_json(path), str(path))
        except (RecordError, ValueError):
            continue
        if not record.has_counters:
            yield path, record


def newest_side(name: str, benchmark: Benchmark, found: Iterable[tuple[Path, Record]]) -> Side:
    """Of each run and process the newest of these records, by the most frequent protocol."""
    known = [(path, record) for path, record in found if record.benchmark == benchmark.name]
    protocols = Counter(record.protocol["name"] for _, record in known)
    newest: dict[tuple[Run, int], tuple[Path, Record]] = {}
    for path, record in known:
        if record.protocol["name"] != protocols.most_common(1)[0][0]:
            continue
        key = (record.run, record.process)
        if key not in newest or newest[key][1].started <= record.started:
            newest[key] = path, record
    entries = sorted(newest.items(), key=lambda item: item[0])
    return _side(name, benchmark, ((run, File(path)) for (run, _), (path, _) in entries))


def _folder_side(name: str, folder: Path, benchmark: Benchmark) -> Side:
    if (folder / MANIFEST).is_file():
        return _dataset_side(name, folder, benchmark)
    if (folder / "plan" / "experiments.json").is_file():
        return planned_side(name, benchmark, planned_records(folder), folder / "records")
    records = folder / "records" if (folder / "records").is_dir() else folder
    return newest_side(name, benchmark, read_records(records))


def _git(*arguments: str) -> bytes | None:
    """What git prints, None where it is missing or fails."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout


def _digests_at(commit: str, benchmark: Benchmark) -> dict[str, str]:
    """The digest of each implementation's kernel at a commit."""
    packed = _git("archive", commit, "kernels")
    if packed is None:
        raise SideError(f"compare: git has no folder kernels/ at {commit}")
    with tempfile.TemporaryDirectory() as folder:
        unpack(packed, folder)
        kernels = Path(folder, "kernels", benchmark.kernels)
        found = find_implementations(kernels, benchmark.entry_point)
        return {name: implementation.digest for name, implementation in found.items()}


def _revision_side(name: str, commit: str, results: Path, benchmark: Benchmark) -> Side:
    """The records here of the kernels as they were at a commit, the newest of each."""
    digests = _digests_at(commit, benchmark)
    records = (
        (path, record)
        for path, record in read_records(results / "records")
        if record.sources.get("implementation_digest")
        == digests.get(record.run.implementation, "none")
    )
    try:
        return newest_side(name, benchmark, records)
    except SideError:
        raise SideError(
            f"compare: {results / 'records'} has no records of the kernels at {name}; measure "
            f"them: git worktree add ../{commit[:12]} {commit[:12]}, call snakemake --cores 1 "
            f"records there, and compare the folder ../{commit[:12]}/{results}"
        ) from None


def find_side(name: str, benchmark: Benchmark = DEFAULT, results: Path | None = None) -> Side:
    """The side that a name stands for.

    Args:
        name: `local`, a recorded dataset, a folder, or a git revision, tried in this order.
        benchmark: whose records to take.
        results: the folder of the results of `local`, where records of revisions are kept too;
            None for that of this folder.

    Raises:
        SideError: the name stands for none of these, or for no records.
        DatasetError, RecordError: a manifest or a record cannot be read.
    """
    results = results or results_of(LOCAL, benchmark)
    if name == LOCAL:
        if not (results / "plan" / "experiments.json").is_file():
            raise SideError(
                f"compare: nothing has been measured here yet ({results} has no plan); call "
                "snakemake --cores 1 records"
            )
        return planned_side(name, benchmark, planned_records(results))
    for data in (DATA, BUNDLED):
        folder = dataset_folder(data, name, benchmark)
        if (folder / MANIFEST).is_file():
            return _dataset_side(name, folder, benchmark)
    if Path(name).is_dir():
        return _folder_side(name, Path(name), benchmark)
    commit = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if commit is not None:
        return _revision_side(name, commit.decode().strip(), results, benchmark)
    known = {each for data in (DATA, BUNDLED) for each in recorded_names(data, benchmark)}
    datasets = ", ".join(sorted(known)) or "there is none"
    raise SideError(
        f"compare: {name} is neither a recorded dataset ({datasets}) nor a folder nor a git "
        "revision; `local` stands for what is measured here"
    )
