"""Results as the course's script writes them, and the `runs.csv` that says what they are."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.lab5.words import RUNS_CSV_COLUMNS


def memory_of(implementation: str, shape: Shape, workspaces: int = 17039360) -> float:
    """The MiB that a run takes in float16, on a GPU whose cuBLAS workspaces have so many bytes."""
    if implementation == "Flash2":
        return costs.flash2_peak_memory(shape) / costs.MIB
    return costs.naive_peak_memory(shape, workspaces) / costs.MIB


def result_of(implementation: str, shape: Shape, forward: float, backward: float) -> dict[str, Any]:
    """A JSON document of a run on a GPU before Hopper, with these seconds; rates follow."""
    flops = costs.flops(shape)
    seconds = {"forward": forward, "backward": backward, "forward_backward": forward + backward}
    passes = {
        name: {"time(s)": taken, "FLOPS(TFLOPs/s)": flops[name] / taken / 1e12}
        for name, taken in seconds.items()
    }
    return {**passes, "peak_memory_usage(MB)": memory_of(implementation, shape)}


def row_of(file: str, implementation: str, shape: Shape, device: str) -> list[str]:
    """A row of runs.csv."""
    sizes = (shape.batch_size, shape.seq_len, shape.num_heads, shape.emb_dim)
    return [file, implementation, *map(str, sizes), str(shape.causal).lower(), device]


def write(folder: Path, files: Mapping[str, Any]) -> Path:
    """Bytes, texts, or documents as JSON, in a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def write_rows(folder: Path, rows: list[list[str]]) -> None:
    with folder.joinpath("runs.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([[*RUNS_CSV_COLUMNS], *rows])


def write_results(folder: Path, results: Mapping[str, tuple[str, Shape, dict[str, Any]]]) -> None:
    """An implementation, its shape and its result by file names, declared of no device."""
    write(folder, {name: document for name, (_, _, document) in results.items()})
    write_rows(folder, [row_of(n, who, shape, "") for n, (who, shape, _) in results.items()])
