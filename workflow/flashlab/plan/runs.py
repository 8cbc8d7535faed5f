"""The record of each process of each run: named by its identity, or found in a manifest.

What is compared is a block: all implementations at one set of parameters, in the processes of one
number. Its runs follow one another on one card, so that they differ in nothing else but minutes.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from flashlab import nsight
from flashlab.benchmarks.implementations import Implementation
from flashlab.benchmarks.model import Benchmark
from flashlab.files import read_json
from flashlab.plan import identity
from flashlab.plan.datasets import Dataset, DatasetError, Entry
from flashlab.plan.experiments import Experiment, on_device, runs_of
from flashlab.records import COUNTERS, Record, RecordError, read_record
from flashlab.runs import Run

REACH = timedelta(minutes=10)
"""Farthest that the processes of a block may have started from one another."""


@dataclass(frozen=True)
class Planned:
    """The records of each run's processes, in their order, and those of the counters of some."""

    processes: Mapping[Run, Sequence[Entry]]
    counters: Mapping[Run, Entry] = field(default_factory=dict)

    @property
    def entries(self) -> list[Entry]:
        """Every record, those of counters last."""
        return [e for parts in self.processes.values() for e in parts] + [*self.counters.values()]

    def files_of(self, runs: Iterable[Run]) -> list[str]:
        """The files of these runs' records and counters, each once."""
        parts = [(*self.processes[run], self.counters.get(run)) for run in dict.fromkeys(runs)]
        return [entry.path.as_posix() for each in parts for entry in each if entry]


@dataclass(frozen=True)
class Namer:
    """Names local records by what decides their numbers on a device of this name."""

    benchmark: Benchmark
    implementations: Mapping[str, Implementation]
    folder: Path
    device_name: str

    def identity_of(self, run: Run, protocol: Mapping[str, Any], process: int) -> dict[str, Any]:
        """All that decides the numbers of a process of a run."""
        of = (self.benchmark, run, protocol, self.implementations[run.implementation])
        return identity.identity(*of, process, self.device_name)

    def entry(self, run: Run, protocol: Mapping[str, Any], process: int = 0) -> Entry:
        """A process of a run, whose file is named by its identity."""
        name = identity.record_name(run, self.identity_of(run, protocol, process))
        return Entry(run, dict(protocol), self.folder / name, None, process)

    def order(self, entry: Entry, card: int = 0) -> dict[str, Any]:
        """The order from which ``measure`` makes a record; `card` chooses one of the GPUs."""
        return {
            "device_name": self.device_name,
            "benchmark": self.benchmark.name,
            "run": entry.run.to_json(),
            "protocol": entry.protocol,
            "process": entry.process,
            "card": card,
        }


def plan_local(
    experiments: Sequence[Experiment],
    config: Mapping[str, Any],
    protocol: Mapping[str, Any],
    counting: Mapping[str, Any],
    namer: Namer,
) -> Planned:
    """Each run once, in as many processes as it or an experiment of it is to be measured in.

    `counting` is the protocol by which counters are read; without any none are.
    """
    count: dict[Run, int] = {}
    for experiment in experiments:
        for run in experiment.runs:
            number = 1 if config["quick"] else on_device(config["replicates"], run.device)
            asked = experiment.replicates.get(run.implementation, 1)
            count[run] = max(count.get(run, number), asked)
    counted = dict.fromkeys(run for experiment in experiments for run in experiment.counted)
    counters = {run: namer.entry(run, counting) for run in counted} if counting else {}
    if "ncu" in counting and nsight.version() is None:  # what was read stays
        counters = {run: entry for run, entry in counters.items() if entry.path.exists()}
    return Planned(
        {run: [namer.entry(run, protocol, i) for i in range(n)] for run, n in count.items()},
        counters,
    )


def counting_protocol(
    benchmark: Benchmark, device: str, config: Mapping[str, Any], kept: Path
) -> dict[str, Any]:
    """The protocol by which counters are read on a kind of device; empty where none are.

    On a GPU it has the version of Nsight Compute, of which the file `kept` has that of before.
    DatasetError where they are asked for and cannot be read.
    """
    timeout_s, wanted = config["measure"]["timeout_s"], config["counters"]  # YAML: no is False
    if wanted in ("no", False) or not benchmark.counters_on(device) or config["quick"]:
        return {}
    if device == "cpu":
        return {"name": COUNTERS, "profiler": "torch.profiler", "timeout_s": timeout_s}
    version = nsight.version()
    if version is None:
        with suppress(OSError, ValueError, KeyError, TypeError):
            version = read_json(kept)["ncu"]
    if version is None and wanted != "auto":
        raise DatasetError(
            "config: counters: yes needs Nsight Compute on a GPU, but ncu is not on PATH; "
            "install it, or give counters: auto"
        )
    counted = {metric.quantity.name for metric in benchmark.all_counters("cuda")}
    metrics = sorted(nsight.metrics_for(counted).values())
    by = {"name": COUNTERS, "ncu": version, "metrics": metrics, "timeout_s": timeout_s}
    return by if version else {}


