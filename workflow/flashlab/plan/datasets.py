"""Recorded datasets as their manifests describe them; `flashlab.plan.freezing` makes them.

A recorded dataset is a folder with ``manifest.json`` and ``records/`` for each benchmark
(`dataset_folder`). The manifest states the device, the dtype and the experiments that were
measured, and lists every record with its run, protocol and sha256; the folder itself is never
globbed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import DEFAULT, find_benchmark
from flashlab.records import COUNTERS, of_version
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

    @cached_property
    def held(self) -> dict[tuple[Run, str], list[Entry]]:
        """The records of a run by the name of their protocol, in the order of its processes."""
        held: dict[tuple[Run, str], list[Entry]] = {}
        for entry in sorted(self.entries, key=lambda entry: entry.process):
            held.setdefault((entry.run, entry.protocol["name"]), []).append(entry)
        return held


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
        entries = []
        for each in manifest["records"]:
            file, process = _inside(folder, each["file"]), each.get("process", 0)
            entries.append(Entry(run_of(each), each["protocol"], file, each["sha256"], process))
        if others := sorted(manifest["config"].keys() - {*CONFIG_KEYS, "languages"}):
            said = f"{path}: config: {others[0]}: is no key of a dataset; remove it there"
            raise DatasetError(f"{said}, and put it into a configuration of your own")
        if not NAME.fullmatch(manifest["name"]):
            raise DatasetError(f"{path}: name: must be letters, digits, - and _; correct it")
        ceilings = manifest["ceilings"] and _inside(folder, manifest["ceilings"]["file"])
        if ceilings:
            read_file(ceilings)  # those who read it later take it as it is
        keys = ("name", "device", "dtype", "protocol", "config")
        stated: dict[str, Any] = {key: manifest[key] for key in keys}
        return Dataset(**stated, ceilings=ceilings or None, entries=tuple(entries))
    except UnsoundFileError as error:
        raise DatasetError(f"{path}: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DatasetError(f"{path}: not a manifest: {error!r}") from error
