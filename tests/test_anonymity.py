"""Fields that an anonymous report's records lack, and fields that they keep."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from planted.records import record_of

from flashlab.analysis.tables import read_runs, run_rows
from flashlab.anonymity import anonymous, anonymous_text
from flashlab.files import read_json, sha256_of, write_json
from flashlab.records import Record, parse_record
from flashlab.runs import Run

UUID = "GPU-4d2c3a55-6f0e-4a7c-9b3e-0d8f1a2b3c4d"
BOOT = "0e41b3e4-811a-4040-af78-94b81afaa092"
PRIVATE = ("4d2c3a55", BOOT, "alice", "secret")
MESSAGE = f"OSError: '/home/alice/secret project/x' /home/alice/secret/mine.py:12 on {UUID}"


@pytest.fixture
def private(run: Run) -> Record:
    """A record that names its machine and its owner's folders."""
    record = record_of(run, "error", message=MESSAGE)
    environment = {**record.environment, "gpu_uuid": UUID, "boot": BOOT, "commit": "abc"}
    return replace(record, environment=environment)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/alice/FlashLab/kernels/mine.py:12: no", "…/mine.py:12: no"),
        ("see ~/secret/notes.txt", "see …/notes.txt"),
        ("../../home/alice/data/x.json", "…/x.json"),
        ("'/home/alice/secret folder/mine.py' is gone", "'…/mine.py' is gone"),
        (f"no device {UUID}", "no device anonymous-"),
        ("at 3 TFLOP/s, results/local/x.json", "at 3 TFLOP/s, results/local/x.json"),
        ("https://nvidia.com/ERR_NVGPUCTRPERM", "https://nvidia.com/ERR_NVGPUCTRPERM"),
    ],
)
def test_folders_and_uuids_are_left_out_of_texts_and_nothing_else(text: str, expected: str) -> None:
    found = anonymous_text(text)
    assert found.startswith(expected)
    assert not any(part in found for part in ("alice", "secret", "4d2c"))
    assert anonymous_text(found) == found


def test_what_is_anonymous_is_a_record_whose_devices_are_still_told_apart(private: Record) -> None:
    found = anonymous(private.to_json())
    assert not any(part in json.dumps(found) for part in PRIVATE)
    assert anonymous(found) == found
    assert parse_record(found, "here").run == private.run
    other = replace(private, environment={**private.environment, "gpu_uuid": UUID[:-1] + "e"})
    one, another = (anonymous(r.to_json())["record"]["environment"] for r in (private, other))
    assert one["gpu_uuid"] != another["gpu_uuid"] and one["boot"] == another["boot"]
    assert one["commit"] == "abc"


def test_tables_have_what_is_attached_and_the_record_stays_whole(
    private: Record, planned: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    plan = planned([private])
    (whole,) = run_rows(read_runs(plan, plan), plan["sources"])
    assert (whole["gpu_uuid"], whole["message"]) == (UUID, MESSAGE)
    plan["anonymous"] = True
    (row,) = run_rows(read_runs(plan, plan), plan["sources"])
    assert not any(part in str(row) for part in PRIVATE)
    attached = anonymous(read_json(Path(plan["records"][0]["path"])))
    write_json(tmp_path / "attached.json", attached)
    assert row["sha256"] == sha256_of(tmp_path / "attached.json")
