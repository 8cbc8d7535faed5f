"""A student sees before handing in what a grader will see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from grading.conftest import measured_again

from flashlab.analysis.experiment import RUN_COLUMNS, run_keys
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab_grading.model import GradingError
from flashlab_grading.recorded import DATA, is_shipped
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


OWN_TABLE = ",".join((*run_keys(ATTENTION), *RUN_COLUMNS)) + "\n"
OUTPUTS = {
    "results/local/tables/seq_len/runs.csv": OWN_TABLE,
    "results/local/observations.json": "[]",
    "results/local/plan/experiments.json": '["seq_len"]',
    "results/local/verdicts.json": "{}",
}


def test_a_project_handed_in_whole_is_its_own_results(
    sound: Any, tmp_path: Path, capsys: Any
) -> None:
    """Not what the pipeline derives from them, nor the recordings that came with it."""
    mine = measured_again(sound, 1)
    mine.write(tmp_path / "mine" / "results" / "course")
    shipped = [*sorted((DATA / "h200" / "records").iterdir())[::9], DATA / "published/slide.json"]
    ladder = next((DATA / "h200" / "ladder" / "records").iterdir())
    for path in shipped:
        copied = tmp_path / "mine" / "data" / path.relative_to(DATA)
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(path.read_bytes())
    for name, text in {**OUTPUTS, f"results/local/{ladder.name}": ladder.read_text()}.items():
        path = tmp_path / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert self_check(tmp_path / "mine", None, "en") == 0
    told = capsys.readouterr().out
    assert f"{len(shipped)} files of FlashLab itself" in told
    assert "was ignored. (4 more files likewise)" in told
    assert not any(line.startswith(("×", "△")) for line in told.splitlines())


def test_a_shipped_record_is_known_in_a_report_of_its_dataset() -> None:
    path = min((DATA / "h100" / "records").iterdir())
    document = json.loads(path.read_text("utf-8"))
    attached = json.dumps(document).encode()
    assert is_shipped(f"mine/report/h100.pdf/{path.name}", attached)
    assert is_shipped(f"mine/data/h100/records/{path.name}", path.read_bytes())
    document["record"]["started"] = "2026-01-01T00:00:00+00:00"
    assert not is_shipped(f"mine/report/h100.pdf/{path.name}", json.dumps(document).encode())
    for elsewhere in (path.name, f"report.pdf/data/*/{path.name}", "data/\0/x.pdf/[.json"):
        assert not is_shipped(elsewhere, attached)


def test_what_was_not_checked_is_told_with_what_it_takes(
    sound: Any, tmp_path: Path, capsys: Any
) -> None:
    own = measured_again(sound, 1)
    own.without_names()
    own.rows = None
    own.write(tmp_path / "mine")
    self_check(tmp_path / "mine", None, "en")
    told = capsys.readouterr().out
    assert "must be one of those listed. A runs.csv would settle it." in told
    assert "takes at least 8 submissions that name the same device" in told
    tmp_path.joinpath("none").mkdir()
    assert self_check(tmp_path / "none", None, "zh_TW") == 1
    told = capsys.readouterr().out
    assert "– 物理：未檢核\n    沒有可供這項檢核的檔案" in told


def test_a_folder_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(GradingError, match="there is no such folder"):
        self_check(tmp_path / "gone", None, "en")
