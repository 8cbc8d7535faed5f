"""A bench as the kernel engineer calls it, on the CPU."""

from __future__ import annotations

import itertools
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from compare import golden
from compare.recordings import git
from waiting import PATIENCE, wait_until

from flashlab.analysis.experiment import IMPLAUSIBLE
from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.cli import main
from flashlab.compare import bench as bench_module
from flashlab.compare.bench import run_bench
from flashlab.compare.interleave import Candidate, measure_pass
from flashlab.compare.looks import MIN_PAIRS
from flashlab.compare.targets import SavedError, Target, opened_targets, shapes_of
from flashlab.files import read_json
from flashlab.measuring import supervise
from flashlab.plan.watching import has_ended

KERNEL = """
import os, time
from pathlib import Path

import torch

from .lib.pace import PAUSE_SECONDS, VERSION


def attention(qkv, causal):
    begin = time.monotonic_ns()
    q, k, v = qkv.transpose(1, 3).unbind(2)
    scores = q @ k.mT * qkv.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -1e9)
    out = (torch.softmax(scores, -1) @ v).transpose(1, 2)
    time.sleep(PAUSE_SECONDS)
    with Path(os.environ["CALLS"]).open("a") as calls:
        calls.write(f"{os.getpid()} {VERSION} {begin} {time.monotonic_ns()}\\n")
    return out * SCALE
"""
SHAPE = "B1,N64,H2,D16,causal"


class Call(NamedTuple):
    """A call of a kernel: in which process, of which version, its begin and its end (ns)."""

    process: int
    version: str
    begin: int
    end: int


class Bench(NamedTuple):
    """A bench that has ended: its status, what it printed and wrote, and the kernels' calls."""

    status: int
    printed: str
    document: dict[str, Any]
    calls: list[Call]


KEPT = """
kept = {}


def attention(qkv, causal):
    key = qkv.data_ptr(), qkv._version, qkv.shape
    if key not in kept:
        kept[key] = computed(qkv, causal)
    return kept[key] * 1.0
"""
"""Keeps its answers."""


