"""The check as the kernel engineer sees it, on the CPU."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from waiting import wait_until

from flashlab.benchmarks.model import Benchmark
from flashlab.checking import command
from flashlab.checking.command import grid_of
from flashlab.cli import main
from flashlab.measuring.supervise import is_claimed
from flashlab.plan.watching import has_ended

KERNEL = """
import ctypes, os, sys, time
from pathlib import Path

import torch


def attention(qkv, causal):
    B, N, _, H, D = qkv.shape
    match N:
        case 11:
            multiply(qkv)
        case 12:
            ctypes.string_at(0)
        case 13:
            os._exit(3)
        case 14:
            sys.exit(4)
        case 16:
            Path(__file__).with_suffix(".pid").write_text(str(os.getpid()))
            time.sleep(600)
        case 17:
            raise NotImplementedError("no 17")
        case 18:
            multiply(qkv)
        case 19:
            return None
    if N == 21:
        qkv.data.mul_(0.5)  # and right for what is then there
    if N == 22:
        attention.calls = getattr(attention, "calls", 0) + 1
        qkv = qkv if attention.calls < 4 else qkv.flip(2)
    q, k, v = qkv.transpose(1, 3).unbind(2)
    scores = q @ k.mT * (D**-0.5 if N != 20 else 1)
    if causal:
        scores = scores.masked_fill(torch.ones(N, N, dtype=torch.bool).triu(1), -torch.inf)
    return (torch.softmax(scores, -1) @ v).transpose(1, 2)


def multiply(qkv):
    return torch.bmm(qkv, qkv)
"""


def start(folder: Path, root: Path, *arguments: str) -> subprocess.Popen[str]:
    """`python -m flashlab check` with these arguments, running, with device locks of its own."""
    own = {"TMPDIR": str(folder), "PYTHONPATH": str(root / "workflow")}
    return subprocess.Popen(
        [sys.executable, "-m", "flashlab", "check", *arguments],
        cwd=folder,
        env={**os.environ, **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A process that was started in the background would hand on that it ignores Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def shapes(*seq_lens: int) -> list[str]:
    return ["--dtype", "float32", *(f"--shape=N{n},D32,full" for n in seq_lens)]


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory, root: Path) -> str:
    """What is printed of a kernel that fails in another way at each sequence length."""
    folder = tmp_path_factory.mktemp("kernel")
    (folder / "mine.py").write_text(KERNEL)
    process = start(folder, root, "mine.py", *shapes(*ENDINGS), "--timeout", "6")
    printed, _ = process.communicate()
    assert process.returncode == 1
    return printed


def row(printed: str, n: int) -> str:
    (line,) = re.findall(rf"^float32   B2,N{n},H3,D32,full .*$", printed, re.MULTILINE)
    return str(line)


ENDINGS = {
    10: "ok",
    11: "error: RuntimeError: batch1 must be a 3D tensor",
    12: "error: crashed: ended by signal SIGSEGV",
    13: "error: the kernel ended its process with status 3",
    14: "error: SystemExit: 4",
    16: "error: timed out after 6 s",
    17: "unsupported: no 17",
    18: "error: RuntimeError: batch1 must be a 3D tensor",
    19: "incorrect: the output is NoneType; it must be a tensor (2, 19, 3, 32) torch.float32",
    20: "incorrect: relative error against float64: out 1.11",
    21: "incorrect: qkv is overwritten, which the model that calls the kernel still needs; work on",
    22: "incorrect: right at first, wrong after 4 calls: relative error against float64: out 1",
    37: "ok",
}


@pytest.mark.parametrize("n", ENDINGS)
def test_every_way_to_fail_is_a_line_and_the_check_goes_on(checked: str, n: int) -> None:
    said = re.escape(f"  {ENDINGS[n]}").replace("5\\ calls", r"\d+\ calls")  # as many as fit
    assert re.search(said, row(checked, n))


def test_the_first_traceback_is_shown_once_under_its_case_and_failures_again_at_the_end(
    checked: str,
) -> None:
    lines = checked.splitlines()
    assert checked.count("Traceback") == 1
    first = lines.index(row(checked, 11))
    assert lines[first + 1] == "    Traceback (most recent call last):"
    assert re.search(r'mine.py", line 12, in attention', lines[first + 2])
    assert "Fatal" not in checked and "flashlab" not in checked
    counted, *failed = checked[checked.index("13 cases") :].splitlines()
    assert counted == "13 cases: 2 ok, 6 error, 1 unsupported, 4 incorrect"
    named = [int(line.split("N")[1].split(",")[0]) for line in failed]
    assert named == [n for n in ENDINGS if n not in (10, 17, 37)]


@pytest.fixture
def small_grid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def small(benchmark: Benchmark, device: str) -> Any:
        dtypes, sizes, shapes = grid_of(benchmark, device)
        return dtypes, {**sizes, "head_dim": (32,), "seq_len": (1, 37)}, shapes

    monkeypatch.setattr(command, "grid_of", small)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # where the device locks are


@pytest.mark.usefixtures("small_grid")
def test_fail_fast_ends_at_the_first_failure_and_shows_where_a_crash_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(KERNEL)
    assert main(["check", str(tmp_path / "mine.py"), *shapes(17, 10, 12, 37), "--fail-fast"]) == 1
    printed = capsys.readouterr().out
    assert "3 cases: 1 unsupported, 1 ok, 1 error; 1 not checked" in printed
    shown = printed[printed.index("    Fatal Python error: Segmentation fault") :]
    assert re.search(r'mine.py", line 14 in attention\n3 cases', shown)


@pytest.mark.usefixtures("small_grid")
def test_a_right_kernel_is_ok_at_the_whole_grid(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "Pytorch"]) == 0
    printed = capsys.readouterr().out
    assert "\n20 cases: 20 ok\n" in printed
    assert re.search(r"^float32 +B2,N129,H12,KV3,D64,causal .* ok$", printed, re.MULTILINE)
    for dtype in ("bfloat16", "float32"):
        for mask in ("full", "causal"):
            assert re.search(rf"^{dtype} +B2,N37,H3,D32,{mask} .* ok$", printed, re.MULTILINE)


@pytest.mark.usefixtures("small_grid")
def test_a_step_of_the_ladder_is_checked_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "Sequential"]) == 0
    printed = capsys.readouterr().out
    line = r"^float32 +B2,N37,H1,D32,full +\S+e-0\d +– +5e-03  ok$"
    assert re.search(line, printed, re.MULTILINE) and "\n2 cases: 2 ok\n" in printed


SDPA = """
import torch.nn.functional as F

