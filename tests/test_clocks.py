"""Files from the future, as a clock that has gone back leaves them."""

from __future__ import annotations

import os
import time
from pathlib import Path

from flashlab.calls import clocks

HOUR = 3600 * 10**9


def aged(path: Path, time_ns: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.touch()
    os.utime(path, ns=(time_ns, time_ns))
    return path


def order(*paths: Path) -> list[Path]:
    return sorted(paths, key=lambda path: path.stat().st_mtime_ns)


def test_files_from_the_future_are_pulled_back_in_their_order(tmp_path: Path) -> None:
    now = time.time_ns()
    results = tmp_path / "results"
    record = aged(results / "record.json", now - HOUR)
    table = aged(results / "runs.csv", now + HOUR)
    report = aged(results / "lab5.pdf", now + 2 * HOUR)
    before = record.stat().st_mtime_ns
    assert clocks.pull_back([results], now) == 2
    assert record.stat().st_mtime_ns == before
    assert order(report, record, table) == [record, table, report]
    assert report.stat().st_mtime_ns <= now
    plan = aged(results / "config.json", now + 1)
    assert order(plan, report) == [report, plan], "a new plan must be newer than the report"
    assert clocks.pull_back([results], now) == 0


def test_clocks_that_differ_by_a_moment_are_left_alone(tmp_path: Path) -> None:
    now = time.time_ns()
    file = aged(tmp_path / "results" / "record.json", now + 10**9)
    assert clocks.pull_back([tmp_path / "results"], now) == 0
    assert file.stat().st_mtime_ns == now + 10**9


def test_the_time_is_the_filesystems(tmp_path: Path) -> None:
    assert abs(clocks.filesystem_now(tmp_path) - time.time_ns()) < 60 * 10**9
    assert not list(tmp_path.iterdir())
