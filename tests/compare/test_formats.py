from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from compare.recordings import Recording, keep, record, runs

from flashlab.cli import main


def kept(folder: Path, recording: Recording) -> str:
    keep(folder, itertools.chain(*recording.values()))
    return str(folder)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two folders of records, the second with a run that is slower."""
    folder, measured = tmp_path_factory.mktemp("sides"), runs()
    quiet = {"spread": 0.003}
    slow = record(measured, 2, **quiet, factor=lambda r: 1.3 if r["seq_len"] == 8192 else 1.0)
    return kept(folder / "a|b", record(measured, 1, **quiet)), kept(folder / "after", slow)


def test_a_merge_request_fails_on_a_slower_run_and_its_comment_has_the_table(
    sides: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["compare", *sides, "--format", "markdown", "--language", "en"]
    assert main([*call, "--fail-on", "failed", "--fail-on", "slower"]) == 1
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if line.startswith("| ")]
    means, (heading, row) = lines[1], lines[2:4]
    assert "Flash2" in means and "1− 7=" in means
    assert r"a\|b" in heading and row.rstrip(" |").endswith("slower")
    assert "times the speed at 1 of 4 settings: B1 N8192 H8 E512 full" in printed
    assert main([*call, "--fail-on", "failed"]) == 0


def test_sides_with_nothing_in_common_are_an_error(
    sides: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = kept(tmp_path, record(runs([512]), 3))
    assert main(["compare", sides[0], other]) == 1
    assert "have no run in common" in capsys.readouterr().err
