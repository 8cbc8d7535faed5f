"""The check as the kernel engineer sees it, on the CPU."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from measuring.conftest import HEAD
from planted.calls import python
from waiting import wait_until

from flashlab.benchmarks.model import Benchmark
from flashlab.checking import command
from flashlab.checking.command import grid_of
from flashlab.cli import main
from flashlab.measuring.supervise import is_claimed
from flashlab.plan.watching import has_ended

HANG = "open(__file__ + '.pid', 'w').write(str(os.getpid())); time.sleep(600)"
# Right only where its inputs lay when it was captured, as a CUDA graph is, at its fourth call.
CAPTURED = """seen.append(qkv.data_ptr())
        if len(seen) > 4 and seen[-1] != seen[3]:
            qkv = qkv.flip(2)"""
ENDINGS = {
    10: ("pass", "ok"),
    11: ("torch.bmm(qkv, qkv)", "error: RuntimeError: batch1 must be a 3D tensor"),
    12: ("ctypes.string_at(0)", "error: crashed: ended by signal SIGSEGV"),
    13: ("os._exit(3)", "error: the kernel ended its process with status 3"),
    14: ("sys.exit(4)", "error: SystemExit: 4"),
    16: (HANG, "error: timed out after 6 s"),
    17: ("raise NotImplementedError('no 17')", "unsupported: no 17"),
    18: ("torch.bmm(qkv, qkv)", "error: RuntimeError: batch1 must be a 3D tensor"),
    19: ("return None", "incorrect: the output is NoneType; it must be a tensor (2, 19, 3, 32)"),
    20: ("return naive(qkv, causal) / 2", "incorrect: relative error against float64: out 0.5"),
    21: ("qkv.data.mul_(0.5)", "incorrect: qkv is overwritten, which the model that calls the"),
    22: (CAPTURED, "incorrect: right at first, wrong after"),
    37: ("pass", "ok"),
}
"""What a kernel does at each sequence length before it is right, and what is said of it."""
KERNEL = f"{HEAD}\nimport ctypes, os\nseen = []\ndef attention(qkv, causal):\n    N = len(qkv[0])\n"
KERNEL += "".join(f"    if N == {n}:\n        {does}\n" for n, (does, _) in ENDINGS.items())
KERNEL += "    return naive(qkv, causal)\n"
Check = Callable[..., tuple[int, str, str]]


def line_of(n: int) -> str:
    """Where a traceback says that it fails at a sequence length."""
    lines = KERNEL.splitlines()
    return f'mine.py", line {lines.index(f"    if N == {n}:") + 2}'


def shapes(*seq_lens: int) -> list[str]:
    return ["--dtype", "float32", *(f"--shape=N{n},D32,full" for n in seq_lens)]


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> Check:
    """Checks a kernel by its name or text: the status, and what is printed.

    The grid is a small one, and the device locks are the test's own.
    """

    def small(benchmark: Benchmark, device: str) -> Any:
        dtypes, sizes, shapes = grid_of(benchmark, device)
        return dtypes, {**sizes, "head_dim": (32,), "seq_len": (1, 37)}, shapes

    def checked(kernel: str, *arguments: str) -> tuple[int, str, str]:
        if "\n" in kernel:
            (tmp_path / "mine.py").write_text(kernel)
            kernel = str(tmp_path / "mine.py")
        status = main(["check", kernel, *arguments])
        return status, *capsys.readouterr()

    monkeypatch.setattr(command, "grid_of", small)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return checked


def test_every_way_to_fail_is_a_line_and_the_first_traceback_is_shown_once(check: Check) -> None:
    status, printed, _ = check(KERNEL, *shapes(*ENDINGS), "--timeout", "6")
    assert status == 1
    for n, (_, said) in ENDINGS.items():
        assert re.search(rf"^float32   B2,N{n},H3,D32,full .*  {re.escape(said)}", printed, re.M)
    first = rf"N11,.*\n    Traceback .*\n.*{line_of(11)}, in attention\n"
    assert re.search(first, printed) and printed.count("Traceback") == 1
    assert "Fatal" not in printed and "flashlab" not in printed
    counted, *failed = printed[printed.index("13 cases") :].splitlines()
    assert counted == "13 cases: 2 ok, 6 error, 1 unsupported, 4 incorrect"
    named = [int(line.split("N")[1].split(",")[0]) for line in failed]
    assert named == [n for n in ENDINGS if n not in (10, 17, 37)]


def test_fail_fast_ends_at_the_first_failure_and_shows_where_a_crash_was(check: Check) -> None:
    status, printed, _ = check(KERNEL, *shapes(17, 10, 12, 37), "--fail-fast")
    assert status == 1
    assert "3 cases: 1 unsupported, 1 ok, 1 error; 1 not checked" in printed
    shown = printed[printed.index("    Fatal Python error: Segmentation fault") :]
    assert re.search(rf"{line_of(12)} in attention\n3 cases", shown)


def test_a_right_kernel_is_ok_at_the_whole_grid(check: Check) -> None:
    status, printed, _ = check("Pytorch")
    assert status == 0 and "\n20 cases: 20 ok\n" in printed
    for case in ("float32 +B2,N129,H12,KV3,D64,causal", "bfloat16 +B2,N37,H3,D32,full"):
        assert re.search(rf"^{case} .* ok$", printed, re.MULTILINE)


def test_a_step_of_the_ladder_is_checked_by_its_name_or_file(check: Check) -> None:
    status, printed, _ = check("Sequential")
    line = r"^float32 +B2,N37,H1,D32,full +\S+e-0\d +– +5e-03  ok$"
    assert re.search(line, printed, re.M) and "\n2 cases: 2 ok\n" in printed and status == 0
    of_one_key = "out[:] = v if v.shape[1] == 1 else 0"
    step = f'DEVICE = "cpu"\ndef attention(q, k, v, out, stream=None):\n    {of_one_key}\n'
    status, printed, _ = check(step)
    assert status == 1 and " cases: 1 ok, 1 incorrect\n" in printed
    assert "  incorrect: an element is off by" in printed


# The course gives packed inputs, but the times are measured with separate ones.
SEPARATE = """naive(qkv, causal)
INPUTS = ("separate", "packed")
def separate_attention(q, k, v, causal):
    return naive(torch.stack((q, k, v), 2), causal) * 1.01"""


@pytest.mark.parametrize(
    ("returned", "wrong"),
    [
        ("naive(qkv, causal) * (torch.arange(len(qkv)) < 2)[:, None, None, None]", "4 ok, 2"),
        ("naive(qkv, causal) * (torch.arange(qkv.shape[3]) < 8)[:, None]", "4 ok, 2"),
        *(("naive(qkv.clamp(-6, 6), causal)", "6"), (SEPARATE, "6")),
    ],
    ids=["few batches", "few heads", "small values", "packed"],
)
def test_one_that_is_right_of_some_inputs_is_found(returned: str, wrong: str, check: Check) -> None:
    source = f"{HEAD}\ndef attention(qkv, causal):\n    return {returned}\n"
    status, printed, _ = check(source, "--dtype", "float32")
    assert status == 1 and f" cases: {wrong} incorrect\n" in printed
    assert "  incorrect: relative error" in printed


def test_the_device_is_claimed_while_a_kernel_is_checked(monkeypatch: Any, check: Check) -> None:
    held = []

    def stub(*_: object) -> Iterator[None]:
        held.append(is_claimed("cpu"))
        yield from ()

    monkeypatch.setattr(command, "check", stub)
    check("Pytorch")
    assert held == [True]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch\ndef attend(qkv)\n", '\n  File "{}", line 2\n    def attend(qkv)\n'),
        ("def f():\n  1 / 0\nf()\n", '\nTraceback (most recent call last):\n  File "{}", line 3'),
        ("import ctypes\nctypes.string_at(0)\n", " crashed: ended by signal SIGSEGV\nFatal Python"),
        ("import time\ntime.sleep(600)\n", " timed out after 1 s; --timeout"),
        ("def attend(qkv, causal): ...\n", " it has no function attention(qkv, causal)"),
    ],
    ids=["syntax", "exception", "crash", "hang", "no function"],
)
def test_a_kernel_that_cannot_be_imported_is_said_once(
    tmp_path: Path, check: Check, source: str, expected: str
) -> None:
    path = tmp_path / "mine.py"
    status, out, err = check(source, "--timeout", "1" if "sleep" in source else "60")
    assert status == 1 and "cases" not in out
    assert err.startswith(f"error: {path} cannot be imported:{expected.format(path)}")
    assert err.count("mine.py") <= 3 and "measuring" not in err and "checking" not in err


@pytest.mark.parametrize(
    ("number", "returncode"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_an_interrupted_check_is_quiet_and_leaves_no_process(
    tmp_path: Path, number: int, returncode: int
) -> None:
    (tmp_path / "mine.py").write_text(KERNEL)
    words = ("-m", "flashlab", "check", "mine.py", *shapes(16))
    process = python(tmp_path, *words, TMPDIR=str(tmp_path))
    written = tmp_path / "mine.py.pid"
    wait_until(lambda: written.exists() and written.read_text() != "", "the start of a check")
    worker = psutil.Process(int(written.read_text()))
    process.send_signal(number)
    _, err = process.communicate()
    assert (process.returncode, err) == (returncode, "")
    wait_until(lambda: has_ended(worker), "the end of the checking process")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("pytorch", "unknown implementation pytorch (did you mean Pytorch?); kernels/ has Flash2"),
        ("Padded --shape N8,causal", "a step of the ladder has no mask"),
        ("kernels/nothing.py", "there is no Python file kernels/nothing.py"),
        ("./LICENSE", "there is no Python file ./LICENSE"),
        ("Pytorch --shape N8,casual", "'casual' is neither a size such as N1024 nor full"),
        ("Pytorch --time 9", "unrecognized arguments: --time 9"),
        ("Pytorch --timeout 0", "'0' is not a number of seconds above 0"),
    ],
)
def test_a_wrong_command_line_is_one_message(words: str, expected: str, capsys: Any) -> None:
    with pytest.raises(SystemExit, match="2"):
        sys.exit(main(["check", *words.split()]))
    printed = capsys.readouterr()
    assert expected in printed.err and printed.out == ""
