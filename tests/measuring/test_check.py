from __future__ import annotations

from pathlib import Path

import pytest

from flashlab.measuring import check

WRONG_SCALE = """
import torch

def attention(qkv, causal):
    q, k, v = qkv.transpose(1, 3).unbind(dim=2)
    scores = q @ k.mT
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    return (scores.softmax(-1) @ v).transpose(1, 2)
"""


@pytest.fixture(autouse=True)
def few_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "HEAD_DIMS", (32,))
    monkeypatch.setattr(check, "SEQ_LENS", (1, 37))


def test_a_right_kernel_is_ok_in_every_case(capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(__file__).parents[2]
    assert check.print_check(root / "kernels" / "pytorch.py", "cpu")
    printed = capsys.readouterr().out
    assert "8 cases: 8 ok" in printed
    assert "bfloat16" in printed and "float32" in printed


def test_a_wrong_scale_shows_where_there_is_more_than_one_key(tmp_path: Path) -> None:
    kernel = tmp_path / "wrong.py"
    kernel.write_text(WRONG_SCALE)
    statuses = {(c.dtype, c.shape.seq_len): c.status for c in check.check(kernel, "cpu")}
    assert statuses["float32", 37] == "incorrect"
    assert not check.print_check(kernel, "cpu")