@pytest.fixture(scope="module", autouse=True)
def temporary() -> Iterator[Path]:
    """The folder of the benches' servers."""
    with (
        tempfile.TemporaryDirectory(prefix="fl-", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("TMPDIR", folder)
        yield Path(folder)


def servers(temporary: Path) -> set[psutil.Process]:
    """The servers in a folder; their forks, which look like them, lead no session."""
    found = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            named = process.cmdline()[3:4]
            if named and Path(named[0]).parent.parent == temporary:
                found |= {process} if os.getsid(process.pid) == process.pid else set()
    return found


def kernel(scale: float) -> str:
    return f"SCALE = {scale}\n{KERNEL}"


def start(root: Path, folder: Path, python: str, *arguments: str) -> subprocess.Popen[str]:
    """`python -m flashlab bench` with these arguments, running."""
    own = {"PYTHONPATH": str(root / "workflow"), "CALLS": str(folder / "calls")}
    return subprocess.Popen(
        [python, "-u", "-m", "flashlab", "bench", *arguments, "--shape", SHAPE],
        cwd=folder,
        env={**os.environ, **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A process started in the background would pass on that it ignores Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.fixture(scope="module")
def bench(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A kernel, itself at a revision when what it imports was far slower, and one that is wrong."""
    folder = tmp_path_factory.mktemp("bench")
    pace = folder / "kernels" / "lib" / "pace.py"
    pace.parent.mkdir(parents=True)
    (folder / "kernels" / "mine.py").write_text(kernel(1.0))
    git(folder, "init")
    for version, pause in (("then", 0.02), ("now", 0)):
        pace.write_text(f"VERSION, PAUSE_SECONDS = {version!r}, {pause}\n")
        git(folder, "add", "kernels")
        git(folder, "commit", "-m", f"Pause as {version}")
    (folder / "kernels" / "wrong.py").write_text(kernel(2.0))
    keeping = kernel(1.0).replace("def attention(", "def computed(") + KEPT
    (folder / "kernels" / "keeping.py").write_text(keeping)
    names = ("mine.py", "HEAD~1:kernels/mine.py", "wrong.py", "keeping.py")
    targets = [name if ":" in name else f"kernels/{name}" for name in names]
    order = ("--pass", "forward", "--seconds", "0.4", "--json", "said.json")
    ended = start(root, folder, sys.executable, *targets, *order)
    printed, _ = ended.communicate()
    calls = [
        Call(int(process), version, int(begin), int(end))
        for process, version, begin, end in map(
            str.split, (folder / "calls").read_text().splitlines()
        )
    ]
    return Bench(ended.returncode, printed, read_json(folder / "said.json"), calls)


def test_a_revision_is_measured_with_what_it_imported_then(bench: Bench) -> None:
    processes = {(call.version, call.process) for call in bench.calls}
    # Four of each, and one of the kernel that is wrong; the kernel's own file never changed.
    assert Counter(version for version, _ in processes) == {"then": 4, "now": 4 + 2}


def test_a_slower_revision_is_called_slower_and_a_wrong_kernel_gets_no_time(bench: Bench) -> None:
    (shape,) = bench.document["shapes"]
    assert (bench.document["benchmark"], shape["shape"]) == ("attention", SHAPE)
    mine, then, wrong, keeping = shape["implementations"]
    assert [entry["status"] for entry in (mine, then, wrong)] == ["ok", "ok", "incorrect"]
    assert keeping["status"] == "incorrect"
    assert "wrong after" in keeping["message"] or "keeps its answers" in keeping["message"]
    (timed,) = then["passes"]
    assert (timed["pass"], timed["verdict"], timed["final"]) == ("forward", "slower", True)
    assert "HEAD~1:kernels/mine.py forward slower? " in bench.printed
    final = bench.printed.rpartition("after")[0]
    row = r"^HEAD~1:kernels/mine.py +forward +[\d.]+ \[.*slower$"
    assert re.search(row, final, re.MULTILINE)
    assert re.search(r"^kernels/wrong.py +incorrect$", final, re.MULTILINE)
    assert "\nkernels/wrong.py: relative error against float64" in final
    assert bench.status == 1


def test_a_time_beyond_the_ceiling_is_said_to_be_implausible_and_decides_nothing() -> None:
    _, described = golden.bench()
    forward = described[0]["passes"][0]
    beyond = forward["rate"] / 1.501  # the first one's forward alone is at over 150%
    text, described = golden.bench(beyond)
    verdicts = {
        (entry["implementation"], timed["pass"]): timed["verdict"]
        for entry in described[1:3]
        for timed in entry["passes"]
    }
    assert [v for (_, timed), v in verdicts.items() if timed == "forward"] == ["implausible"] * 2
    assert "implausible" not in [v for (_, timed), v in verdicts.items() if timed == "backward"]
    assert "Flash2: forward at 150% of ceiling, which this device cannot do" in text
    assert "mine.py: forward" not in text


@pytest.mark.parametrize(
    ("status", "beyond", "succeeds"),
    [("ok", False, True), ("unsupported", False, True), ("ok", True, False), ("oom", False, False)],
)
def test_a_bench_fails_where_one_could_not_be_measured_or_is_implausible(
    monkeypatch: pytest.MonkeyPatch, status: str, beyond: bool, succeeds: bool
) -> None:
    passes = [{"pass": "forward", IMPLAUSIBLE: beyond, "share": 2.0}, {"pass": "backward"}]
    entry = {"implementation": "A", "status": status, "message": "", "peak_memory": None}
    described = [{**entry, "passes": passes, "warnings": None}]
    monkeypatch.setattr(bench_module, "measure_in_turns", lambda *_: None)
    monkeypatch.setattr(bench_module.Bench, "describe", lambda _: described)
    assert run_bench(["Pytorch"], [], None, [], 1.0, 0.05, None, None) == succeeds


def test_a_hanging_kernel_is_ended_at_its_time_limit(root: Path, tmp_path: Path) -> None:
    hanging = "import time\n\n\ndef attention(qkv, causal):\n    time.sleep(600)\n"
    (tmp_path / "hangs.py").write_text(hanging)
    ended = start(root, tmp_path, sys.executable, "hangs.py", "--timeout", "2")
    printed, _ = ended.communicate()
    assert ended.returncode == 1
    assert "hangs.py: timed out after 2 s; --timeout SECONDS allows more" in printed


def test_implementations_take_turns_and_are_never_measured_at_once(bench: Bench) -> None:
    times = [time for call in bench.calls for time in (call.begin, call.end)]
    assert times == sorted(times)
    processes = [call.process for call in bench.calls]
    turns = [process for process, _ in itertools.groupby(processes)]
    # Two implementations in four processes each, at least ten batches of each; two that were wrong.
    assert len(set(processes)) == 2 * 4 + 2
    assert len(turns) >= 4 * 10


class Standing(Candidate):
    """One whose process is none, and which writes down whose turn it is."""

    turns: list[str]

    def command(self, do: str, **_: Any) -> dict[str, Any]:
        self.turns += [self.target.label] if do == "batch" else []
        return {"samples": [1e-9], "besides": 0.0}


def test_who_is_first_in_one_round_is_last_in_the_next() -> None:
    turns: list[str] = []
    candidates = []
    for name in "AB":
        run = attention_run(name, Shape(1, 64, 2, 32, True), "float16", "cuda")
        candidate = Standing(Target(name, find_implementations()["Pytorch"]), run, 1.0)
        candidate.turns = turns
        candidates.append(candidate)
    measure_pass(candidates, "forward_time", 0.0, math.inf, lambda: None)
    assert "".join(turns) == "ABBA" * (MIN_PAIRS // 2)


def test_a_size_that_is_left_out_and_heads_that_share_keys_are_part_of_a_shape() -> None:
    (usual,) = shapes_of([], "cpu")
    found = shapes_of(["B1,N64,H8,KV2,D16,causal", "N64,full", "N64,full"], "cpu")
    assert [shape.kv_heads for shape in found] == [2, usual.num_heads]
    assert (found[0].head_dim, found[1].head_dim) == (16, usual.head_dim)


SHORT = ("mine.py", "--pass", "forward", "--seconds", "0.1")
HANGS = """
import os, time
from pathlib import Path


def attention(qkv, causal):
    Path("pid.new").write_text(str(os.getpid()))
    Path("pid.new").rename("pid")
    time.sleep(600)
"""


def test_a_bench_goes_on_without_its_server_and_the_next_measures_files_as_they_are_then(
    root: Path, tmp_path: Path, temporary: Path
) -> None:
    file, pace, calls = tmp_path / "mine.py", tmp_path / "lib" / "pace.py", tmp_path / "calls"
    pace.parent.mkdir()

    def bench(scale: float, version: str) -> subprocess.Popen[str]:
        file.write_text(kernel(scale))
        pace.write_text(f"VERSION, PAUSE_SECONDS = {version!r}, 0\n")
        return start(root, tmp_path, sys.executable, *SHORT)

    with bench(1.0, "one") as first:
        wait_until(calls.exists, "the kernel's first call")
        (server,) = servers(temporary)
        server.kill()
        printed, _ = first.communicate(timeout=PATIENCE)
    assert first.returncode == 0, printed

    calls.unlink()
    with bench(2.0, "two") as second:
        printed, _ = second.communicate(timeout=PATIENCE)
    assert second.returncode == 1 and "mine.py: relative error against float64" in printed
    assert {line.split()[1] for line in calls.read_text().splitlines()} == {"two"}
    wait_until(lambda: not servers(temporary), "the servers' end")


@pytest.mark.parametrize("name", ["SIGINT", "SIGKILL"])
def test_a_bench_that_is_ended_takes_its_processes_with_it(
    root: Path, tmp_path: Path, temporary: Path, name: str
) -> None:
    hangs = tmp_path / "pid"
    (tmp_path / "mine.py").write_text(HANGS)
    with start(root, tmp_path, sys.executable, *SHORT) as ended:
        wait_until(hangs.exists, "the kernel's call")
        measuring = psutil.Process(int(hangs.read_text()))
        ended.send_signal(signal.Signals[name])
        assert ended.wait(PATIENCE) != 0
        wait_until(lambda: has_ended(measuring), "the end of the measuring process")
    wait_until(lambda: not servers(temporary), "the end of its server")


def test_a_file_that_is_saved_while_it_is_measured_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def attention(qkv, causal): return qkv\n")
    with opened_targets([str(tmp_path / "mine.py")]) as (target,):
        target.check_unchanged()
        (tmp_path / "mine.py").write_text("def attention(qkv, causal): return qkv * 2\n")
        with pytest.raises(SavedError, match="was saved while it was measured"):
            target.check_unchanged()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Flsh2"], "did you mean Flash2"),
        (["no/such.py"], "there is no file no/such.py"),
        (["HEAD:no_such.py"], "there is no file no_such.py at HEAD"),
        (["no-such:flash2.py"], "git: Not a valid object name no-such"),
        (["Flash2", "--shape", "N0"], "the form is"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_message(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervise, "start_server", lambda pid: None)
    with pytest.raises(SystemExit) as ended:
        sys.exit(main(["bench", *arguments]))
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("missing/said.json", "the folder missing does not exist"),
        (".", "is a folder"),
        ("/proc/said.json", "cannot be written: "),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(
    output: str,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(supervise, "start_server", None)  # nothing is begun
    with pytest.raises(SystemExit) as ended:
        main(["bench", "Pytorch", "SdpaMath", "--json", output])
    assert ended.value.code == 2
    assert "argument --json: " in (message := capsys.readouterr().err)
    assert said in message
    assert not list(tmp_path.iterdir())
