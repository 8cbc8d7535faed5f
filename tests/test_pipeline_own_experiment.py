"""A user's own experiments and his own kernels: in the report by configuration alone."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.scheduled  # on less: test_pipeline_terminal.py, report/test_failures.py

KERNEL = '''
"""A kernel of a user's own."""

import torch

NAME = "{name}"
LABEL = {{"zh_TW": "{zh}", "en": "{en}"}}


def attention(qkv, causal):
    B, N, _, H, D = qkv.shape
    q, k, v = qkv.transpose(1, 3).unbind(2)  # each (B, H, N, D)
    scores = q @ k.mT * D**-0.5
    if causal:
        scores = scores.masked_fill(torch.ones(N, N, dtype=torch.bool).triu(1), -torch.inf)
    out = (torch.softmax(scores, -1) @ v).transpose(1, 2)
    {end}
'''

EXPERIMENT = {
    "name": "tokens",
    "title": {"zh_TW": "固定總長度", "en": "Tokens kept equal"},
    "sweep": "seq_len",
    "implementations": ["Pytorch", "Mine", "Unready", "Wrong"],
    "figures": ["time", {"metric": "rate", "implementations": ["Mine"]}],
    "supplement": ["memory"],
}
SHAPES = {"batch_size": [4, 1], "seq_len": [16, 64], "causal": False, "num_heads": 2, "emb_dim": 32}


@pytest.fixture(scope="module")
def own(copy_finished: Callable[[Path], Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The finished folder after a run on an own experiment with three own kernels."""
    project = copy_finished(tmp_path_factory.mktemp("own") / "own")
    for name, zh, end in (
        ("Mine", "我的實作", "return out"),
        ("Unready", "未完成的", 'raise NotImplementedError("no head_dim 16 yet")'),
        ("Wrong", "寫錯的", "return out * 1.5"),
    ):
        text = KERNEL.format(name=name, zh=zh, en=f"{name} kernel", end=end)
        path = project.folder / "kernels" / f"{name.lower()}.py"
        path.write_text(text, encoding="utf-8")
    with project.config() as config:
        config["experiments"] = [{**EXPERIMENT, "cuda": dict(SHAPES), "cpu": dict(SHAPES)}]
    project.make("report/lab5.pdf")
    return project


def test_runs_that_were_measured_before_are_not_measured_again(own: Any, finished: Any) -> None:
    assert own.records.items() >= finished.records.items()
    new = [name.split("-")[0] for name in sorted(own.records.keys() - finished.records.keys())]
    assert new == ["mine"] * 2 + ["pytorch"] + ["unready"] * 2 + ["wrong"] * 2


def test_a_kernel_that_gives_no_result_is_recorded_as_what_it_is(own: Any) -> None:
    tables = own.folder / "results" / "local" / "tables" / "tokens"
    found = {}
    for table in ("runs", "metrics"):
        with tables.joinpath(f"{table}.csv").open(encoding="utf-8", newline="") as file:
            found[table] = {row["implementation"]: row for row in csv.DictReader(file)}
    unready, wrong = found["runs"]["Unready"], found["runs"]["Wrong"]
    assert (unready["status"], unready["message"]) == ("unsupported", "no head_dim 16 yet")
    assert wrong["status"] == "incorrect"
    assert (found["metrics"]["Wrong"]["value"], found["metrics"]["Wrong"]["samples"]) == ("", "")
    figure = own.folder / "results" / "local" / "figures" / "tokens" / "time.svg"
    drawn = figure.read_text("utf-8")
    assert {*re.findall(r">(Unready|Wrong)<", drawn)} == {"Unready", "Wrong"}
    assert "不支援 unsupported" in drawn and "結果錯誤 incorrect" in drawn


def test_an_own_experiment_is_in_the_report_as_configured(
    own: Any, text_of: Callable[[Path], str], squeezed: Callable[[str], str]
) -> None:
    text = text_of(own.pdf)
    for said in (
        *("實驗 1：固定總長度", "Experiment 1: Tokens kept equal"),
        *("H = 2, E = 32, d = 16, B = 4, 1", "N = 16 64"),
        "Forward and backward rate (higher is better)",
        *("Figure 2", "我的實作", "Mine kernel"),
        *("不支援 unsupported no head_dim 16 yet", "結果錯誤 incorrect"),
    ):
        assert squeezed(said) in text
    assert squeezed("Embedding dimension") not in text
