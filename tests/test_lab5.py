"""The drop-in for the course's script, run as its users run it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TINY = "--batch_size 1 --seq_len 32 --num_heads 2 --emb_dim 32"


def lab5(arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "lab5.py"), *arguments.split()]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_a_result_has_the_scripts_keys_and_definitions(tmp_path: Path) -> None:
    """Of any implementation in kernels/."""
    done = lab5(f"{TINY} --impl SdpaMath --causal --repeats 3", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads((tmp_path / "benchmark_result.json").read_text())
    flops = 4 * 32**2 * 32 / 2  # half of them, with the mask
    for name, share in {"forward": 1, "backward": 2.5, "forward_backward": 3.5}.items():
        measured = result[name]
        rate = flops * share / measured["time(s)"] / 1e12
        assert measured["FLOPS(TFLOPs/s)"] == pytest.approx(rate)
        assert f"{name}: {measured['time(s)']:.4g} s, {rate:.3g} TFLOPs/s" in done.stdout
    assert result["peak_memory_usage(MB)"] > 0
    run, protocol = result["record"]["run"], result["record"]["protocol"]
    assert (run["implementation"], run["causal"]) == ("SdpaMath", True)
    assert (protocol["name"], protocol["repeats"]) == ("lab5", 3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--emb_dim 100", "100 is not divisible by --num_heads 32"),
        ("--output missing/result.json", "does not exist"),
    ],
)
def test_a_wrong_call_is_one_message_and_no_file(tmp_path: Path, arguments: str, said: str) -> None:
    done = lab5(arguments, tmp_path)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
    assert [*tmp_path.iterdir()] == []


def test_a_run_without_numbers_says_why_and_keeps_its_record(tmp_path: Path) -> None:
    done = lab5(f"{TINY} --impl SdpaCudnn --output o.json", tmp_path)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and "unsupported: No " in line
    record = json.loads((tmp_path / "o.json").read_text())
    assert record["forward"]["time(s)"] is None
    assert record["record"]["status"] == "unsupported"
