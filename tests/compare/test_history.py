from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from compare.recordings import keep, record, runs

from flashlab.__main__ import main
from flashlab.compare.history import HistoryError, histories, read_history
from flashlab.records import Record

COMMITS = [f"{number:040x}" for number in range(12)]


def measured_at(commit: str, seed: int, factor: float = 1.0, **environment: Any) -> list[Record]:
    """The processes of one run as they were measured at a commit."""
    ((found),) = record(runs([256]), seed, factor=lambda run: factor).values()
    stated = {"commit": commit, "dirty": False, **environment}
    return [replace(each, environment={**each.environment, **stated}) for each in found]


def planted(commits: Sequence[str] = COMMITS, step: int = 6) -> list[Record]:
    """Twelve commits, from the seventh on a fifth slower forward."""
    return [
        each
        for position, commit in enumerate(commits)
        for each in measured_at(commit, position, 1.2 if position >= step else 1.0)
    ]


ORDER = {commit: position for position, commit in enumerate(COMMITS)}


def test_uncommitted_changes_and_other_machines_are_kept_apart() -> None:
    dirty = measured_at(COMMITS[0], 1, 9.0, dirty=True)
    elsewhere = measured_at(COMMITS[0], 1, 9.0, device_name="Slate")
    lines = histories([*planted(), *dirty, *elsewhere], ORDER)
    assert sorted(len(line["values"]) for line in lines) == [1] * 3 + [len(COMMITS)] * 3
    with pytest.raises(HistoryError, match="every record was measured with uncommitted changes"):
        histories(dirty, ORDER)


def test_the_order_of_commits_is_read_from_git(tmp_path: Path) -> None:
    git = ("git", "-C", str(tmp_path), "-c", "user.name=N", "-c", "user.email=e@example.org")
    subprocess.run([*git, "init", "--quiet"], check=True)
    commits = []
    for number in range(12):
        message = ["commit", "--quiet", "--allow-empty", "--message", str(number)]
        subprocess.run([*git, *message], check=True)
        head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True)
        commits.append(head.stdout.decode().strip())
    # As if the later commits had been measured first.
    records = [
        replace(r, started=f"2026-01-01T00:00:{59 - i:02}+00:00")
        for i, r in enumerate(planted(commits))
    ]
    keep(tmp_path / "records", records)
    document = read_history([tmp_path], tmp_path)
    (change,) = document["lines"][0]["changes"]
    assert (change["after"], change["by"]) == (commits[5], commits[6])


def test_the_page_is_one_file_that_loads_nothing(tmp_path: Path) -> None:
    keep(tmp_path, planted())
    page = tmp_path / "history.html"
    assert main(["history", str(tmp_path), "--format", "html", "--output", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.count("<polyline") == 3
    assert text.count('<line class="slower"') == 1
    assert not any(loads in text for loads in ("<script", "<link", "<img", "@import", "url("))


def test_a_missing_folder_is_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["history", str(tmp_path / "none")]) == 1
    assert "there is no folder" in capsys.readouterr().err
