"""Blocks: the runs that are compared with one another, measured one after the other on one card.

A block holds all implementations at one set of parameters, in the processes of one number. Within
it they differ in nothing but the implementation: not in the card, and by minutes alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from flashlab.benchmarks.model import Benchmark
from flashlab.plan.planning import Counting, PlannedRun, PlannedRuns, measuring_order
from flashlab.records import Record, RecordError, read_record
from flashlab.runs import Run

REACH = timedelta(minutes=10)
"""Farthest that the processes of a block may have started from one another."""


def _block(run: Run, process: int) -> tuple[object, ...]:
    """The key of a run's block: process, parameters, dtype and device, without implementation."""
    return (process, *run.words, run.dtype, run.device)


def blocks_of(planned: Mapping[Run, PlannedRun]) -> list[list[PlannedRun]]:
    """The blocks in the order in which they are measured: the first processes of all runs first.

    The runs of a block are in an order drawn for it, the same at each call, so that no
    implementation always follows another one.
    """
    blocks: dict[tuple[object, ...], list[PlannedRun]] = {}
    every = [entry for run in planned.values() for entry in run.processes]
    for entry in sorted(every, key=lambda entry: entry.process):
        blocks.setdefault(_block(entry.run, entry.process), []).append(entry)
    for key, block in blocks.items():
        block.sort(key=lambda entry: entry.run.implementation)
        random.Random(" ".join(map(str, key))).shuffle(block)
    return list(blocks.values())


def cards_of(blocks: Sequence[object]) -> list[int]:
    """A number for each block; modulo the number of GPUs it selects the GPU of the block.

    They are the numbers from 0, shuffled in the same way at each call: in the plan's order masks
    and sizes alternate, so that one GPU of two would get all the long ones.
    """
    numbers = list(range(len(blocks)))
    random.Random(len(blocks)).shuffle(numbers)
    return numbers


def orders_of(
    benchmark: Benchmark,
    planned: PlannedRuns,
    protocol: Mapping[str, Any],
    counting: Counting,
    device_name: str,
) -> dict[str, dict[str, Any]]:
    """The order to measure each record, by its file name, in the order in which they run."""
    blocks = blocks_of(planned)
    cards = zip(cards_of(blocks), blocks, strict=True)
    placed = [(card, entry, protocol) for card, block in cards for entry in block]
    counters = enumerate(counting.planned.values())
    placed += [(card, entry, counting.protocol) for card, entry in counters]
    return {
        entry.path.name: {**measuring_order(benchmark, entry, by, device_name), "card": card}
        for card, entry, by in placed
    }


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


def broken_blocks(blocks: Iterable[Sequence[PlannedRun]]) -> list[PlannedRun]:
    """The runs of the blocks of which a record is missing, or was measured elsewhere or later.

    A block that began a short while ago can still be completed, such as where a call was cut off.
    """
    broken: list[PlannedRun] = []
    for block in blocks:
        records = []
        for entry in block:
            try:
                records.append(read_record(entry.path, entry.run))
            except RecordError:
                continue
        ends = datetime.now(UTC) + REACH / 2  # when the others may be measured
        began = [datetime.fromisoformat(record.started) for record in records]
        is_cut_off = len(records) < len(block) and ends - min(began, default=ends) > REACH
        if is_cut_off or (records and not _is_whole(records)):
            broken += block
    return broken
