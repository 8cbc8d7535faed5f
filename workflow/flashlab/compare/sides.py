"""What is compared, by name: the records of two sides, or the implementations of a bench.

A side is `local`, a recorded dataset, a folder (of a dataset, of results, or of records alone), or
a git revision, whose kernels' records are looked up among those that this machine keeps. An
implementation is one of ``kernels/``, a file, or a file at a git revision.
"""

from __future__ import annotations

import os
import subprocess
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

from flashlab.benchmarks import implementations
from flashlab.benchmarks.implementations import Implementation, ImplementationError
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import find_benchmark
from flashlab.config import ConfigError
from flashlab.files import read_json
from flashlab.plan.datasets import MANIFEST, dataset_folder, read_dataset, recorded_names
from flashlab.plan.make import BUNDLED, DATA, LOCAL
from flashlab.plan.plan_files import RECORDS, Plan, planned_records, process_files, results_of
from flashlab.records import Record, RecordError, read_record
from flashlab.runs import Run
from flashlab.usage import UsageError

Side = Mapping[str, Any]
"""A side as the comparison's plan has it: its ``name`` and ``benchmark``, its ``records`` as a plan
lists those of an experiment, once a run, and the file of its device's ``ceilings``, if any."""

Files = Iterable[tuple[Run, Path, str | None]]
"""Records of processes, each with its hash where a manifest vouches for it."""


class SideError(ConfigError):
    """A name that stands for nothing, or for records that cannot be compared."""


def _side(name: str, benchmark: Benchmark, files: Files, ceilings: Path | None = None) -> Side:
    records: dict[Run, list[dict[str, Any]]] = {}
    for run, path, sha256 in dict.fromkeys(files):
        records.setdefault(run, []).append({"path": path.as_posix(), "sha256": sha256})
    if not records:
        raise SideError(f"compare: {name} has no records of the benchmark {benchmark.name}")
    entries = [{"run": r.to_json(), **of[0], "replicates": of[1:]} for r, of in records.items()]
    about = {"name": name, "benchmark": benchmark.name, "records": entries}
    return {**about, "ceilings": ceilings and ceilings.as_posix()}


def _planned(benchmark: Benchmark, plan: Mapping[str, Any]) -> Files:
    """The records of a benchmark that a plan names (`plan_files.RECORDS`)."""
    for entry in planned_records(plan) if plan["benchmark"] == benchmark.name else ():
        for file in process_files(entry):
            yield Run.of(benchmark, entry["run"]), Path(file["path"]), file["sha256"]


def comparison_plan(plan: Plan) -> dict[str, Any]:
    """The sides that the configuration's ``compare`` names, and all files that they are read from.

    This call plans the records of `local`. ConfigError for a side that is none, and where a dataset
    is to be reported besides.
    """
    if plan.dataset != LOCAL:
        raise ConfigError("--config: compare: it names both sides; leave out dataset= and import=")
    benchmark = find_benchmark(plan.benchmark)
    sides = [find_side(name, benchmark, plan) for name in plan.config["compare"]]
    files = [f["path"] for side in sides for each in side["records"] for f in process_files(each)]
    files += filter(None, [side["ceilings"] for side in sides])
    # What this call does not make, such as a revision's records here, is no rule's output.
    files = [f if f in plan.orders or f == plan.ceilings else os.path.abspath(f) for f in files]
    return {"sides": sides, "languages": plan.config["languages"], "files": files}


def find_side(name: str, benchmark: Benchmark, plan: Plan | None = None) -> Side:
    """The side that a name stands for, with the records of a benchmark.

    `local`, a recorded dataset, a folder, or a git revision, tried in this order; records of
    revisions are among the results of `local`, which are those of a `plan` if a call has one. Of a
    dataset these are the records that were measured by its own protocol. SideError where the name
    stands for none of these, or for no records; DatasetError for a manifest that cannot be read.
    """
    if name == LOCAL and plan:
        ceilings = Path(plan.ceilings) if plan.ceilings else None
        return _side(name, benchmark, _planned(benchmark, plan.view(RECORDS)), ceilings)
    results = results_of(LOCAL, benchmark)
    datasets = [dataset_folder(data, name, benchmark) for data in (DATA, BUNDLED)]
    for folder in [results] if name == LOCAL else [*datasets, Path(name)]:
        if (folder / MANIFEST).is_file():
            dataset, given = read_dataset(folder), [p.name for p in benchmark.given]
            own = (e for e in dataset.entries if e.protocol["name"] == dataset.protocol)
            files = ((e.run, e.path, e.sha256) for e in own if [*e.run] == given)
            return _side(name, benchmark, files, dataset.ceilings)
        if (folder / RECORDS).is_file():
            # Those of a dataset, of which it knows the hash, are there; others are beside the plan.
            planned, beside = _planned(benchmark, read_json(folder / RECORDS)), folder / "records"
            kept = dict.fromkeys((r, p if sha else beside / p.name, sha) for r, p, sha in planned)
            if lacking := [path for _, path, _ in kept if not path.is_file()]:
                count = f"{len(lacking)} of its {len(kept)} records"
                raise SideError(f"compare: {name} lacks {count}, such as {lacking[0]}")
            return _side(name, benchmark, kept)
    if name == LOCAL:
        raise SideError(
            f"compare: nothing has been measured here yet ({results} has no plan); call "
            "snakemake --cores 1 records"
        )
    if (folder := Path(name)).is_dir():
        records = folder / "records"
        return _side(name, benchmark, _newest(records if records.is_dir() else folder, benchmark))
    return _side_of_revision(name, benchmark, results)


