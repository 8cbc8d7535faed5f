from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flashlab import plan, plan_files
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.grading.attachments import UnsoundPdfError
from flashlab.grading.rebuild import _planned, _write_records
from flashlab.records import COUNTERS, Record, read_record
from flashlab.runs import Run


@pytest.fixture
def attached(
    run: Run,
    record_of: Callable[..., Record],
    counters_of: Callable[..., Record],
    planned: Callable[..., dict[str, Any]],
) -> dict[str, Any]:
    """The attached records of a run with counters, by name."""
    record = record_of(run)
    entries = planned([record], counters=[counters_of(record)])["records"]
    paths = plan_files.record_paths(entries)
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def test_a_runs_counters_are_rebuilt_beside_its_record(
    attached: dict[str, Any], run: Run, tmp_path: Path
) -> None:
    assert sum(name.startswith(COUNTERS) for name in attached) == 1
    written = _write_records(attached, tmp_path / "rebuilt")
    block = plan.Experiment(ATTENTION, "x", {}, "seq_len", (dict(run),), ("Flash2",), ())
    found = _planned([block], written, (run.dtype, run.device), "sampled")
    counters = found[run].counters
    assert counters is not None
    assert read_record(counters.path, run).has_counters
    assert not read_record(found[run].path, run).has_counters


def test_counters_that_are_attached_twice_are_refused(
    attached: dict[str, Any], tmp_path: Path
) -> None:
    name = next(name for name in attached if name.startswith(COUNTERS))
    twice = {**attached, f"again-{name}": attached[name]}
    with pytest.raises(UnsoundPdfError, match="attached twice"):
        _write_records(twice, tmp_path / "rebuilt")
