"""The commands that keep planned records, or their counters, in a recorded dataset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flashlab.plan import datasets
from flashlab.plan.doubts import refuse_doubtful


def freeze_records(
    name: str, config: Path, ceilings: Path, data: Path, anyway: bool, plans: Sequence[Path]
) -> None:
    """Keep the records that the plans name as a dataset (`datasets.freeze`), and print where.

    Raises:
        DatasetError: they are in doubt, unless they are to be kept `anyway`, or cannot be kept.
    """
    if not anyway:
        refuse_doubtful(plans)
    folder = datasets.freeze(name, config, plans, ceilings, data)
    print(f"{folder} now holds these records; render it with --config dataset={folder.name}")


def freeze_counters(name: str, data: Path, plans: Sequence[Path]) -> None:
    """Add counters to a dataset (`datasets.freeze_counters`), and print how many."""
    count = datasets.freeze_counters(name, plans, data)
    print(f"{data / name} now holds {count} more records of counters")
