"""A bench as the kernel engineer calls it, on the CPU."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from flashlab.__main__ import main
from flashlab.bench.command import shapes_of
from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.identity import MEASURING_PROCESS, measuring_digest
from flashlab.records import Record, RecordError, parse_record, read_record
from flashlab.shapes import ShapeError

KERNEL = """
import os, time
from pathlib import Path

import torch


def attention(qkv, causal):
    begin = time.monotonic_ns()
    q, k, v = qkv.transpose(1, 3).unbind(2)
    scores = q @ k.mT * qkv.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -1e9)
    for _ in range(REPEATS - 1):
        torch.softmax(scores, -1) @ v
    out = (torch.softmax(scores, -1) @ v).transpose(1, 2)
    with Path(os.environ["CALLS"]).open("a") as calls:
        calls.write(f"{os.getpid()} {begin} {time.monotonic_ns()}\\n")
    return out * SCALE
"""
SHAPE = "B1,N64,H2,D16,causal"


@dataclass(frozen=True)
class Bench:
    """A bench that has ended: its exit status, what it printed, its records, its kernels' calls.

    `calls` are the process, begin and end (ns) of each, in order of their ends.
    """

    status: int
    printed: str
    records: list[Record]
    calls: list[tuple[int, int, int]]


def _kernel(repeats: int, scale: float) -> str:
    return f"REPEATS, SCALE = {repeats}, {scale}\n{KERNEL}"


@pytest.fixture(scope="module")
def bench(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A file, itself at a revision where it took far longer, and one that is wrong."""
    folder = tmp_path_factory.mktemp("bench")
    git = ("git", "-C", str(folder), "-c", "user.name=T", "-c", "user.email=t@example.org")
    (folder / "mine.py").write_text(_kernel(200, 1.0))
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "mine.py"], check=True)
    subprocess.run([*git, "commit", "-qm", "Write a slow kernel"], check=True)
    (folder / "mine.py").write_text(_kernel(1, 1.0))
    (folder / "wrong.py").write_text(_kernel(1, 2.0))
    targets = ("mine.py", "HEAD:mine.py", "wrong.py")
    order = ("--shape", SHAPE, "--pass", "forward", "--seconds", "0.4")
    ended = subprocess.run(
        [sys.executable, "-m", "flashlab", "bench", *targets, *order],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(root / "workflow"), "CALLS": str(folder / "calls")},
        stdout=subprocess.PIPE,
        text=True,
    )
    runs = {
        name: attention_run(name, Shape(1, 64, 2, 32, True), "float32", "cpu")
        for name in ("mine", "wrong")
    }
    records = [
        read_record(path, runs[path.name.partition("-")[0]])
        for path in sorted((folder / "results" / "bench").iterdir())
    ]
    calls = [
        (int(process), int(begin), int(end))
        for process, begin, end in map(str.split, (folder / "calls").read_text().splitlines())
    ]
    return Bench(ended.returncode, ended.stdout, records, calls)


def test_a_slower_revision_is_called_slower_and_a_wrong_kernel_gets_no_time(bench: Bench) -> None:
    final = bench.printed.rpartition("provisional")[2]
    assert re.search(r"^HEAD:mine.py +forward .*slower *$", final, re.MULTILINE)
    assert re.search(r"^wrong.py +incorrect: relative error", final, re.MULTILINE)
    assert bench.status == 1


def test_a_provisional_verdict_is_marked_as_such(bench: Bench) -> None:
    provisional = bench.printed.partition("provisional, after")[0]
    assert re.search(r"^HEAD:mine.py +forward .*slower\? *$", provisional, re.MULTILINE)


def test_implementations_take_turns_and_are_never_measured_at_once(bench: Bench) -> None:
    begins_and_ends = itertools.chain.from_iterable((begin, end) for _, begin, end in bench.calls)
    times = list(begins_and_ends)
    assert times == sorted(times)
    processes = [process for process, *_ in bench.calls]
    turns = [process for process, _ in itertools.groupby(processes)]
    # Two implementations in four processes each, at least ten batches of each; one that was wrong.
    assert len(set(processes)) == 2 * 4 + 1
    assert len(turns) >= 4 * 10


def test_its_records_are_of_each_process_and_hold_what_was_asked_for(bench: Bench) -> None:
    measured = [record for record in bench.records if record.status == "ok"]
    assert sorted((r.protocol["place"], r.process) for r in measured) == [
        (place, process) for place in (0, 1) for process in range(4)
    ]
    first = next(record for record in measured if record.process == 0)
    assert set(first.metrics) == {"forward_time", "peak_memory"}
    assert first.gate is not None
    assert [r.status for r in bench.records if r not in measured] == ["incorrect"]


def test_its_records_never_stand_for_sampled_ones(bench: Bench, tmp_path: Path) -> None:
    record = bench.records[0]
    assert record.protocol["name"] == "interleaved"
    # Their code differs too, so that no plan asks for a file of this name.
    digest = measuring_digest("flashlab.benchmarks.attention.measure", MEASURING_PROCESS)
    assert record.sources["measuring_digest"] != digest
    # And as a sampled record it would be refused.
    document = record.to_json()
    document["record"]["protocol"] = {"name": "sampled"}
    with pytest.raises(RecordError, match="measures"):
        parse_record(document, "it")


@pytest.mark.parametrize(
    ("sweep", "lengths"),
    [("seq_len=128:1000", [128, 256, 512]), ("seq_len=96,100", [96, 100]), (None, [64])],
)
def test_a_sweep_takes_the_place_of_the_size_in_the_shape(
    sweep: str | None, lengths: list[int]
) -> None:
    assert [s.seq_len for s in shapes_of([SHAPE], sweep, "cpu")] == lengths


def test_a_swept_head_dim_takes_the_place_of_the_embedding() -> None:
    (shape,) = shapes_of(["B1,N8,H2,E64,full"], "head_dim=128", "cpu")
    assert (shape.num_heads, shape.emb_dim) == (2, 256)


@pytest.mark.parametrize("sweep", ["seq_len", "seq_len=9:3", "seq_len=0:4", "mask=1:2"])
def test_a_sweep_that_is_none_says_what_is_one(sweep: str) -> None:
    with pytest.raises(ShapeError, match="seq_len"):
        shapes_of([SHAPE], sweep, "cpu")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Flsh2"], "did you mean Flash2"),
        (["no/such.py"], "there is no file no/such.py"),
        (["HEAD:no_such.py"], "there is no file no_such.py at HEAD"),
        (["Flash2", "--shape", "N0"], "the form is"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_message(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bench", *arguments])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
