"""A student sees before handing in what a grader will see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from grading.conftest import measured_again

from flashlab_grading.model import GradingError
from flashlab_grading.selfcheck import self_check


def test_a_sound_submission_is_told_so(sound: Any, tmp_path: Path, capsys: Any) -> None:
    measured_again(sound, 1).write(tmp_path / "mine")
    assert self_check(tmp_path / "mine", None, "en") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["✓ Format: pass", "✓ Arithmetic: pass"]
    assert not any(line.startswith(("×", "△")) for line in lines)


@pytest.mark.parametrize(
    ("language", "expected"),
    [("en", "labels of the two implementations are exchanged in 36 of 36"),
     ("zh_TW", "36 個檔案中有 36 個的兩種實作標示對調")],
)  # fmt: skip
def test_a_cause_is_told_with_examples(
    language: str, expected: str, sound: Any, tmp_path: Path, capsys: Any
) -> None:
    own = measured_again(sound, 1)
    own.exchange_labels()
    own.write(tmp_path / "mine")
    assert self_check(tmp_path / "mine", None, language) == 1
    told = capsys.readouterr().out
    assert expected in told
    assert " → Flash2 B·H=512 N=128 d=64 causal → Pytorch B16 N128 H32 E2048 causal\n" in told


def test_what_was_published_is_not_ones_own(sound: Any, tmp_path: Path, capsys: Any) -> None:
    sound.write(tmp_path / "mine")
    assert self_check(tmp_path / "mine", None, "en") == 1
    assert "data/h200 (lab5)" in capsys.readouterr().out


def test_a_folder_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(GradingError, match="there is no such folder"):
        self_check(tmp_path / "gone", None, "en")
