"""The recorded datasets hold what their manifests say."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any

import pytest
from exact_memory import exact_peak_memory
from planted.project import ROOT

from flashlab.plan.datasets import read_dataset
from flashlab.records import read_record


@pytest.mark.parametrize("name", ["h100", "h200"])
def test_what_is_compared_ran_on_one_card_and_peak_memory_is_that_of_the_model(name: str) -> None:
    """Every record is of the digest and the protocol that the manifest states, without changes."""
    cards: dict[Any, set[str]] = defaultdict(set)
    modelled = 0
    for entry in read_dataset(ROOT / "data" / name).entries:
        record = read_record(entry.path, entry.run, entry.sha256)
        environment = record.environment
        assert record.protocol == entry.protocol and not environment["dirty"]
        if not record.has_counters:
            commit, hour = environment["commit"], datetime.fromisoformat(record.started).hour
            block = (commit, hour, record.protocol["name"], record.process, record.run.parameters)
            cards[block].add(environment["gpu_uuid"])
        stated = environment.get("provider", ""), environment["device_name"]
        model = exact_peak_memory(record.run, *stated)
        if model is not None and "peak_memory" in record.metrics:
            assert model == record.metrics["peak_memory"].value, str(record.run)
            modelled += 1
    assert len(cards) > 80 and {len(each) for each in cards.values()} == {1}
    assert modelled > 150
