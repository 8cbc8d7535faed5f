"""Blocks: what is compared is measured one after the other, on one card."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from planted.records import record_of

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.plan.datasets import Entry
from flashlab.plan.runs import Namer, Planned, blocks_of, broken_blocks, orders_of
from flashlab.records import write_record

NAMES = ("Flash2", "Pytorch", "SdpaMath", "Flex")
RUNS = [
    attention_run(name, Shape(1, seq_len, 8, 512, False), "float32", "cpu")
    for seq_len in (128, 256, 512)
    for name in NAMES
]


def planned(folder: Path = Path(), processes: int = 2) -> Planned:
    def entry(run: Any, number: int) -> Entry:
        return Entry(run, {}, folder / f"{run.slug}-{number}.json", None, number)

    return Planned({run: [entry(run, number) for number in range(processes)] for run in RUNS})


def test_a_block_holds_every_implementation_of_a_shape_in_the_processes_of_one_number() -> None:
    there = planned(processes=4)
    blocks = blocks_of(there)
    assert len(blocks) == 3 * 4
    for block in blocks:
        assert sorted(entry.run.implementation for entry in block) == sorted(NAMES)
        assert len({(entry.run["seq_len"], entry.process) for entry in block}) == 1
    processes = [block[0].process for block in blocks]
    assert processes == sorted(processes), "the first processes of all runs come first"
    assert len({block[0].run.implementation for block in blocks}) > 1
    backwards = blocks_of(Planned(dict(reversed(there.processes.items()))))
    paths, again = (
        {tuple(entry.path for entry in block) for block in each} for each in (blocks, backwards)
    )
    assert paths == again, "the order is the same whatever the order of the plan"


@pytest.mark.parametrize("cards", [2, 3])
def test_cards_have_as_many_blocks_each_and_not_all_of_one_shape(cards: int) -> None:
    orders = orders_of(planned(processes=4), Namer(ATTENTION, {}, Path(), "H200"))
    firsts = [order for order in orders.values() if order["run"]["implementation"] == NAMES[0]]
    counts = [[o["card"] % cards for o in firsts].count(card) for card in range(cards)]
    assert max(counts) - min(counts) <= 1
    assert len({o["card"] % cards for o in firsts if o["run"]["seq_len"] == 512}) > 1


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(None, id="missing"),
        pytest.param({"environment": {"gpu_uuid": "GPU-other"}}, id="on another card"),
        pytest.param({"started": "2026-12-24T00:00:00+00:00"}, id="later"),
    ],
)
def test_what_was_measured_apart_is_redone(tmp_path: Path, changes: dict[str, Any] | None) -> None:
    plan = planned(tmp_path)
    for entry in plan.entries:
        write_record(entry.path, record_of(entry.run))
    apart = plan.processes[RUNS[0]][0]
    apart.path.unlink()
    if changes is not None:
        write_record(apart.path, record_of(apart.run, **changes))
    again = {*broken_blocks(blocks_of(plan))}
    firsts = [e for e in plan.entries if (e.run["seq_len"], e.process) == (128, 0)]
    assert again == {entry.path.as_posix() for entry in firsts} and len(again) == len(NAMES)


@pytest.mark.parametrize(("minutes", "measured_again"), [(1, 0), (9, len(NAMES))])
def test_a_young_block_is_completed(tmp_path: Path, minutes: int, measured_again: int) -> None:
    plan = planned(tmp_path, processes=1)
    begun = plan.processes[RUNS[0]][0]
    started = (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat()
    write_record(begun.path, replace(record_of(begun.run), started=started))
    assert len(broken_blocks(blocks_of(plan))) == measured_again
