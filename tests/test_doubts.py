"""Doubts of records that keep them from being frozen, unless that is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from planted.records import record_of

from flashlab.plan.datasets import DatasetError
from flashlab.plan.freezing import commit_doubts, freeze_records, refuse_doubtful
from flashlab.records import Record
from flashlab.runs import Run

OLD, NEW = "a" * 40, "b" * 40


@pytest.fixture
def plan(tmp_path: Path, planned: Callable[..., dict[str, Any]]) -> Callable[..., Path]:
    """Writes records, and the plan that names them."""

    def write(*records: Record) -> Path:
        file = tmp_path / "plan.json"
        file.write_text(json.dumps(planned(records)))
        return file

    return write


def at(record: Record, card: str = "GPU-1", **surroundings: Any) -> Record:
    return replace(record, environment={**record.environment, "gpu_uuid": card, **surroundings})


def test_nothing_is_in_doubt_of_one_commit_or_where_there_was_no_git() -> None:
    assert commit_doubts([{"commit": OLD, "dirty": False}] * 3) == []
    assert commit_doubts([{"commit": None, "dirty": None}, {}]) == []


def test_several_commits_and_changed_code_are_in_doubt_each_with_how_much_is_of_it() -> None:
    clean, changed = {"commit": OLD, "dirty": False}, {"commit": OLD, "dirty": True}
    (said,) = commit_doubts([clean, clean, {"commit": NEW, "dirty": False}])
    assert f"(2 at {OLD[:12]}, 1 at {NEW[:12]})" in said and "again=all" in said
    (said,) = commit_doubts([changed])
    assert f"(1 at {OLD[:12]} with uncommitted changes)" in said
    assert commit_doubts([clean, {"commit": None}]), "one that says nothing beside one that does"


def test_records_of_one_block_are_refused_where_they_were_measured_apart(
    plan: Callable[..., Path], run: Run
) -> None:
    one, other = record_of(run), record_of(replace(run, implementation="Pytorch"))
    refuse_doubtful([plan(at(one), at(other))])
    later = replace(other, started="2026-01-02T03:14:06+00:00")
    for parted in (at(other, "GPU-2"), at(later)):
        with pytest.raises(DatasetError, match=r"In 1 of their blocks \(such as B2 N64 .* again=b"):
            refuse_doubtful([plan(at(one), parted)])


def test_what_is_refused_is_frozen_where_that_is_asked_for(
    plan: Callable[..., Path], run: Run, tmp_path: Path
) -> None:
    config, ceilings = tmp_path / "config.json", tmp_path / "ceilings.json"
    kept = {"baseline": "Pytorch", "summary": {}, "experiments": []}
    config.write_text(json.dumps({"measure": {"protocol": "sampled"}, **kept}))
    ceilings.write_text("{}")
    plans = [plan(at(record_of(run), commit=OLD, dirty=True))]
    with pytest.raises(DatasetError, match="freeze_anyway=true"):
        freeze_records("mine", config, ceilings, tmp_path / "data", False, plans)
    assert not (tmp_path / "data").exists()
    freeze_records("mine", config, ceilings, tmp_path / "data", True, plans)
    assert (tmp_path / "data" / "mine" / "manifest.json").is_file()
