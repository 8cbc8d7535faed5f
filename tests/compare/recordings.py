"""Planted recordings: the same runs on two sides, of which a test says what differs."""

from __future__ import annotations

import itertools
import random
import statistics
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from planted.records import plain_record

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.compare.comparison import compare
from flashlab.compare.sides import Side, find_side
from flashlab.records import Measurement, Record, write_record
from flashlab.runs import Run
from flashlab.story.compare import Compared

Recording = dict[Run, list[Record]]

SIZES = (256, 1024, 4096, 8192)


def runs(
    sizes: Sequence[int] = SIZES,
    masks: Sequence[bool] = (False,),
    implementation: str = "Flash2",
) -> list[Run]:
    """A run at each sequence length and mask."""
    return [
        attention_run(implementation, Shape(1, size, 8, 512, causal), "float16", "cuda")
        for size in sizes
        for causal in masks
    ]


def record(
    measured: Sequence[Run],
    seed: int,
    processes: int = 3,
    spread: float = 0.01,
    factor: Callable[[Run], float] = lambda run: 1.0,
    peak: float = 10.0,
) -> Recording:
    """Runs in several processes, each with an offset of its own and noisy samples.

    `factor` gives by how much longer than planted a run's forward pass takes.
    """
    drawn = random.Random(seed)

    def timed(milliseconds: float) -> Measurement:
        offset = drawn.gauss(1, spread)
        samples = tuple(milliseconds * offset * drawn.gauss(1, 0.01) for _ in range(20))
        return Measurement(statistics.median(samples), samples, "interval")

    def one(run: Run, process: int) -> Record:
        metrics = {
            "forward_time": timed(1.0 * factor(run)),
            "backward_time": timed(2.5),
            "peak_memory": Measurement(peak),
        }
        digests = {"implementation_digest": "a" * 64, "measuring_digest": "b" * 64}
        started = f"2026-01-02T03:04:{seed % 60:02}+00:00"
        sources = {"process": process, **digests}
        return plain_record(run, "attention", metrics=metrics, sources=sources, started=started)

    return {run: [one(run, process) for process in range(processes)] for run in measured}


def git(folder: Path, *arguments: str) -> str:
    """The output of git in a folder, with a committer set."""
    author = ("-c", "user.name=N", "-c", "user.email=e@example.org")
    command = ["git", "-C", str(folder), *author, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def keep(folder: Path, records: Iterable[Record]) -> list[Path]:
    """Write records into a folder; the path of each."""
    paths = []
    for each in records:
        paths.append(folder / f"{each.run.slug}-{each.process}-{each.started}.json")
        write_record(paths[-1], each)
    return paths


def side_of(folder: Path, recording: Recording) -> Side:
    """A recording that is kept in a folder, which has its name."""
    keep(folder, itertools.chain(*recording.values()))
    return {**find_side(str(folder), ATTENTION), "name": folder.name}


def compared_of(folder: Path, one: Recording, other: Recording) -> Compared:
    """The comparison of two recordings, which are kept in a folder: before and after."""
    return compare(side_of(folder / "before", one), side_of(folder / "after", other))
