"""The recorded H100 dataset: complete blocks of one card, and what its medians say first."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from statistics import geometric_mean

import pytest

from flashlab.plan.datasets import read_dataset
from flashlab.records import Record, read_record
from flashlab.runs import Run

H100 = read_dataset(Path(__file__).parents[1] / "data" / "h100")


TIMES, COURSE = "615c755", "2080c3e"
"""The commits of its sittings of times: protocol `sampled`, with three counters of the ends of
experiments 3 to 5, and protocol `lab5`, whose commit has counters of long sequences besides."""

LAB, LONG, ENDS, PEERS = "2db3ae5", "0de3a7b", "85b95a5", "51e2f28"
"""The commits of its other sittings of counters: experiments 1 and 2; long sequences; the ends of
the other experiments, and all of the kernel; those ends for FlashAttention-3 and -4."""


@cache
def read_all() -> list[Record]:
    """Every record, of the digest that the manifest states."""
    return [read_record(entry.path, entry.run, entry.sha256) for entry in H100.entries]


def read_sitting(commit: str) -> list[Record]:
    """Every record of a sitting."""
    return [record for record in read_all() if record.environment["commit"].startswith(commit)]


def shares_keys(run: Run) -> bool:
    """Whether several heads of queries share a head of keys."""
    return run["num_kv_heads"] != run["num_heads"]


@pytest.fixture(scope="module")
def records() -> list[Record]:
    """Every record by protocol `sampled`."""
    return [record for record in read_sitting(TIMES) if not record.has_counters]


@pytest.fixture(scope="module")
def of_the_lab(records: list[Record]) -> list[Record]:
    """Those at the lab's 17 shapes: with SdpaMath, which elsewhere has shared keys alone."""
    shapes = {
        record.run.parameters
        for record in records
        if record.run.implementation == "SdpaMath" and not shares_keys(record.run)
    }
    return [record for record in records if record.run.parameters in shapes]


def test_the_times_are_of_one_sitting_each_block_on_one_card(records: list[Record]) -> None:
    """Three processes of each run, but of five; Pytorch fails at N 16384, Flash4 at d 16."""
    often = Counter(record.run for record in records)
    assert Counter(often.values()) == {3: 286, 2: 5}
    fewer = [run for run, count in often.items() if count == 2]
    assert all(run["seq_len"] == 16384 and shares_keys(run) for run in fewer)
    blocks = {(r.process, r.run.parameters) for r in records}
    cards = {(r.process, r.run.parameters, r.environment["gpu_uuid"]) for r in records}
    assert len(cards) == len(blocks)
    sizes = Counter((r.process, r.run.parameters) for r in records)
    whole = {9: 57, 7: 40, 9 + 3: 3, 7 + 3: 3}  # three have packed inputs besides
    assert Counter(sizes.values()) == {**whole, 6: 1, 3: 1}
    assert len({record.environment["boot"] for record in records}) == 1
    assert not any(record.environment["dirty"] for record in records)
    failed = {record.run: record.status for record in records if record.status != "ok"}
    assert {(run.implementation, run["seq_len"], status) for run, status in failed.items()} == {
        ("Pytorch", 16384, "oom"),
        ("Flash4", 512, "incorrect"),
        ("SdpaEfficient", 1024, "unsupported"),
    }


def test_nine_implementations_ran_at_each_of_the_labs_shapes(of_the_lab: list[Record]) -> None:
    own = [record for record in of_the_lab if not record.run.implementation.endswith("Packed")]
    blocks = Counter((record.process, record.run.parameters) for record in own)
    assert set(blocks.values()) == {9}
    assert Counter(Counter(shape for _, shape in blocks).values()) == {3: 17}


def test_the_courses_protocol_is_of_one_sitting() -> None:
    """Three processes of each of the lab's 34 runs and the slide's two, in one boot."""
    there = [record for record in read_sitting(COURSE) if not record.has_counters]
    assert not any(record.environment["dirty"] for record in there)
    assert {record.status for record in there} == {"ok"}
    assert len({record.environment["boot"] for record in there}) == 1
    assert {record.protocol["name"] for record in there} == {"lab5"}
    assert Counter(Counter(record.run for record in there).values()) == {3: 36}