def attention(qkv, causal):
    q, k, v = {inputs}.transpose(1, 3).unbind(2)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)
    return out * {factor}
"""
BEYOND_BATCHES = "(1 - (qkv.new_ones(len(qkv)).cumsum(0) > 2).to(qkv.dtype))[:, None, None, None]"
BEYOND_HEADS = "(1 - (qkv.new_ones(qkv.shape[3]).cumsum(0) > 8).to(qkv.dtype))[:, None]"

# Right only where its inputs lay when it was captured, as a CUDA graph is, at its fourth call.
CAPTURED = """
import torch

places = []

def attention(qkv, causal):
    places.append(qkv.data_ptr())
    if len(places) > 4 and places[-1] != places[3]:
        qkv = qkv.flip(2)
    q, k, v = qkv.transpose(1, 3).unbind(2)
    return (torch.softmax(q @ k.mT * qkv.shape[-1] ** -0.5, -1) @ v).transpose(1, 2)
"""

# The course gives packed inputs, but the times are measured with separate ones.
WRONG_SEPARATE = """
INPUTS = ("separate", "packed")

def separate_attention(q, k, v, causal):
    return attention(torch.stack((q, k, v), 2), causal) * 1.01
"""
WRONG_STEP = """
DEVICE = "cpu"

def attention(q, k, v, out, stream=None):
    out[:] = v if v.shape[1] == 1 else 0  # of one key, the value itself
