"""Planned records kept as a recorded dataset: the checks before, the commands, and its archive."""

from __future__ import annotations

import tarfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flashlab.files import read_json
from flashlab.plan import datasets
from flashlab.plan.blocks import REACH, parted_blocks
from flashlab.plan.datasets import DatasetError, planned_files
from flashlab.records import Record, read_record

DIGITS = 12
"""Hexadecimal digits of a commit in messages."""


def commit_doubts(environments: Iterable[Mapping[str, Any]]) -> list[str]:
    """A message if records are of several commits or of uncommitted changes; else none.

    Where there was no git, an environment says nothing of either.
    """
    commits = Counter(
        ((environment.get("commit") or "no known commit")[:DIGITS], bool(environment.get("dirty")))
        for environment in environments
    )
    if len(commits) < 2 and not any(is_changed for _, is_changed in commits):
        return []
    listed = ", ".join(
        f"{count} at {commit}{' with uncommitted changes' if is_changed else ''}"
        for (commit, is_changed), count in commits.most_common()
    )
    return [
        f"Not all of them are of one commit without changes ({listed}): commit what is changed, "
        "and measure again with --config again=all."
    ]


def block_doubts(records: Iterable[Record]) -> list[str]:
    """A message if blocks were measured on several cards, or not within `REACH`; else none."""
    parted = parted_blocks(record for record in records if not record.has_counters)
    if not parted:
        return []
    first, minutes = parted[0][0], REACH.total_seconds() / 60
    return [
        f"In {len(parted)} of their blocks (such as {' '.join(first.run.words)}, process "
        f"{first.process + 1}) the runs were measured on several cards or more than {minutes:.0f} "
        "minutes apart: measure these again with --config again=blocks."
    ]


def refuse(doubts: Sequence[str]) -> None:
    """DatasetError where there are any doubts about records that are to be frozen."""
    if doubts:
        raise DatasetError(
            f"These records are not to be frozen. {' '.join(doubts)} Or keep them as they are "
            "with --config freeze_anyway=true."
        )


def refuse_doubtful(plan_files: Iterable[Path]) -> None:
    """Refuse to freeze the records that plans name, where anything about them is in doubt.

    Raises:
        DatasetError: they are of several commits or changed code, or of parted blocks.
    """
    files = {path: run for plan in map(read_json, plan_files) for run, path in planned_files(plan)}
    records = [read_record(path, run) for path, run in files.items()]
    refuse([*commit_doubts(record.environment for record in records), *block_doubts(records)])


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


MOST_BYTES = 16 * 2**20
"""The largest archive: ways to send files from a host often take no more."""


def packed_file(data: Path, name: str) -> Path:
    return data / f"{name}.tar.xz"


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def pack(data: Path, name: str) -> Path:
    """Write ``NAME.tar.xz`` beside a dataset's folder; unpacked in a project, it is its dataset.

    Raises:
        DatasetError: it would be larger than `MOST_BYTES`; nothing is written.
    """
    target, part = packed_file(data, name), data / f".{name}.tar.xz.part"
    with tarfile.open(part, "w:xz") as packed:
        packed.add(data / name, f"data/{name}", filter=_without_owner)
    size = part.stat().st_size
    if size > MOST_BYTES:
        part.unlink()
        raise DatasetError(
            f"{data / name} is not packed: it would take {size / 2**20:.1f} MiB, and "
            f"{MOST_BYTES / 2**20:.0f} MiB are the most; record its parts under names of their own"
        )
    part.rename(target)
    return target
