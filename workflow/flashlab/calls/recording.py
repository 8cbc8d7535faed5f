"""The parts of a dataset: the records left to measure of each, and the time that they take.

A part is a file in ``config/record/``, laid over the configuration of its benchmark.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from flashlab import machine
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import DEFAULT, find_benchmark
from flashlab.calls.prepare import Prepared, prepare
from flashlab.calls.selection import asked_benchmark
from flashlab.config import ConfigError, Layer, config_file, read_layer
from flashlab.config.messages import nearest
from flashlab.files import read_json
from flashlab.machine import commit_here
from flashlab.plan.datasets import (
    MANIFEST,
    dataset_folder,
    read_dataset,
    recorded_names,
    refuse_overlap,
)
from flashlab.plan.freezing import commit_doubts, refuse
from flashlab.plan.source import DATA
from flashlab.records import COUNTERS, read_record
from flashlab.runs import Run

PARTS = Path("config", "record")

ASSUMED_SECONDS = {False: 10.0, True: 15.0}
"""The seconds of a timed run, and of one that reads counters (True), where there are no records."""


@dataclass(frozen=True)
class Part:
    """A part of a dataset as it is planned now."""

    name: str
    prepared: Prepared

    @property
    def benchmark(self) -> Benchmark:
        return find_benchmark(self.prepared.config["benchmark"])

    @property
    def records(self) -> dict[Path, dict[str, Any]]:
        """The order for the command ``measure``, by the path of the record that it makes."""
        folder = Path(self.prepared.home, "records")
        return {folder / name: order for name, order in self.prepared.orders.items()}

    @property
    def left(self) -> dict[Path, dict[str, Any]]:
        """The orders of the records that are not measured yet."""
        remade = self.prepared.remade
        return {
            path: order
            for path, order in self.records.items()
            if path.as_posix() in remade or not path.exists()
        }

    def kept_in(self, dataset: str) -> dict[str, Path]:
        """The records that a recorded dataset has already, by their file names."""
        folder = dataset_folder(DATA, dataset, self.benchmark)
        there = read_dataset(folder).entries if (folder / MANIFEST).exists() else ()
        names = self.prepared.orders
        return {entry.path.name: entry.path for entry in there if entry.path.name in names}

    def lacking_in(self, dataset: str) -> dict[str, dict[str, Any]]:
        """The orders of the records that a recorded dataset lacks, by their file names."""
        kept = self.kept_in(dataset)
        return {name: order for name, order in self.prepared.orders.items() if name not in kept}

    @property
    def lacks_ncu(self) -> bool:
        """True if hardware counters are left out because Nsight Compute is not installed."""
        config, is_counted = self.prepared.config, self.benchmark.counters_on("cuda")
        is_wanted = self.prepared.device == "cuda" and config["counters"] == "auto"
        return is_wanted and bool(is_counted) and not self.prepared.counters


def part_names() -> list[str]:
    """The parts of a dataset, in the order in which they are recorded."""
    return sorted(file.stem for file in PARTS.glob("*.yaml"))


def plan_part(name: str, files: Sequence[Path] = (), *given: Layer) -> Part:
    """A part, with the ``--configfile`` files and the ``--config`` of a call laid over it.

    Raises:
        ConfigError: there is no part of this name.
        `flashlab.calls.call.PREPARATION_ERRORS`: as of `prepare`.
    """
    if name not in (known := part_names()):
        raise ConfigError(
            f"there is no part {name}{nearest(name, known)}; there are {', '.join(known)}, each a "
            f"file in {PARTS}"
        )
    own = [*map(read_layer, [PARTS / f"{name}.yaml", *files]), *given]
    benchmark = asked_benchmark((), own) or DEFAULT.name
    base = read_layer(config_file(benchmark))
    return Part(name, prepare(replace(base, keys={**base.keys, "benchmark": benchmark}), own))


def check_freezable(prepared: Prepared, dataset: str) -> None:
    """Refuse records that cannot be frozen under this name, before they are measured.

    Raises:
        ConfigError: it is a preview.
        DatasetError: the dataset has some of the runs, or the records would be of several commits.
    """
    if prepared.config["quick"]:
        raise ConfigError("quick: a preview cannot be frozen; leave quick out")
    part = Part(dataset, prepared)
    timed = [order for order in part.records.values() if not is_counting(order)]
    runs = [(Run.of(part.benchmark, o["run"]), o["protocol"]["name"]) for o in timed]
    refuse_overlap(dataset_folder(DATA, dataset, part.benchmark), runs)
    if prepared.config["freeze_anyway"]:
        return
    left = part.left
    environments = [read_record(path).environment for path in part.records if path not in left]
    if left:
        environments.append(commit_here())
    refuse(commit_doubts(environments))


def is_counting(order: Mapping[str, Any]) -> bool:
    """True if an order to measure, or a record, is of counters."""
    return bool(order["protocol"]["name"] == COUNTERS)


# How long it takes


def cards_of(part: Part) -> int:
    """The number of GPUs to measure the part on; 1 for a CPU."""
    return len(machine.gpus()) if part.prepared.device == "cuda" else 1


@dataclass(frozen=True)
class Pace:
    """The seconds that a run takes, or the reading of its counters, and the figure's source."""

    seconds: float
    source: str


def _spans(
    files: Iterable[Path], device_name: str | None, longest: float
) -> Iterator[tuple[bool, float]]:
    """The seconds from one start to the next on a card, each with whether counters were read.

    Longer spans than the time limit of a run are pauses, and left out.
    """
    cards: dict[str | None, list[tuple[datetime, bool]]] = {}
    for file in files:
        try:
            record = read_json(file)["record"]
            environment, started = record["environment"], datetime.fromisoformat(record["started"])
            if device_name in (None, environment["device_name"]):
                card = environment.get("gpu_uuid") or environment.get("boot")
                cards.setdefault(card, []).append((started, is_counting(record)))
        except (OSError, ValueError, KeyError, TypeError):  # damaged: it is measured again
            continue
    for starts in cards.values():
        starts.sort()
        for (began, counts), (following, _) in itertools.pairwise(starts):
            if (seconds := (following - began).total_seconds()) <= longest:
                yield counts, seconds


def paces(part: Part) -> dict[bool, Pace]:
    """The pace of a part's timed runs (key False), and of the reading of its counters (True).

    It is the mean of this device's own records, else of the records of a dataset, else assumed.
    """
    prepared = part.prepared
    longest = prepared.config["measure"]["timeout_s"]
    sources: list[tuple[str, list[Path], str | None]] = [
        ("as here so far", list(part.records), machine.device_name(prepared.device))
    ]
    for name in recorded_names(DATA, part.benchmark):
        dataset = read_dataset(dataset_folder(DATA, name, part.benchmark))
        of = (COUNTERS, prepared.protocol)
        files = [entry.path for entry in dataset.entries if entry.protocol["name"] in of]
        if dataset.device == prepared.device:
            sources.append((f"as in data/{name}", files, None))
    pace = {kind: Pace(seconds, "assumed") for kind, seconds in ASSUMED_SECONDS.items()}
    for source, files, device_name in reversed(sources):
        spans = [*_spans(files, device_name, longest)]
        for kind in pace:
            if own := [seconds for counts, seconds in spans if counts == kind]:
                pace[kind] = Pace(statistics.fmean(own), source)
    return pace


def seconds_left(part: Part, pace: Mapping[bool, Pace]) -> float:
    """The seconds that the rest of a part takes on all GPUs of this host."""
    total = sum(pace[is_counting(order)].seconds for order in part.left.values())
    return total / (1 if part.prepared.config["alone"] else cards_of(part))
