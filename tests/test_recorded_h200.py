"""The recorded H200 dataset holds what its manifest says. What is read in it is a golden text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flashlab.benchmarks.attention.declaration import exact_peak_memory
from flashlab.plan.datasets import read_dataset
from flashlab.records import Record, read_record

H200 = read_dataset(Path(__file__).parents[1] / "data" / "h200")
TIMED = [entry for entry in H200.entries if not entry.has_counters]
SHOWN = {
    name for experiment in H200.config["experiments"] for name in experiment["implementations"]
}
PACKED = frozenset(f"{name}Packed" for name in ("Flash2", "Flash3", "FlashLab"))
SEPARATE = frozenset(SHOWN - PACKED)
SAMPLED = [
    entry
    for entry in TIMED
    if entry.protocol["name"] == "sampled" and entry.run.implementation in SHOWN
]
"""The sampled runs that the report is about."""

Records = Mapping[Path, Record]


@pytest.fixture(scope="module")
def records() -> Records:
    """Every record, of the digest that the manifest states."""
    return {entry.path: read_record(entry.path, entry.run, entry.sha256) for entry in H200.entries}


def test_every_record_is_the_manifests(records: Records) -> None:
    for entry in H200.entries:
        assert records[entry.path].protocol == entry.protocol


def test_the_labs_runs_and_the_slides_are_there_by_the_courses_protocol() -> None:
    counts = Counter(e.run.implementation for e in H200.entries if e.protocol["name"] == "lab5")
    assert counts == {"Flash2": 18, "Pytorch": 18}


def test_peak_memory_equals_the_model_to_the_byte(records: Records) -> None:
    """Every run of both implementations that fitted, those of one sequence among them."""
    checked: Counter[str] = Counter()
    for entry in TIMED:
        record, name = records[entry.path], entry.run.implementation
        if name not in ("Flash2", "Pytorch") or record.status != "ok":
            continue
        stated = record.environment["provider"], record.environment["device_name"]
        assert exact_peak_memory(entry.run, *stated) == record.metrics["peak_memory"].value
        checked[name] += 1
    assert checked == {"Flash2": 18 + 51 + 12, "Pytorch": 18 + 51 + 12}


def test_what_is_compared_ran_on_one_card_within_minutes(records: Records) -> None:
    """Three processes of each, on clean code of one commit.

    Nine implementations at the lab's 17 shapes, and seven at four long ones, at one of them with
    packed inputs too; those beside the lab's ran later.
    """
    blocks: dict[tuple[Any, ...], list[Record]] = {}
    for entry in SAMPLED:
        record = records[entry.path]
        sitting = datetime.fromisoformat(record.started).hour
        blocks.setdefault((sitting, record.process, *entry.run.values()), []).append(record)
    names = Counter(frozenset(r.run.implementation for r in block) for block in blocks.values())
    long = SEPARATE - {"SdpaEfficient", "SdpaMath"}
    assert names == {SEPARATE: 3 * 17, long: 3 * 3, long | PACKED: 3, PACKED: 3}
    for block in blocks.values():
        assert len({record.environment["gpu_uuid"] for record in block}) == 1
        starts = [datetime.fromisoformat(record.started) for record in block]
        assert max(starts) - min(starts) < timedelta(minutes=2)
        for record in block:
            assert (record.environment["commit"][:7], record.environment["dirty"]) == (
                "77298f0",
                False,
            )
            is_packed = record.run.implementation in PACKED
            assert record.sources["inputs"] == ("packed" if is_packed else "separate")