def test_counters_of_long_sequences_are_whole() -> None:
    """Four implementations at two lengths, without and with the mask; nothing is of no sitting."""
    sittings = [read_sitting(commit) for commit in (TIMES, LAB, COURSE, LONG, ENDS, PEERS)]
    assert sum(map(len, sittings)) == len(H100.entries)
    long = [r for sitting in sittings[2:4] for r in sitting if r.has_counters]
    assert not any(record.environment["dirty"] for record in long)
    shapes = Counter(record.run.parameters for record in long)
    assert len(shapes) == 4 and set(shapes.values()) == {4}


def test_the_ends_of_the_other_sweeps_were_counted_in_one_boot() -> None:
    """Six implementations, but for three runs, and all of FlashLab's; no times."""
    there = read_sitting(ENDS)
    assert all(record.has_counters and record.status == "ok" for record in there)
    assert not any(record.environment["dirty"] for record in there)
    assert len({record.environment["boot"] for record in there}) == 1
    ends = Counter(record.run.implementation for record in there if record.run["seq_len"] == 512)
    assert sorted(ends.values()) == [5, 5, 5, 6, 6, 6, 6]
    whole = Counter(
        record.run["seq_len"] for record in there if record.run.implementation == "FlashLab"
    )
    assert whole == {128: 2, 512: 6, 1024: 2, 16384: 2}


def test_the_ends_that_were_missing_were_counted_later() -> None:
    """Of FlashAttention-3 and -4 in one boot, and the last three on the host of the times."""
    peers = read_sitting(PEERS)
    assert all(record.has_counters and record.status == "ok" for record in peers)
    assert not any(record.environment["dirty"] for record in peers)
    assert len({record.environment["boot"] for record in peers}) == 1
    assert Counter(r.run.implementation for r in peers) == {"Flash3": 6, "Flash4": 6}
    last = [record for record in read_sitting(TIMES) if record.has_counters]
    assert {(r.run.implementation, r.status) for r in last} == {
        ("Flash2", "ok"),
        ("SdpaCudnn", "ok"),
        ("SdpaMath", "ok"),
    }


def test_flashlab_leads_in_total_time_at_every_shape(of_the_lab: list[Record]) -> None:
    """By the medians; the report's intervals leave one of the 17 undecided."""
    totals: dict[Run, list[float]] = {}
    for record in of_the_lab:
        if record.status == "ok":
            seconds = sum(record.metrics[name].value for name in ("forward_time", "backward_time"))
            totals.setdefault(record.run, []).append(seconds)
    shapes: dict[tuple[tuple[str, object], ...], dict[str, float]] = {}
    for run, seconds in totals.items():
        shapes.setdefault(run.parameters, {})[run.implementation] = geometric_mean(seconds)
    leads = [
        min(time for name, time in at.items() if not name.startswith("FlashLab")) / at["FlashLab"]
        for at in shapes.values()
    ]
    assert len(leads) == 17
    assert min(leads) > 1.05


def test_the_kernels_page_has_the_rates_over_each_peer(of_the_lab: list[Record]) -> None:
    """The row of `docs/kernel.md`: geometric mean and extremes over the 17 shapes."""
    page = (Path(__file__).parents[1] / "docs" / "kernel.md").read_text("utf-8")
    rows = page.partition("| `data/h100` |")[2].splitlines()[:2]
    for row, metric in zip(rows, ("forward_time", "backward_time"), strict=True):
        times: dict[tuple[tuple[str, object], ...], dict[str, list[float]]] = {}
        for record in of_the_lab:
            if record.status == "ok":
                at = times.setdefault(record.run.parameters, {})
                at.setdefault(record.run.implementation, []).append(record.metrics[metric].value)
        told = []
        for peer in ("Flash2", "SdpaCudnn", "Flash3", "Flash4"):
            ratios = [
                geometric_mean(at[peer]) / geometric_mean(at["FlashLab"])
                for at in times.values()
                if peer in at
            ]
            mean, low, high = geometric_mean(ratios), min(ratios), max(ratios)
            told.append(f"{mean:.2f} ({low:.2f}–{high:.2f})")
        assert row.rstrip(" |").endswith(" | ".join(told))
