"""Recorded datasets: their manifests, and freezing local records.

A recorded dataset is a folder with ``manifest.json`` and ``records/`` for each benchmark
(`dataset_folder`). The manifest states the device, the dtype and the experiments that were
measured, and lists every record with its run, protocol and sha256; the folder itself is never
globbed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from flashlab.anonymity import anonymous
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import DEFAULT, find_benchmark
from flashlab.files import read_json, sha256_of, write_json
from flashlab.plan.plan_files import process_files
from flashlab.records import (
    COUNTERS,
    Record,
    of_version,
    read_record,
)
from flashlab.runs import Run
from flashlab.untrusted import UnsoundFileError, read_file

MANIFEST = "manifest.json"
MANIFEST_VERSION = 2
CEILINGS = "ceilings.json"
CONFIG_KEYS = ("baseline", "summary", "experiments")
"""The keys of the configuration that a dataset keeps; none of them names a file."""
NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_-]*")


class DatasetError(Exception):
    """A dataset that is missing, incomplete, or inconsistent with its manifest."""


@dataclass(frozen=True)
class Entry:
    """One record of a dataset: its path, and its hash if a manifest vouches for it.

    `process` numbers the processes that measured the same run.
    """

    run: Run
    protocol: dict[str, Any]
    path: Path
    sha256: str | None
    process: int = 0

    @property
    def has_counters(self) -> bool:
        """True if the record holds the run's hardware counters, not times."""
        return bool(self.protocol["name"] == COUNTERS)


@dataclass(frozen=True)
class Dataset:
    """A recorded dataset as its manifest describes it."""

    name: str
    device: str
    dtype: str
    protocol: str
    config: dict[str, Any]
    ceilings: Path | None
    entries: tuple[Entry, ...]

    def find(self, run: Run, protocol: str) -> list[Entry]:
        """The records of `run` under the protocol of that name, or under the dataset's own."""
        for name in (protocol, self.protocol):
            if entries := [e for e in self._by_run.get(run, ()) if e.protocol["name"] == name]:
                return entries
        return []

    @cached_property
    def _by_run(self) -> dict[Run, list[Entry]]:
        by_run: dict[Run, list[Entry]] = {}
        for entry in self.entries:
            by_run.setdefault(entry.run, []).append(entry)
        return by_run

    def find_counters(self, run: Run) -> Entry | None:
        """The record of the hardware counters of `run`."""
        return next((e for e in self._by_run.get(run, ()) if e.has_counters), None)


def dataset_folder(data: Path, name: str, benchmark: Benchmark) -> Path:
    """The folder of a benchmark in a dataset: ``data/h200/``, ``data/h200/ladder/``."""
    folder = data / name
    return folder if benchmark == DEFAULT else folder / benchmark.name


def run_of(entry: Mapping[str, Any]) -> Run:
    return Run.of(find_benchmark(entry["benchmark"]), entry["run"])


def recorded_names(data: Path, benchmark: Benchmark) -> list[str]:
    """The names of the datasets in a folder that have records of a benchmark."""
    names = [folder.name for folder in data.glob("*/")]
    return sorted(n for n in names if (dataset_folder(data, n, benchmark) / MANIFEST).is_file())


def read_recorded(data: Path, name: str, benchmark: Benchmark) -> Dataset:
    """A dataset's records of a benchmark; DatasetError listing the datasets that have some."""
    folder = dataset_folder(data, name, benchmark)
    if not (folder / MANIFEST).is_file():
        known = ", ".join(recorded_names(data, benchmark)) or "none"
        raise DatasetError(
            f"config: dataset: there is no {folder / MANIFEST}; recorded datasets of "
            f"{benchmark.name}: {known}, and `local` measures on this machine"
        )
    return read_dataset(folder)


def _inside(folder: Path, file: str) -> Path:
    """A file of a dataset; DatasetError for one that is not in its folder, also by links."""
    if not Path(os.path.realpath(folder / file)).is_relative_to(os.path.realpath(folder)):
        raise DatasetError(f"{folder / MANIFEST}: file: {file} is outside {folder}; put it there")
    return folder / file


