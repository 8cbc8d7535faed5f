"""In which sittings a dataset was measured: spans of time on one device, between two boots.

What a device does in one sitting is comparable run by run. From one sitting to another its
temperature, clocks, neighbours or driver state may differ, without a sign in any record.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pandas as pd

from flashlab.analysis.experiment import Key, Measured, is_imported

GAP = 3600
"""From one process's start to the next, the seconds that end a sitting."""

BOOT = ["device_name", "gpu_uuid", "boot"]
"""What tells devices and their boots apart."""


def sittings(records: pd.DataFrame) -> pd.Series[int]:
    """The number of each record's sitting.

    `records` have `BOOT` and ``started`` (ISO 8601), and were not imported: of those no time is
    known.
    """
    boots = records[BOOT].fillna("").groupby(BOOT).ngroup()
    times = records.started.map(lambda each: datetime.fromisoformat(each).timestamp())
    gaps = times.sort_values().groupby(boots).diff() >= GAP
    both = pd.DataFrame({"boot": boots, "span": gaps.groupby(boots).cumsum()})
    found: pd.Series[int] = both.groupby(["boot", "span"]).ngroup()
    return found


def sittings_of(runs: Iterable[Measured]) -> dict[Key, tuple[frozenset[int], frozenset[str]]]:
    """The sittings of each run's processes, and their GPUs; none of either that is not known."""
    every = [(each.key, process.record) for each in runs for process in each.processes]
    known = [(key, record) for key, record in every if not is_imported(record)]
    columns = {name: [record.environment.get(name) for _, record in known] for name in BOOT}
    columns["started"] = [record.started for _, record in known]
    numbers = sittings(pd.DataFrame(columns, dtype=object)).sort_index()
    found: dict[Key, tuple[list[int], list[Any]]] = {}
    for (key, _), number, card in zip(known, numbers, columns["gpu_uuid"], strict=True):
        own, cards = found.setdefault(key, ([], []))
        own.append(number)
        cards.append(card)
    return {
        key: (frozenset(own), frozenset(() if None in cards else cards))
        for key, (own, cards) in found.items()
    }