def _newest(folder: Path, benchmark: Benchmark, digests: set[str] | None = None) -> Files:
    """Of each run and process the newest record in a folder, by the most frequent protocol.

    Of kernels with these digests, if any are given, and of a run's newest kernel alone. Counters,
    and what is no record, is passed by.
    """
    found: list[tuple[Path, Record]] = []
    for path in sorted(folder.glob("*.json")):
        with suppress(RecordError):
            record = read_record(path)
            is_asked = digests is None or record.sources.get("implementation_digest") in digests
            if record.benchmark == benchmark.name and is_asked and not record.has_counters:
                found.append((path, record))
    protocols = Counter(record.protocol["name"] for _, record in found)
    usual = max(protocols, key=protocols.__getitem__, default="")
    found = sorted((f for f in found if f[1].protocol["name"] == usual), key=lambda f: f[1].started)
    kernels = {record.run: record.sources.get("implementation_digest") for _, record in found}
    newest = {
        (record.run, record.process): path
        for path, record in found
        if record.sources.get("implementation_digest") == kernels[record.run]
    }
    return [(run, newest[run, process], None) for run, process in sorted(newest)]


def _side_of_revision(name: str, benchmark: Benchmark, results: Path) -> Side:
    """The records among some results of the kernels at a git revision."""
    with tempfile.TemporaryDirectory() as unpacked:
        try:
            unpack_folder(name, "kernels", Path(unpacked))
        except SideError as error:
            named = {each for data in (DATA, BUNDLED) for each in recorded_names(data, benchmark)}
            raise SideError(
                f"compare: {name} is neither a recorded dataset ({', '.join(sorted(named))}) nor a "
                f"folder nor a git revision with kernels ({error}); `local` stands for what is "
                "measured here"
            ) from error
        folder = Path(unpacked, benchmark.kernels)
        kernels = implementations.find_implementations(folder, benchmark.entry_point)
    digests = {kernel.digest for kernel in kernels.values()}
    if files := _newest(results / "records", benchmark, digests):
        return _side(name, benchmark, files)
    raise SideError(
        f"compare: {results / 'records'} has no records of the kernels at {name}; measure them: "
        f"git worktree add --detach ../base {name}, call snakemake --cores 1 records there, and "
        f"compare the folder ../base/{results}"
    )


# Revisions


def _git(*arguments: str) -> bytes:
    """The standard output of a git command; SideError where it fails."""
    try:
        return subprocess.run(["git", *arguments], capture_output=True, check=True).stdout
    except FileNotFoundError as error:
        raise SideError("git is not installed, and a revision was asked for") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines() or ["failed"]
        raise SideError(f"git: {said[-1].removeprefix('fatal: ')}") from error


def unpack_folder(revision: str, path: str, into: Path) -> None:
    """Write a folder's files, relative to this one, at a revision; SideError as of `_git`."""
    archive = _git("archive", "--format=tar", "--end-of-options", f"{revision}:./{path}")
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        # Python's rules for data, which 3.11 has from 3.11.4 on; the repository is the user's own.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(into)


# Implementations


def find_targets(texts: Sequence[str], folder: str) -> dict[str, Implementation]:
    """The implementations that the arguments name, the first of which the others are compared with.

    Each is a NAME of ``kernels/``, the path of a file, or REVISION:PATH, with the path relative to
    the working directory. Of a revision, all beside the file goes below `folder`, so that it
    imports what lay there then. The same text twice is the same code twice; the labels tell them
    apart. UsageError where there is no such name, file or revision, or the file is no kernel.
    """
    found: dict[str, Implementation] = {}
    for position, text in enumerate(texts):
        earlier, place = texts[:position].count(text), Path(folder, str(position))
        try:
            found[f"{text} ({earlier + 1})" if earlier else text] = _implementation(text, place)
        except (ImplementationError, SideError) as error:
            raise UsageError(str(error)) from error
    return found


def _implementation(text: str, folder: Path) -> Implementation:
    """One of them."""
    is_path = text.endswith(".py") or os.sep in text
    if text.endswith(".py") and os.path.isfile(text):
        return implementations.read_kernel_file(Path(text).absolute())
    revision, _, path = text.partition(":")
    if revision and path.endswith(".py"):
        path = os.path.relpath(path)
        if not _git("ls-tree", "--end-of-options", revision, "--", f"./{path}"):
            raise ImplementationError(f"there is no file {path} at {revision}")
        unpack_folder(revision, os.path.dirname(path), folder)
        return implementations.read_kernel_file(folder / os.path.basename(path))
    if is_path:
        raise ImplementationError(f"there is no Python file {text}")
    return implementations.find_implementations()[text]
