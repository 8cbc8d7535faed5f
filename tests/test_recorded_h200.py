"""The recorded H200 dataset holds what its manifest says, and the memory that the model says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from flashlab.benchmarks.attention.declaration import exact_peak_memory
from flashlab.datasets import read_dataset
from flashlab.records import read_record

H200 = read_dataset(Path(__file__).parents[1] / "data" / "h200")
TIMED = [entry for entry in H200.entries if not entry.has_counters]


def test_every_record_is_the_manifests() -> None:
    for entry in H200.entries:
        assert read_record(entry.path, entry.run, entry.sha256).protocol == entry.protocol


def test_the_labs_runs_and_the_slides_are_there_by_the_courses_protocol() -> None:
    counts = Counter(e.run.implementation for e in H200.entries if e.protocol["name"] == "lab5")
    assert counts == {"Flash2": 18, "Pytorch": 18}


def test_peak_memory_equals_the_model_to_the_byte() -> None:
    """Every run of both implementations that fitted, those of one sequence among them."""
    checked: Counter[str] = Counter()
    for entry in TIMED:
        record, name = read_record(entry.path, entry.run), entry.run.implementation
        if name not in ("Flash2", "Pytorch") or record.status != "ok":
            continue
        stated = record.environment["provider"], record.environment["device_name"]
        assert exact_peak_memory(entry.run, *stated) == record.metrics["peak_memory"].value
        checked[name] += 1
    assert checked == {"Flash2": 56, "Pytorch": 55}


def test_the_naive_implementation_runs_out_of_memory_where_the_scores_need_256_gib() -> None:
    statuses = {
        entry.run["seq_len"]: read_record(entry.path, entry.run).status
        for entry in TIMED
        if entry.run.implementation == "Pytorch"
        and entry.run["batch_size"] == 1
        and entry.run["num_heads"] == 32
        and not entry.run["causal"]
    }
    assert statuses == {4096: "ok", 8192: "ok", 16384: "ok", 32768: "oom"}
