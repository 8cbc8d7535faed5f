"""Planted records, and the plan that names them."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.implementations import implementations_of
from flashlab.benchmarks.registry import find_benchmark
from flashlab.files import canonical, read_json, write_json
from flashlab.records import COUNTERS, SCHEMAS, Measurement, Record
from flashlab.runs import Run

_SCHEMA = read_json(SCHEMAS / "record.schema.json")["properties"]["record"]["properties"]
STATUSES: list[str] = _SCHEMA["status"]["enum"]
WARNINGS: list[str] = _SCHEMA["warnings"]["items"]["properties"]["code"]["enum"]

COUNTED = {
    "cuda": {
        **{"kernels": 1.0, "busy_time": 1.0, "dram_bytes": 1e8, "matrix_activity": 20.0},
        **{"occupancy": 60.0, "compute_share": 30.0, "memory_share": 40.0},
    },
    "cpu": {
        **{"operators": 6.0, "operator_time": 1.0, "allocated_bytes": 1e7, "product_share": 50.0},
        **{"softmax_share": 30.0, "fused_share": 0.0, "elementwise_share": 20.0},
    },
}
"""The counters of a pass where nothing else is stated, by kind of device."""

DECLARED = ("stores_scores", "tuned_on", "packed_of")
"""What a plan says of an implementation as its kernel's file declares it, if there is one."""


def plain_record(run: Run, benchmark: str, **fields: Any) -> Record:
    """A record that is ok and states little, but for these fields."""
    usual: dict[str, Any] = {
        **{"status": "ok", "message": None, "protocol": {"name": "sampled"}, "metrics": {}},
        **{"gate": None, "warnings": (), "sources": {}, "started": "2026-01-02T03:04:05+00:00"},
        "environment": {"device_name": "Abacus", "packages": {"torch": "2.0"}},
    }
    return Record(benchmark=benchmark, run=run, **{**usual, **fields})


def record_of(
    run: Run,
    status: str = "ok",
    forward: Sequence[float] = (0.001,) * 12,
    backward: Sequence[float] = (0.0025,) * 12,
    peak: float = 10.0,
    **changes: Any,
) -> Record:
    """The record of a run of attention: ok with these samples in seconds, or another status."""
    timed = {"forward_time": (forward, "interval"), "backward_time": (backward, "time")}
    metrics = {"peak_memory": Measurement(peak)}
    for name, (seconds, stopped) in timed.items():
        samples = tuple(second * 1e3 for second in seconds)
        metrics[name] = Measurement(statistics.median(seconds) * 1e3, samples, stopped)
    fields: dict[str, Any] = {"status": status, "message": f"it was {status}"}
    if status == "ok":
        fields = {"metrics": metrics}
    return replace(plain_record(run, "attention", **fields), **changes)


def counters_of(record: Record, status: str = "ok", **counts: Any) -> Record:
    """The record of the counters of a record's run, alike for both passes."""
    usual = COUNTED[record.run.device]
    found = usual | {name: counts.pop(name) for name in usual.keys() & counts.keys()}
    metrics = {
        metric.name: Measurement(found[metric.quantity.name])
        for metric in ATTENTION.all_counters(record.run.device)
    }
    fields = {"metrics": metrics, "message": None, "details": {"kernels": {}}}
    if status != "ok":
        fields = {"metrics": {}, "message": f"it was {status}", "details": None}
    return replace(record, **{"status": status, "protocol": {"name": COUNTERS}, **fields, **counts})


def experiment_document(
    benchmark: str, names: Sequence[str], name: str = "seq_len", sweep: str = "seq_len"
) -> dict[str, Any]:
    """The plan of an experiment with these implementations, without its runs."""
    entries = [
        {"name": each, "style": i, "label": {"zh_TW": f"{each}實作", "en": f"{each} kernel"}}
        for i, each in enumerate(names)
    ]
    return {
        **{"benchmark": benchmark, "name": name, "sweep": sweep, "baseline": "Pytorch"},
        **{"emphasised": ["Pytorch", "Flash2"], "implementations": entries, "figures": []},
    }


def written(folder: Path, record: Record) -> Path:
    """The file of a record, which is written below a folder; whoever reads it checks it."""
    document = record.to_json()
    digest = hashlib.sha256(canonical(document).encode()).hexdigest()[:12]
    path = folder / "records" / f"{COUNTERS}-{record.run.slug}.json"
    if not record.has_counters:
        path = path.with_name(f"{record.run.slug}-{digest}.json")
    write_json(path, document)
    return path


def plan_of(
    folder: Path,
    records: Sequence[Record],
    name: str = "seq_len",
    experiment: str = "seq_len",
    counters: Sequence[Record] = (),
) -> dict[str, Any]:
    """The plan document of an experiment with these records, which are written into a folder."""
    runs = list(dict.fromkeys(record.run for record in records))
    entries: dict[Run, dict[str, Any]] = {}
    for record in records:
        file = {"path": str(written(folder, record)), "sha256": None}
        if record.run in entries:
            entries[record.run].setdefault("replicates", []).append(file)
        else:
            entries[record.run] = {"run": record.run.to_json(), **file}
    for record in counters:
        entries[record.run]["counters"] = {"path": str(written(folder, record)), "sha256": None}
    names, benchmark = list(dict.fromkeys(run.implementation for run in runs)), records[0].benchmark
    document = experiment_document(benchmark, names, name, experiment)
    kernels = implementations_of(find_benchmark(benchmark))
    for entry in document["implementations"]:
        entry |= {key: getattr(kernels.get(entry["name"]), key, None) for key in DECLARED}
    return {
        **document,
        "runs": [run.to_json() for run in runs],
        # What the tables are made of, which the pipeline keeps in a file of its own.
        "sources": {each: {"sha256": "0" * 64, "digest": "a" * 64} for each in names},
        "records": list(entries.values()),
    }


def samples_around(median: float, spread: float = 0.0005) -> Measurement:
    """41 samples within one or two percent of their median, in no order of time."""
    factors = (1 + spread * (17 * step % 41 - 20) for step in range(41))
    return Measurement(median, tuple(median * factor for factor in factors), "interval")