def plan_recorded(
    experiments: Iterable[Experiment], protocol: str, dataset: Dataset, *, imported: bool
) -> Planned:
    """Each run with its files in the dataset: all of this protocol, or else of the dataset's own.

    Those of an `imported` folder are yet to be made. DatasetError lists what the dataset lacks.
    """
    runs, held = runs_of(experiments), dataset.held
    name = protocol if all((run, protocol) in held for run in runs) else dataset.protocol
    found = {run: held.get((run, name), []) for run in runs}
    counted = {run: held[run, COUNTERS][0] for run in runs if (run, COUNTERS) in held}
    planned = Planned(found, counted)
    if lacking := [str(run) for run in runs if not found[run]]:
        raise DatasetError(
            f"The dataset {dataset.name} lacks {len(lacking)} of the {len(runs)} runs that the "
            "configuration asks for:\n  " + "\n  ".join(lacking) + "\nRemove these shapes or "
            "implementations from the configuration, or measure them."
        )
    missing = [str(entry.path) for entry in planned.entries if not entry.path.is_file()]
    if missing and not imported:
        raise DatasetError(
            f"The dataset {dataset.name} lacks {len(missing)} of its records:\n  "
            + "\n  ".join(missing)
            + "\nRestore them (git checkout, or a copy): recorded datasets are not measured again."
        )
    return planned


# Blocks


def _block(run: Run, process: int) -> tuple[object, ...]:
    """The key of a run's block: process, parameters, dtype and device, without implementation."""
    return (process, *run.words, run.dtype, run.device)


def blocks_of(planned: Planned) -> list[list[Entry]]:
    """The blocks in the order in which they are measured: the first processes of all runs first.

    The runs of a block are in an order drawn for it, the same at each call, so that no
    implementation always follows another one.
    """
    blocks: dict[tuple[object, ...], list[Entry]] = {}
    every = (entry for entries in planned.processes.values() for entry in entries)
    for entry in sorted(every, key=lambda entry: entry.process):
        blocks.setdefault(_block(entry.run, entry.process), []).append(entry)
    for key, block in blocks.items():
        block.sort(key=lambda entry: entry.run.implementation)
        random.Random(" ".join(map(str, key))).shuffle(block)
    return list(blocks.values())


def orders_of(planned: Planned, namer: Namer) -> dict[str, dict[str, Any]]:
    """The order for each record, by its path, in the order of measuring.

    The cards of blocks are shuffled, in the same way at each call: in the plan's order masks and
    sizes alternate, so that one GPU of two would get all the long ones.
    """
    blocks = blocks_of(planned)
    cards = list(range(len(blocks)))
    random.Random(len(blocks)).shuffle(cards)
    placed = [(c, entry) for c, block in zip(cards, blocks, strict=True) for entry in block]
    placed += enumerate(planned.counters.values())
    return {entry.path.as_posix(): namer.order(entry, card) for card, entry in placed}


def _is_whole(records: Sequence[Record]) -> bool:
    """True if all of a block's records were measured on one card, within `REACH`."""
    cards = {r.environment.get("gpu_uuid") or r.environment.get("boot") for r in records}
    starts = [datetime.fromisoformat(record.started) for record in records]
    return len(cards) == 1 and max(starts) - min(starts) <= REACH


def parted_blocks(records: Iterable[Record]) -> list[list[Record]]:
    """The blocks of which a record was measured on another card, or later than `REACH`."""
    blocks: dict[tuple[object, ...], list[Record]] = {}
    for record in records:
        blocks.setdefault(_block(record.run, record.process), []).append(record)
    return [block for block in blocks.values() if not _is_whole(block)]


def broken_blocks(blocks: Iterable[Sequence[Entry]]) -> list[str]:
    """The files of the blocks of which a record is missing, or was measured elsewhere or later.

    A block that began a short while ago can still be completed, such as where a call was cut off.
    """
    broken = list[str]()
    for block in blocks:
        records = list[Record]()
        for entry in block:
            with suppress(RecordError):
                records.append(read_record(entry.path, entry.run))
        ends = datetime.now(UTC) + REACH / 2  # when the others may be measured
        began = [datetime.fromisoformat(record.started) for record in records]
        is_cut_off = len(records) < len(block) and ends - min(began, default=ends) > REACH
        if is_cut_off or (records and not _is_whole(records)):
            broken += [entry.path.as_posix() for entry in block]
    return broken
