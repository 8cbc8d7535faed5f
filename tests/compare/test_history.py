from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from compare.golden import COMMITS, history
from compare.recordings import git, keep

from flashlab.__main__ import main
from flashlab.compare.history import HistoryError, histories, read_history
from flashlab.records import Record


def with_environment(records: list[Record], **environment: Any) -> list[Record]:
    return [replace(r, environment={**r.environment, **environment}) for r in records]


def test_uncommitted_changes_and_other_machines_are_kept_apart() -> None:
    records, order = history(), {commit: place for place, commit in enumerate(COMMITS)}
    dirty = with_environment(records[:3], dirty=True)
    elsewhere = with_environment(records[:3], device_name="Slate")
    lines = histories([*records, *dirty, *elsewhere], order)
    assert sorted(len(line["values"]) for line in lines) == [1] * 3 + [len(COMMITS)] * 3
    with pytest.raises(HistoryError, match="every record was measured with uncommitted changes"):
        histories(dirty, order)


def test_the_order_of_commits_is_read_from_git(tmp_path: Path) -> None:
    git(tmp_path, "init")
    for number in range(12):
        git(tmp_path, "commit", "--allow-empty", "--message", str(number))
    commits = git(tmp_path, "rev-list", "--reverse", "HEAD").split()
    # As if the later commits had been measured first.
    records = [
        replace(
            each,
            environment={**each.environment, "commit": commits[COMMITS.index(commit)]},
            started=f"2026-01-01T00:00:{59 - place:02}+00:00",
        )
        for place, each in enumerate(history())
        if (commit := each.environment["commit"])
    ]
    keep(tmp_path / "records", records)
    (change,) = read_history([tmp_path], tmp_path)["lines"][0]["changes"]
    assert (change["after"], change["by"]) == (commits[5], commits[6])


def test_the_page_is_one_file_that_loads_nothing(tmp_path: Path) -> None:
    keep(tmp_path, history())
    page = tmp_path / "history.html"
    assert main(["history", str(tmp_path), "--format", "html", "--output", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.count("<polyline") == 3
    assert text.count('<line class="slower"') == 1
    assert not any(loads in text for loads in ("<script", "<link", "<img", "@import", "url("))


def test_a_missing_folder_is_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["history", str(tmp_path / "none")]) == 1
    assert "there is no folder" in capsys.readouterr().err
