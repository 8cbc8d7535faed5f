"""A bench as the kernel engineer calls it, on the CPU."""

from __future__ import annotations

import itertools
import signal
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psutil
import pytest
from compare.recordings import git
from planted.calls import python
from waiting import PATIENCE, wait_until

from flashlab.analysis.experiment import IMPLAUSIBLE
from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.cli import main
from flashlab.compare import bench as bench_module
from flashlab.compare import interleave
from flashlab.compare.bench import PASSES, describe, table
from flashlab.compare.interleave import PROCESSES, Candidate, measure_in_turns
from flashlab.compare.sides import find_targets
from flashlab.files import read_json
from flashlab.measuring import supervise
from flashlab.measuring.supervised import Section
from flashlab.plan.watching import has_ended
from flashlab.statistics import MIN_SAMPLES

KERNEL = """
import os, time
from pathlib import Path

from torch.nn.functional import scaled_dot_product_attention

from .lib.pace import PAUSE_SECONDS, VERSION


def attention(qkv, causal):
    begin = time.monotonic_ns()
    q, k, v = qkv.transpose(1, 3).unbind(2)
    out = scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)
    time.sleep(PAUSE_SECONDS)
    with Path(os.environ["CALLS"]).open("a") as calls:
        calls.write(f"{os.getpid()} {VERSION} {begin} {time.monotonic_ns()}\\n")
    return out * SCALE
"""
SHAPE = "B1,N64,H2,D16,causal"
BENCH = ("-m", "flashlab", "bench", "--shape", SHAPE)


def test_a_revision_is_measured_with_what_it_imported_then(tmp_path: Path) -> None:
    """A kernel, itself when what it imports was far slower, and a wrong one, which has no time."""
    folder, kernels = tmp_path, tmp_path / "kernels"
    pace = kernels / "lib" / "pace.py"
    pace.parent.mkdir(parents=True)
    (kernels / "mine.py").write_text(f"SCALE = 1.0\n{KERNEL}")
    git(folder, "init")
    for version, pause in (("then", 0.02), ("now", 0)):
        pace.write_text(f"VERSION, PAUSE_SECONDS = {version!r}, {pause}\n")
        git(folder, "add", "kernels")
        git(folder, "commit", "-m", f"Pause as {version}")
    (kernels / "wrong.py").write_text(f"SCALE = 2.0\n{KERNEL}")
    targets = ("kernels/mine.py", "HEAD~1:kernels/mine.py", "kernels/wrong.py")
    order = ("--pass", "forward", "--seconds", "0.4", "--json", "said.json")
    ended = python(folder, *BENCH, *targets, *order, CALLS=str(folder / "calls"))
    printed, _ = ended.communicate()
    lines = [line.split() for line in (folder / "calls").read_text().splitlines()]
    # Four processes of each, and one of the kernel that is wrong; its own file never changed.
    processes = {(version, process) for process, version, *_ in lines}
    assert Counter(version for version, _ in processes) == {"then": 4, "now": 4 + 1}
    times = [int(time) for *_, begin, end in lines for time in (begin, end)]
    assert times == sorted(times)  # never at once
    turns = [process for process, _ in itertools.groupby(process for process, *_ in lines)]
    assert len(turns) >= 4 * 10  # at least ten batches in each process
    document = read_json(folder / "said.json")
    mine, then, wrong = document["rows"]
    assert (document["benchmark"], mine["shape"]) == ("attention", SHAPE)
    assert [row["status"] for row in (mine, then, wrong)] == ["ok", "ok", "incorrect"]
    assert (then["pass"], then["verdict"], then["final"]) == ("forward", "slower", True)
    assert "HEAD~1:kernels/mine.py forward slower? " in printed
    assert "\nkernels/wrong.py: relative error against float64" in printed.rpartition("after")[0]
    assert ended.returncode == 1


def candidate(label: str) -> Candidate:
    """One whose process is none."""
    run = attention_run(label, Shape(1, 512, 8, 512, True), "float32", "cpu")
    return Candidate(label, find_implementations()["Pytorch"], run, 1.0)


def test_the_table_has_each_pass_and_says_below_what_is_missing_or_doubtful() -> None:
    """A time beyond the ceiling is said to be implausible, and decides nothing."""
    candidates = [candidate(label) for label in ("First", "mine", "wrong")]
    for each, forward in zip(candidates, (2.0, 2.5, 1.0), strict=True):
        for name, time in {"forward_time": forward, "backward_time": 6.0}.items():
            each.batches[name] = [[[time * 1e-3] * 3] * 20] * PROCESSES
    candidates[1].warnings = [[], ["throttled"]]
    candidates[2].status, candidates[2].message = "incorrect", "relative error: out 1.8"
    described = describe(candidates, [*PASSES], 0.05, 1.5)
    assert table(described, "of ceiling").splitlines() == [
        "implementation  pass         ms  TFLOP/s  of ceiling  time / that of First  verdict",
        "First           forward    2.00    0.134          9%",
        "First           backward   6.00    0.112          7%",
        "mine            forward    2.50    0.107          7%   1.25 [1.250, 1.250]  slower",
        "mine            backward   6.00    0.112          7%   1.00 [1.000, 1.000]  equal",
        "wrong           incorrect",
        "",
        "mine: throttled in 1 of 2 processes",
        "wrong: relative error: out 1.8",
    ]
    # Where the first one's forward alone is at over 150%:
    described = describe(candidates, [*PASSES], 0.05, 0.134 / 1.501)
    assert [row["verdict"] for row in described[2:4]] == ["implausible", "equal"]
    text = table(described, "of ceiling")
    assert "First: forward at 150% of ceiling, which this device cannot do" in text
    assert "mine: forward" not in text


