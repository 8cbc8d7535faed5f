"""Doubts of records that keep them from being frozen, unless that is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from planted.plans import plan_of
from planted.records import record_of

from flashlab.plan.datasets import DatasetError
from flashlab.plan.freezing import keep, refuse_doubtful
from flashlab.records import Record
from flashlab.runs import Run

OLD, NEW = "a" * 40, "b" * 40


def at(record: Record, card: str = "GPU-1", **surroundings: Any) -> Record:
    return replace(record, environment={**record.environment, "gpu_uuid": card, **surroundings})


def said(*environments: dict[str, Any]) -> str:
    """What is in doubt about records that were measured so; nothing if that is nothing."""
    try:
        refuse_doubtful(environments)
    except DatasetError as error:
        return str(error)
    return ""


def test_nothing_is_in_doubt_of_one_commit_or_where_there_was_no_git() -> None:
    assert said(*[{"commit": OLD, "dirty": False}] * 3) == ""
    assert said({"commit": None, "dirty": None}, {}) == ""


def test_several_commits_and_changed_code_are_in_doubt_each_with_how_much_is_of_it() -> None:
    clean, changed = {"commit": OLD, "dirty": False}, {"commit": OLD, "dirty": True}
    both = said(clean, clean, {"commit": NEW, "dirty": False})
    assert f"(2 at {OLD[:12]}, 1 at {NEW[:12]})" in both and "again=all" in both
    assert f"(1 at {OLD[:12]} with uncommitted changes)" in said(changed)
    assert said(clean, {"commit": None}), "one that says nothing beside one that does"


def test_records_of_one_block_are_refused_where_they_were_measured_apart(run: Run) -> None:
    one, other = record_of(run), record_of(replace(run, implementation="Pytorch"))
    refuse_doubtful((), [at(one), at(other)])
    later = replace(other, started="2026-01-02T03:14:06+00:00")
    for parted in (at(other, "GPU-2"), at(later)):
        with pytest.raises(DatasetError, match=r"In 1 of their blocks \(such as B2 N64 .* again=b"):
            refuse_doubtful((), [at(one), parted])


def test_what_is_refused_is_frozen_where_that_is_asked_for(run: Run, tmp_path: Path) -> None:
    record, data = at(record_of(run), commit=OLD, dirty=True), tmp_path / "data"
    with pytest.raises(DatasetError, match="freeze_anyway=true"):
        keep(plan_of(tmp_path, [record], freeze_anyway=False), data)
    assert not data.exists()
    assert (keep(plan_of(tmp_path, [record]), data) / "manifest.json").is_file()
