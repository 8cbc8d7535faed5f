"""The assignment's program, its cases and its judge, on the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from flashlab.benchmarks.ladder.cases import PARTS, Sizes
from flashlab.benchmarks.ladder.gate import TOLERANCE
from flashlab.cli import main
from flashlab.hw4 import Hw4Error, judge, program
from flashlab.hw4.program import HEADER, read_batches, run_program

SIZES = Sizes(batch_size=5, seq_len=9, head_dim=32)
VALUES = np.random.default_rng(0).uniform(-3, 3, (5, 3, 9, 32)).astype(np.float32)
INPUT = HEADER.pack(*SIZES) + VALUES.tobytes()
EXACT = torch.nn.functional.scaled_dot_product_attention(
    *torch.from_numpy(VALUES).double().unbind(1)
)
SECONDS = {**dict.fromkeys(PARTS, 0.0), "time": 2.0, "start": 0.5}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """An input file of `SIZES`, and where its output goes."""
    source = tmp_path / "in.bin"
    source.write_bytes(INPUT)
    return source, tmp_path / "out.bin"


def run(files: tuple[Path, Path], step: str) -> int:
    return main(["hw4", *map(str, files), f"--step={step}"])


def test_the_program_computes_attention_batch_by_batch_in_the_memory_it_may_take(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(files, "sequential") == 0  # in capitals or not
    found = torch.from_numpy(np.fromfile(files[1], np.float32)).view(5, 9, 32)
    torch.testing.assert_close(found.double(), EXACT, atol=1e-5, rtol=0)
    sizes: list[int] = []
    monkeypatch.setattr(program, "PIECE_BYTES", 2 * SIZES.matrix_bytes)
    monkeypatch.setattr(
        program,
        "read_batches",
        lambda file, *qkv: (sizes.append(len(qkv[0])), read_batches(file, *qkv)),
    )
    parts = run_program(*files, "Sequential")
    assert sizes == [2, 2, 1]
    assert judge.worst_error(*files) < 1e-5
    assert {part for part in PARTS if not parts[part] > 0} == {"copy_in", "copy_out", "overlapped"}


def headed(*sizes: int) -> bytes:
    return HEADER.pack(*sizes) + INPUT[12:]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (INPUT[:7], "has 7 bytes, fewer than the 12 of B, N and d (int32)"),
        (INPUT[:-4], "is truncated: 17288 bytes, where B 5, N 9, d 32 take 17292"),
        (INPUT + b"\0", "is too long: 17293 bytes, where B 5, N 9, d 32 take 17292"),
        (headed(-5, 9, 32), "B -5, N 9, d 32: B, N and d must be positive"),
        (headed(5, 9, 48), "d must be 32 or 64"),
        (headed(2**31 - 1, 2**31 - 1, 64), "is truncated"),
        (INPUT, "unknown step registrs (did you mean Registers?)"),
    ],
    ids=["no header", "truncated", "too long", "negative", "head_dim", "huge", "unknown step"],
)
def test_what_is_wrong_is_one_message_and_leaves_the_output_as_it_was(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    source, target = files
    source.write_bytes(content)
    target.write_bytes(b"before")
    assert run(files, "registrs" if content == INPUT else "Sequential") == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("error: ") and message in said
    assert content == INPUT or str(source) in said
    assert {*source.parent.iterdir()} == {source, target} and target.read_bytes() == b"before"


def test_the_judge_fails_what_is_off_by_too_much_or_missing(files: tuple[Path, Path]) -> None:
    for index, change in ((0, 0), (0, 0.006), (-1, np.nan)):
        out = EXACT.float().numpy().ravel()
        out[index] += np.float32(change)
        out.tofile(files[1])
        error = judge.worst_error(*files)
        assert error < 1e-6 if change == 0 else error > TOLERANCE
        line = judge.line("t01", "Sequential", error, SECONDS)
        assert ("FAILED" in line) == (change != 0)
        assert line.split()[-1] == "1.500"  # beyond the parts
    out[:-1].tofile(files[1])
    with pytest.raises(Hw4Error, match="has 5756 bytes in place of 5760"):
        judge.worst_error(*files)


def test_a_case_follows_from_its_seed_and_all_must_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, seed in {"one": 1, "again": 1, "other": 2}.items():
        judge.write_case(tmp_path / name, "t06", seed)
    one, again, other = ((tmp_path / name).read_bytes() for name in ("one", "again", "other"))
    assert one == again != other and HEADER.unpack(one[:12]) == (40, 512, 64)
    errors = {"t01": 1e-6, "t02": 2 * TOLERANCE, "t03": 1e-6}
    monkeypatch.setattr(judge, "judge_case", lambda case, *_: (errors[case], SECONDS))
    assert judge.judge(["Sequential"], ["t01", "t03"], 0) == 0
    assert judge.judge(["Sequential"], ["t01", "t02"], 0) == 1
    assert "1 of 2 within" in capsys.readouterr().out
    for case, seed, said in (("t31", 0, "t31; the cases are t01 to t30"), ("t01", -1, "--seed -1")):
        with pytest.raises(Hw4Error, match=said):
            judge.judge([], [case], seed)
