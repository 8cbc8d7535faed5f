"""Small builders that many tests share."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from flashlab import costs
from flashlab.records import PASSES, Run, Shape, canonical, write_record

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture
def shape() -> Shape:
    return Shape(batch_size=2, seq_len=64, num_heads=4, emb_dim=64, causal=False)


@pytest.fixture
def run(shape: Shape) -> Run:
    return Run("Flash2", shape, "float32", "cpu")


@pytest.fixture(scope="session")
def record_of() -> Callable[..., dict[str, Any]]:
    """Builds the record of a run: `ok` with these samples (seconds), or with another status."""

    def build(
        run: Run,
        status: str = "ok",
        forward: Sequence[float] = (0.001,) * 12,
        backward: Sequence[float] = (0.0025,) * 12,
        peak: float | None = 10.0,
        **inner: Any,
    ) -> dict[str, Any]:
        ok = status == "ok"
        flops = costs.flops(run.shape)
        seconds = {"forward": statistics.median(forward), "backward": statistics.median(backward)}
        seconds["forward_backward"] = sum(seconds.values())
        record = {
            name: {
                "time(s)": seconds[name] if ok else None,
                "FLOPS(TFLOPs/s)": flops[name] / seconds[name] / 1e12 if ok else None,
            }
            for name in PASSES
        }
        return {
            **record,
            "peak_memory_usage(MB)": peak if ok else None,
            "record": {
                "version": 1,
                "status": status,
                "message": None if ok else f"it was {status}",
                "run": run.to_json(),
                "protocol": {"name": "sampled"},
                "samples": {
                    "forward": list(forward) if ok else [],
                    "backward": list(backward) if ok else [],
                },
                "stopped": {"forward": "interval", "backward": "time"} if ok else {},
                "gate": None,
                "warnings": [],
                "environment": {"device_name": "Abacus", "packages": {"torch": "2.0"}},
                "sources": {},
                "started": "2026-01-02T03:04:05+00:00",
                **inner,
            },
        }

    return build


@pytest.fixture
def planned(
    tmp_path: Path, record_of: Callable[..., dict[str, Any]]
) -> Callable[..., dict[str, Any]]:
    """Writes records under `tmp_path` and builds the plan document that names them."""

    def build(
        records: Sequence[dict[str, Any]],
        name: str = "seq_len",
        sweep: str = "seq_len",
        figures: Sequence[dict[str, Any]] = (),
    ) -> dict[str, Any]:
        runs = [Run.from_json(record["record"]["run"]) for record in records]
        entries = []
        for run, record in zip(runs, records, strict=True):
            digest = hashlib.sha256(canonical(record).encode()).hexdigest()[:12]
            path = tmp_path / "records" / f"{run.slug}-{digest}.json"
            write_record(path, record)
            entries.append({"run": run.to_json(), "path": str(path), "sha256": None})
        return {
            "name": name,
            "title": {"zh_TW": "調整", "en": "Sweep"},
            "sweep": sweep,
            "baseline": "Pytorch",
            "languages": ["zh_TW", "en"],
            "implementations": [
                {
                    "name": implementation,
                    "style": style,
                    "label": {"zh_TW": f"{implementation}實作", "en": f"{implementation} kernel"},
                    "source_sha256": "0" * 64,
                }
                for style, implementation in enumerate(
                    dict.fromkeys(run.implementation for run in runs)
                )
            ],
            "records": entries,
            "figures": list(figures),
        }

    return build