def test_a_bench_fails_where_one_could_not_be_measured_or_is_implausible(monkeypatch: Any) -> None:
    rows = [{"implementation": "A", "pass": "forward", "warnings": [], "share": 2.0}]
    monkeypatch.setattr(bench_module, "measure_in_turns", lambda *_: ())
    monkeypatch.setattr(bench_module, "describe", lambda *_: rows)
    cases = (("ok", False, 1), ("unsupported", False, 1), ("ok", True, 0), ("oom", False, 0))
    for status, beyond, succeeds in cases:
        rows[0] |= {"status": status, IMPLAUSIBLE: beyond}
        assert bench_module.bench(["Pytorch"], [], None, [], 1.0, 0.05, 60.0, None) == succeeds


@pytest.mark.parametrize(("samples", "refused"), [(0.02, False), (0.001, True), (5.0, True)])
def test_times_are_held_against_the_clock_of_who_waits(samples: float, refused: bool) -> None:
    timed = candidate("mine")
    # Every other batch waited for a core, for much longer than it took.
    timed.sections = [Section(wait, samples, True) for wait in (0.03, 0.8) for _ in range(20)]
    with pytest.raises(interleave._LeftError) if refused else nullcontext():
        timed.judge()


def test_who_is_first_in_one_round_is_last_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = []

    def command(self: Candidate, do: str = "", *_: Any, **__: Any) -> dict[str, Any]:
        turns.extend([self.label] if do == "batch" else [])
        return {"samples": [1e-9], "besides": 0.0}

    monkeypatch.setattr(Candidate, "command", command)
    for step in ("start", "imported", "end"):
        monkeypatch.setattr(Candidate, step, lambda *_: None)
    looks = [*measure_in_turns([candidate(name) for name in "AB"], ["forward_time"], 0.0, {})]
    assert "".join(turns) == "ABBA" * (MIN_SAMPLES // 2) * PROCESSES and len(looks) == PROCESSES


HANGS = """
import os, time
from pathlib import Path


def attention(qkv, causal):
    Path("pid.new").write_text(str(os.getpid()))
    Path("pid.new").rename("pid")
    time.sleep(600)
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGKILL", None])
def test_a_kernel_that_hangs_ends(tmp_path: Path, name: str | None) -> None:
    """At its limit, or with its bench."""
    hangs = tmp_path / "pid"
    (tmp_path / "mine.py").write_text(HANGS)
    with python(tmp_path, *BENCH, "mine.py", "--timeout", "60" if name else "2") as ended:
        wait_until(hangs.exists, "the kernel's call")
        measuring = psutil.Process(int(hangs.read_text()))
        if name:
            ended.send_signal(signal.Signals[name])
        printed, _ = ended.communicate(timeout=PATIENCE)
        wait_until(lambda: has_ended(measuring), "the end of the measuring process")
    said = "mine.py: timed out after 2 s; --timeout SECONDS allows more"
    assert ended.returncode != 0 and (said in printed) == (name is None)


def test_a_file_saved_while_it_is_measured_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def attention(qkv, causal): return qkv\n")
    monkeypatch.setattr(Candidate, "command", lambda *_, **__: {})
    measured = candidate("mine.py")
    measured.implementation = find_targets([str(file)], "")[str(file)]
    measured.imported()
    file.write_text("def attention(qkv, causal): return qkv * 2\n")
    with pytest.raises(interleave.SavedError, match="was saved while it was measured"):
        measured.imported()


MISTAKES = {
    "Flsh2": "did you mean Flash2",
    "no/such.py": "there is no Python file no/such.py",
    "HEAD:no_such.py": "there is no file no_such.py at HEAD",
    "no-such:flash2.py": "git: Not a valid object name no-such",
    "Flash2 --shape N0": "the form is",
    "Flash2 --json no/said.json": "argument --json: the folder no does not exist",
}


@pytest.mark.parametrize("order", MISTAKES)
def test_a_mistake_is_one_message(order: str, capsys: Any, monkeypatch: Any) -> None:
    """Before anything is measured."""
    monkeypatch.setattr(supervise, "start_server", lambda pid: None)
    with pytest.raises(SystemExit, match="2"):
        sys.exit(main(["bench", *order.split()]))
    assert MISTAKES[order] in capsys.readouterr().err.splitlines()[-1]