def read_dataset(folder: Path) -> Dataset:
    """Read ``folder/manifest.json``; DatasetError if it is missing or cannot be read.

    It may come from a stranger, and names no files of the reader's.
    """
    path = folder / MANIFEST
    try:
        manifest = json.loads(read_file(path))
        if (version := manifest["version"]) != MANIFEST_VERSION:
            raise DatasetError(f"{path}: is {of_version(version, MANIFEST_VERSION)}")
        entries = tuple(
            Entry(
                run_of(entry),
                entry["protocol"],
                _inside(folder, entry["file"]),
                entry["sha256"],
                entry.get("process", 0),
            )
            for entry in manifest["records"]
        )
        if others := sorted(manifest["config"].keys() - {*CONFIG_KEYS, "languages"}):
            said = f"{path}: config: {others[0]}: is no key of a dataset; remove it there"
            raise DatasetError(f"{said}, and put it into a configuration of your own")
        if not NAME.fullmatch(manifest["name"]):
            raise DatasetError(f"{path}: name: must be letters, digits, - and _; correct it")
        ceilings = manifest["ceilings"] and _inside(folder, manifest["ceilings"]["file"])
        if ceilings:
            read_file(ceilings)  # those who read it later take it as it is
        return Dataset(
            name=manifest["name"],
            device=manifest["device"],
            dtype=manifest["dtype"],
            protocol=manifest["protocol"],
            config=manifest["config"],
            ceilings=ceilings or None,
            entries=entries,
        )
    except UnsoundFileError as error:
        raise DatasetError(f"{path}: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DatasetError(f"{path}: not a manifest: {error!r}") from error


def planned_files(plan: Mapping[str, Any]) -> Iterator[tuple[Run, Path]]:
    """Each run of a plan with each of its records, and with its counters where there are any."""
    benchmark = find_benchmark(plan["benchmark"])
    for entry in plan["records"]:
        run = Run.of(benchmark, entry["run"])
        for file in process_files(entry):
            yield run, Path(file["path"])
        if "counters" in entry:
            yield run, Path(entry["counters"]["path"])


@dataclass(frozen=True)
class _Addition:
    """A record to add to a dataset, without identifying data if `is_anonymous`."""

    record: Record
    path: Path
    is_anonymous: bool


def _copy_json(source: Path, target: Path, is_anonymous: bool) -> None:
    """Copy a JSON file, without identifying data if `is_anonymous`."""
    if is_anonymous:
        write_json(target, anonymous(read_json(source)))
    else:
        shutil.copyfile(source, target)


def _add(folder: Path, additions: Mapping[str, _Addition], manifest: Mapping[str, Any]) -> None:
    """Copy records, by file name, into a dataset's folder, and write its manifest with them.

    The manifest comes last: files that it does not name, as after a kill, are not in the dataset.
    """
    (folder / "records").mkdir(parents=True, exist_ok=True)
    entries = []
    for name, added in sorted(additions.items()):
        file, record = f"records/{name}", added.record
        _copy_json(added.path, folder / file, added.is_anonymous)
        entries.append(
            {
                "benchmark": record.benchmark,
                "run": record.run.to_json(),
                "protocol": dict(record.protocol),
                **({"process": record.process} if record.process else {}),
                "file": file,
                "sha256": sha256_of(folder / file),
            }
        )
    write_json(folder / MANIFEST, {**manifest, "records": [*manifest["records"], *entries]})


def refuse_overlap(folder: Path, records: Collection[tuple[Run, str]]) -> None:
    """Refuse to add records, each a run and the name of its protocol, to a dataset that has them.

    Raises:
        DatasetError: the dataset has some of the runs under that protocol, or is of another device
            or dtype.
    """
    if not (folder / MANIFEST).exists():
        return
    there = read_dataset(folder)
    held = {(entry.run, entry.protocol["name"]) for entry in there.entries}
    again = [record for record in records if record in held]
    if again or any((run.device, run.dtype) != (there.device, there.dtype) for run, _ in records):
        raise DatasetError(
            f"{folder} exists already and has "
            + (f"{len(again)} of these runs" if again else f"{there.device} {there.dtype} runs")
            + ". Recorded datasets are not overwritten; choose another name, or remove the folder."
        )


SAME_CODE = ("device_name", "provider")
"""The fields of the environment in which counters must equal the record of the same run."""


def freeze_counters(name: str, plan_files: Sequence[Path], data: Path) -> int:
    """Add the counters that the plans name to the dataset `name`; how many are added.

    Left out are counters of runs that the dataset lacks, those that it has, those that failed and
    those not read yet.

    DatasetError if there is no such dataset, or the counters are of another device or of another
    provider's code; the dataset is left as it was.
    """
    plans = [read_json(file) for file in plan_files]
    folder = dataset_folder(data, name, find_benchmark(plans[0]["benchmark"]))
    there = read_dataset(folder)
    known = {e.run: e.path for e in there.entries if not e.has_counters and not e.process}
    counted: dict[str, _Addition] = {}
    for plan in plans:
        for run, path in planned_files(plan):
            if run not in known or not path.is_file() or there.find_counters(run):
                continue
            record = read_record(path, run)
            if not record.has_counters or record.status != "ok":
                continue
            recorded = read_record(known[run], run).environment
            for key in SAME_CODE:
                if record.environment.get(key) != recorded.get(key):
                    raise DatasetError(
                        f"{path}: the counters of {run} have the {key} "
                        f"{record.environment.get(key)}, but {folder} recorded it with "
                        f"{recorded.get(key)}; read them in the same environment"
                    )
            counted[path.name] = _Addition(record, path, plan.get("anonymous", False))
    _add(folder, counted, read_json(folder / MANIFEST))
    return len(counted)


def freeze(
    name: str, config_file: Path, plan_files: Sequence[Path], ceilings: Path, data: Path
) -> Path:
    """Keep the records that the plans name as the dataset `name`, with their manifest.

    The manifest also keeps the experiments that the records were measured for, which a report of
    the dataset shows. Records under a further protocol can be added to an existing dataset; its
    records are never overwritten.

    Returns the folder (`dataset_folder`). DatasetError if the records are of several devices or
    dtypes, or the dataset has some of these runs already; the dataset is left as it was.
    """
    config = read_json(config_file)
    plans = [read_json(file) for file in plan_files]
    folder = dataset_folder(data, name, find_benchmark(plans[0]["benchmark"]))
    additions = {
        path.name: _Addition(read_record(path, run), path, plan.get("anonymous", False))
        for plan in plans
        for run, path in planned_files(plan)
    }
    records = [added.record for added in additions.values()]
    kinds = {(record.run.device, record.run.dtype) for record in records}
    if len(kinds) != 1:
        named = " and ".join(f"{dtype} on {device}" for device, dtype in sorted(kinds))
        raise DatasetError(
            f"the records to freeze must be of one device and one dtype; found {named or 'none'}"
        )
    ((device, dtype),) = kinds
    if (folder / MANIFEST).exists():
        refuse_overlap(folder, [(record.run, record.protocol["name"]) for record in records])
        manifest = read_json(folder / MANIFEST)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        _copy_json(ceilings, folder / CEILINGS, config.get("anonymous", False))
        manifest = {
            "version": MANIFEST_VERSION,
            "name": name,
            "device": device,
            "dtype": dtype,
            "protocol": config["measure"]["protocol"],
            "config": {key: config[key] for key in CONFIG_KEYS},
            "ceilings": {"file": CEILINGS, "sha256": sha256_of(folder / CEILINGS)},
            "records": [],
        }
    _add(folder, additions, manifest)
    return folder
