"""Records: written and read back, and everything else refused by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from planted.records import counters_of, record_of

from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.files import sha256_of
from flashlab.records import STATUSES, RecordError, parse_record, read_record, write_record
from flashlab.runs import Run


@pytest.mark.parametrize("status", [*STATUSES, "counters"])
def test_a_record_is_read_as_it_was_written(tmp_path: Path, run: Run, status: str) -> None:
    """Counters may be 0."""
    counters, path = counters_of(record_of(run), fused_share=0.0), tmp_path / "r.json"
    record = counters if status == "counters" else record_of(run, status)
    write_record(path, record)
    assert read_record(path, run, sha256_of(path)) == record
    assert record.has_counters == (status == "counters")


def test_the_courses_four_keys_stay_at_the_top_and_have_no_numbers_of_other_runs(run: Run) -> None:
    document = record_of(run, forward=[0.5] * 9, backward=[1.5] * 9, peak=3.0).to_json()
    flops = 4 * 2 * 64**2 * 64
    assert document["forward"] == {"time(s)": 0.5, "FLOPS(TFLOPs/s)": flops / 0.5 / 1e12}
    assert document["backward"]["FLOPS(TFLOPs/s)"] == 2.5 * flops / 1.5 / 1e12
    assert document["forward_backward"]["time(s)"] == 2.0
    assert document["peak_memory_usage(MB)"] == 3.0
    failed = record_of(run, "oom").to_json()
    assert failed["forward"] == {"time(s)": None, "FLOPS(TFLOPs/s)": None}
    assert failed["peak_memory_usage(MB)"] is None
    assert counters_of(record_of(run)).to_json().keys() == {"record"}


TIME = "record.metrics.forward_time"


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of a document with another value at a path of keys."""
    key, _, rest = path.partition(".")
    return {**document, key: changed(document[key], rest, value) if rest else value}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *((f"{TIME}.value", value) for value in (None, 0, -1.0, True, "0.1", 0.1)),
        *((f"{TIME}.samples", [0.1, 0.0]), (f"{TIME}.samples", [0.1] * 12)),
        *((f"{TIME}.unit", "s"), (f"{TIME}.stopped", "bored")),
        *(("record.metrics.heat", {"unit": "J", "value": 1.0}), ("record.metrics", {})),
        ("record.warnings", [{"code": "a_code_that_nothing_gives"}]),
        *(("record.started", value) for value in ("yesterday", "2026-01-02T03:04:05")),
        ("record.ended", "2026-01-02T03:04:04+00:00"),
        *(("record.benchmark", "swimming"), ("record.run.seq_len", 0), ("record.version", "new")),
        *(("record.colour", "red"), ("colour", "red")),
    ],
)
def test_what_is_not_of_its_benchmark_is_refused_by_name(run: Run, path: str, value: Any) -> None:
    named = "colour" if "colour" in path else r"metrics|benchmark|run|version|warnings|started"
    with pytest.raises(RecordError, match=f"^here: .*({named})"):
        parse_record(changed(record_of(run).to_json(), path, value), "here")


def test_neither_failures_nor_counters_have_times_nor_times_what_those_have(run: Run) -> None:
    documents = {status: record_of(run, status).to_json() for status in STATUSES}
    documents["counters"] = counters_of(record_of(run)).to_json()
    metrics = {name: document["record"]["metrics"] for name, document in documents.items()}
    for name, document in documents.items():
        mixed = {"record.metrics": metrics["counters" if name == "ok" else "ok"]}
        for path, value in (
            mixed | ({"record.message": None} if not metrics[name] else {})
        ).items():
            with pytest.raises(RecordError, match="here"):
                parse_record(changed(document, path, value), "here")


def test_a_record_of_another_version_says_who_reads_it(run: Run) -> None:
    document = record_of(run).to_json()
    for version, remedy in {1: "FlashLab 0.2.0 is the last", 3: r"update it \(git pull"}.items():
        stated = f"^here: is a record of version {version}, but this FlashLab reads 2; {remedy}"
        with pytest.raises(RecordError, match=stated):
            parse_record(changed(document, "record.version", version), "here")


def test_the_record_of_another_run_or_a_changed_one_is_refused(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "r.json"
    write_record(path, record_of(run))
    other = attention_run("Pytorch", Shape.of(run), run.dtype, run.device)
    with pytest.raises(RecordError, match=r"Flash2 .* but Pytorch .* was asked for"):
        read_record(path, other)
    recorded = sha256_of(path)
    path.write_text(path.read_text().replace("1.0", "1.5"))
    with pytest.raises(RecordError, match="sha256"):
        read_record(path, run, recorded)


NONSENSE = (b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"record": {}}')


@pytest.mark.parametrize("content", [*NONSENSE, None, 2**40])
def test_nonsense_is_refused_and_what_has_no_end(
    tmp_path: Path, run: Run, content: bytes | int | None
) -> None:
    path, why = tmp_path / "r.json", ""
    if content is None:
        path.symlink_to("/dev/zero")
        why = "not a regular file"
    elif isinstance(content, int):
        path.touch()
        os.truncate(path, content)  # takes no room on the disk
        why = f"has {content} bytes"
    else:
        path.write_bytes(content)
    with pytest.raises(RecordError, match=rf"r\.json.*{why}"):
        read_record(path, run)
