"""Changed verdicts, as told to a reader of the report before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flashlab.analysis.experiment import COMPARISONS, IMPLEMENTATIONS
from flashlab.analysis.verdict_changes import compare_verdicts
from flashlab.files import write_json
from flashlab.plan.plan_files import RECORDS

COLUMNS = "experiment,compared,variant,metric,subject,reference,value,reference_value,verdict,d"


def row(name: str, verdict: str, value: int | str = 128, over: int | str = "", d: int = 64) -> str:
    about = f"seq_len,{IMPLEMENTATIONS},causal=false,forward_time,{name},Pytorch"
    return f"{about},{value},{over or value},{verdict},{d}"


def report(results: Path, *rows: str, made: float, record: str = "record.json") -> list[str]:
    """What is told when these are the comparisons of one record, made so long after 1970."""
    path = results / record
    path.touch()
    os.utime(path, (made, made))
    write_json(results / RECORDS, {"experiments": {"seq_len": [{"path": str(path)}]}})
    (results / COMPARISONS).write_text("\n".join([COLUMNS, *rows, ""]))
    return compare_verdicts(results)


def test_a_verdict_that_changed_is_told_once(tmp_path: Path) -> None:
    """Alone or pooled; a ratio that is new or gone, or of another size, is no changed verdict."""
    flex, pooled = row("Flex", "below"), row("Flash2", "below", "")
    report(tmp_path, row("Flash2", "above"), flex, pooled, made=1)
    open_ = row("Flash2", "inconclusive")
    assert report(tmp_path, open_, flex, pooled, made=1) == [
        "1 of 3 verdicts changed since the report before, from the same records:",
        "seq_len causal=false forward_time at 128: Flash2 / Pytorch: above is now inconclusive",
    ]
    assert report(tmp_path, open_, flex, pooled, made=1) == []
    assert report(tmp_path, open_, flex, row("Flash2", "equal", ""), made=1)[1:] == [
        "seq_len causal=false forward_time pooled: Flash2 / Pytorch: below is now equal"
    ]
    other, wider = row("Flash2", "above", over=64), row("Flash2", "below", over=64, d=128)
    assert report(tmp_path, other, made=1) == report(tmp_path, wider, made=1) == []


@pytest.mark.parametrize(
    ("record", "made", "cause"),
    [
        pytest.param("record.json", 2, "from the same records", id="nothing"),
        pytest.param("record.json", 1, "measured since", id="the run again"),
        pytest.param("other.json", 1, "which had other runs", id="another experiment, long ago"),
        pytest.param("other.json", 2**31, "measured since", id="a run, as after an upgrade"),
    ],
)
def test_what_was_measured_since_is_told_apart_from_an_upgrade(
    tmp_path: Path, record: str, made: int, cause: str
) -> None:
    report(tmp_path, row("Flash2", "above"), made=2)
    said = report(tmp_path, row("Flash2", "below"), record=record, made=made)
    assert said[0].endswith(f"{cause}:")
