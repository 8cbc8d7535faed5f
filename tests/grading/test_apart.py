"""A submission that takes all memory or time loses its own grade and nobody else's."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from grading.conftest import FLASH, measured_again

from flashlab_grading import apart, files
from flashlab_grading.apart import check_apart
from flashlab_grading.grade import check_alone
from flashlab_grading.submissions import read_submission


def test_what_is_checked_apart_is_what_is_checked_here(sound: Any, tmp_path: Path) -> None:
    names = ["ann", "ben", "cem"]
    for seed, name in enumerate(names):
        measured_again(sound, seed).write(tmp_path / name)
    found = list(check_apart(str(tmp_path), names, "NVIDIA H200"))
    assert found == [
        check_alone(read_submission(str(tmp_path), name, "NVIDIA H200")) for name in names
    ]


@pytest.mark.parametrize("harm", ["memory", "time"])
def test_a_submission_beyond_its_bounds_is_one_line(
    harm: str, sound: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = apart.read_submission

    def harmful(folder: str, name: str, device: str | None) -> Any:
        if name == "eve":
            hoard = [bytearray(2**20) for _ in range(4096)] if harm == "memory" else []
            time.sleep(30)
            del hoard
        return read(folder, name, device)

    monkeypatch.setattr(apart, "read_submission", harmful)
    monkeypatch.setattr(apart, "MAX_SECONDS", 4.0)
    monkeypatch.setattr(apart, "MAX_MEMORY", 256 * 2**20)
    sound.write(tmp_path / "ann")
    begin = time.monotonic()
    ann, eve = check_apart(str(tmp_path), ["ann", "eve"], None)
    assert time.monotonic() - begin < 20
    assert "fail" not in {line.verdict for line in ann.lines}
    assert [line.code for line in eve.lines if line.check == "form"] == ["form.budget"]


def test_sixty_links_to_one_large_file_are_read_up_to_the_bound(sound: Any, tmp_path: Path) -> None:
    folder = sound.write(tmp_path / "eve")
    large = tmp_path / "large.json"
    large.write_text(json.dumps(sound.document(FLASH)).ljust(4 * 2**20))
    for i in range(60):
        os.link(large, folder / f"z{i:02}.json")
    (found,) = check_apart(str(tmp_path), ["eve"], None)
    codes = [line.code for line in found.lines]
    assert codes.count("form.too_many_bytes") == 1
    assert len(found.submission.results) <= 36 + files.MAX_BYTES // 2**22 + 1
    assert "form.budget" not in codes


def test_a_record_of_millions_of_samples_is_refused(sound: Any) -> None:
    name = sound.file(FLASH)
    document = sound.documents[name]
    metrics = {"forward_time": {"samples": [1] * 1_000_000}, "backward_time": {}}
    document["record"] = sound.record(name, metrics=metrics)
    assert sound.graded("eve").fails() == {("form", name): "form.many_samples"}
