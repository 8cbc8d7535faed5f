"""Planted recordings: the same runs on two sides, of which a test says what differs."""

from __future__ import annotations

import itertools
import random
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from planted.records import record_of

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.compare.comparison import compare
from flashlab.compare.sides import Side, find_side
from flashlab.records import Record, write_record
from flashlab.runs import Run
from flashlab.story.compare import Compared

Recording = dict[Run, list[Record]]

SIZES = (256, 1024, 4096, 8192)


def runs(sizes: Sequence[int] = SIZES) -> list[Run]:
    """A run at each sequence length."""
    shapes = [Shape(1, size, 8, 512, False) for size in sizes]
    return [attention_run("Flash2", shape, "float16", "cuda") for shape in shapes]


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

    def seconds(milliseconds: float) -> list[float]:
        usual = milliseconds * drawn.gauss(1, spread) / 1e3
        return [usual * drawn.gauss(1, 0.01) for _ in range(20)]

    def one(run: Run, process: int) -> Record:
        timed = {"forward": seconds(factor(run)), "backward": seconds(2.5)}
        digests = {"implementation_digest": "a" * 64, "measuring_digest": "b" * 64}
        started = f"2026-01-02T03:04:{seed % 60:02}+00:00"
        sources = {"process": process, **digests}
        return record_of(run, **timed, peak=peak, sources=sources, started=started)

    return {run: [one(run, process) for process in range(processes)] for run in measured}


def changed(recording: Recording, change: Callable[[Record], dict[str, Any]]) -> Recording:
    """A recording with some fields of each record changed."""
    return {run: [replace(r, **change(r)) for r in of] for run, of in recording.items()}


def git(folder: Path, *arguments: str) -> None:
    """A call of git in a folder, with a committer set."""
    author = ("-c", "user.name=N", "-c", "user.email=e@example.org")
    command = ["git", "-C", str(folder), *author, *arguments]
    subprocess.run(command, check=True, capture_output=True)


def keep(folder: Path, records: Iterable[Record]) -> list[Path]:
    """Write records into a folder; the path of each."""
    named = {folder / f"{r.run.slug}-{r.process}-{r.started}.json": r for r in records}
    for path, each in named.items():
        write_record(path, each)
    return [*named]


def side_of(folder: Path, recording: Recording) -> Side:
    """A recording that is kept in a folder, which has its name."""
    keep(folder, itertools.chain(*recording.values()))
    return {**find_side(str(folder), ATTENTION), "name": folder.name}


def compared_of(folder: Path, one: Recording, other: Recording) -> Compared:
    """The comparison of two recordings, which are kept in a folder: before and after."""
    return compare(side_of(folder / "before", one), side_of(folder / "after", other))