"""
N10 = ["--shape", "N10,D32,full"]
WRONG: dict[str, tuple[str, list[str], str, str]] = {
    "batches": (SDPA.format(inputs="qkv", factor=BEYOND_BATCHES), [], "4 ok, 2", "relative error"),
    "heads": (SDPA.format(inputs="qkv", factor=BEYOND_HEADS), [], "4 ok, 2", "relative error"),
    "values": (SDPA.format(inputs="qkv.clamp(-6, 6)", factor="1"), [], "6", "relative error"),
    "captured": (CAPTURED, N10, "1", "right at first, wrong after"),
    "separate": (KERNEL + WRONG_SEPARATE, N10, "1", "relative error"),
    "step": (WRONG_STEP, [], "1 ok, 1", "an element is off by"),
}
"""Kernels that are wrong beyond few batches or heads or small values, where their inputs lie
elsewhere or otherwise: their cases, how many are wrong, and why."""


@pytest.mark.usefixtures("small_grid")
@pytest.mark.parametrize("name", WRONG)
def test_one_that_is_right_only_where_its_inputs_lay_or_as_they_lie_is_found(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, cases, wrong, said = WRONG[name]
    (tmp_path / "mine.py").write_text(source)
    assert main(["check", str(tmp_path / "mine.py"), "--dtype", "float32", *cases]) == 1
    printed = capsys.readouterr().out
    assert f" cases: {wrong} incorrect\n" in printed and f"  incorrect: {said}" in printed


@pytest.mark.usefixtures("small_grid")
def test_the_device_is_claimed_while_a_kernel_is_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    held = []

    def stub(*_: object) -> Iterator[None]:
        held.append(is_claimed("cpu"))
        yield from ()

    monkeypatch.setattr(command, "check", stub)
    main(["check", "Pytorch"])
    assert held == [True]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "import torch\ndef attention(qkv, causal)\n",
            '\n  File "{path}", line 2\n    def attention(qkv, causal)\n',
        ),
        (
            "def made():\n    return 1 / 0\nmade()\n",
            '\nTraceback (most recent call last):\n  File "{path}", line 3, in <module>\n',
        ),
        ("import ctypes\nctypes.string_at(0)\n", " crashed: ended by signal SIGSEGV\nFatal Python"),
        ("import time\ntime.sleep(600)\n", " timed out after 1 s; --timeout"),
        ("def attend(qkv, causal): ...\n", " it has no function attention(qkv, causal)"),
    ],
    ids=["syntax", "exception", "crash", "hang", "no function"],
)
@pytest.mark.usefixtures("small_grid")
def test_a_kernel_that_cannot_be_imported_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, expected: str
) -> None:
    path = tmp_path / "broken.py"
    path.write_text(source)
    assert main(["check", str(path), "--timeout", "1" if "sleep" in source else "60"]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith(f"error: {path} cannot be imported:{expected.format(path=path)}")
    assert printed.err.count("broken.py") <= 3
    assert "measuring" not in printed.err and "checking" not in printed.err
    assert "cases" not in printed.out


@pytest.mark.parametrize(
    ("number", "returncode"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_an_interrupted_check_is_quiet_and_leaves_no_process(
    tmp_path: Path, root: Path, number: int, returncode: int
) -> None:
    (tmp_path / "mine.py").write_text(KERNEL)
    process = start(tmp_path, root, "mine.py", *shapes(16))
    written = tmp_path / "mine.pid"
    wait_until(lambda: written.exists() and written.read_text() != "", "the start of a check")
    worker = psutil.Process(int(written.read_text()))
    process.send_signal(number)
    _, err = process.communicate()
    assert (process.returncode, err) == (returncode, "")
    wait_until(lambda: has_ended(worker), "the end of the checking process")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["pytorch"],
            "unknown implementation pytorch (did you mean Pytorch?); kernels/ has Flash2",
        ),
        (["padded"], "did you mean Padded?"),
        (["Padded", "--shape", "N8,causal"], "a step of the ladder has no mask"),
        (["kernels/nothing.py"], "there is no file kernels/nothing.py"),
        (["Pytorch", "--shape", "N8,casual"], "'casual' is neither a size such as N1024 nor full"),
        (["Pytorch", "--dtype", "float8"], "invalid choice: 'float8'"),
        (["Pytorch", "--timeout", "0"], "'0' is not a number of seconds above 0"),
        (["Pytorch", "--timeout", "soon"], "'soon' is not a number of seconds above 0"),
        ([], "the following arguments are required: NAME"),
    ],
)
def test_a_wrong_command_line_is_one_message_and_status_2(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        sys.exit(main(["check", *arguments]))
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert expected in printed.err
    assert printed.out == ""
