"""The recorded datasets hold what their manifests say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

import pytest
from exact_memory import exact_peak_memory
from planted.project import ROOT

from flashlab.plan.datasets import read_dataset
from flashlab.records import Record, read_record

DATASETS = ("h100", "h200")


@cache
def records(name: str) -> Sequence[Record]:
    """Every record, of the digest and the protocol that the manifest states."""
    found = []
    for entry in read_dataset(ROOT / "data" / name).entries:
        record = read_record(entry.path, entry.run, entry.sha256)
        assert record.protocol == entry.protocol
        found.append(record)
    return found


@pytest.mark.parametrize("name", DATASETS)
def test_what_is_compared_ran_on_one_card_by_code_without_changes(name: str) -> None:
    cards: dict[Any, set[str]] = defaultdict(set)
    for record in records(name):
        assert not record.environment["dirty"]
        if not record.has_counters:
            commit, hour = record.environment["commit"], datetime.fromisoformat(record.started).hour
            block = (commit, hour, record.protocol["name"], record.process, record.run.parameters)
            cards[block].add(record.environment["gpu_uuid"])
    assert len(cards) > 80 and {len(each) for each in cards.values()} == {1}


@pytest.mark.parametrize("name", DATASETS)
def test_peak_memory_equals_the_model_to_the_byte(name: str) -> None:
    checked = 0
    for record in records(name):
        stated = record.environment.get("provider", ""), record.environment["device_name"]
        model = exact_peak_memory(record.run, *stated)
        if model is not None and "peak_memory" in record.metrics:
            assert model == record.metrics["peak_memory"].value, str(record.run)
            checked += 1
    assert checked > 150
