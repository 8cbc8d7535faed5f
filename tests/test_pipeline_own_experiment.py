"""A user's own experiments and his own kernels: in the report by configuration alone."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

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

EXPERIMENTS = [
    {
        "name": "tokens",
        "title": {"zh_TW": "固定總長度", "en": "Tokens kept equal"},
        "sweep": "seq_len",
        "implementations": ["Pytorch", "Mine", "Unready"],
        "figures": ["time", {"metric": "rate", "implementations": ["Mine"]}],
        "supplement": ["memory"],
        "shapes": {"batch_size": [4, 1], "seq_len": [16, 64], "causal": False},
    },
    {
        "name": "both-masks",
        "title": {"zh_TW": "兩種遮罩", "en": "Both masks"},
        "sweep": "seq_len",
        "implementations": ["Pytorch", "Flash2", "Wrong"],
        "figures": ["time"],
        "shapes": {"batch_size": 1, "seq_len": [16, 64], "causal": [False, True]},
    },
]


@pytest.fixture(scope="module")
def own(
    copy_finished: Callable[[Path], Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """The finished folder after a run on two own experiments with three own kernels."""
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
        config["experiments"] = []
        for entry in EXPERIMENTS:
            shapes = {**entry["shapes"], "num_heads": 2, "emb_dim": 32}
            rest = {key: value for key, value in entry.items() if key != "shapes"}
            config["experiments"].append({**rest, "cuda": shapes, "cpu": dict(shapes)})
    project.make("report/lab5.pdf")
    yield project


def rows(own: Any, experiment: str, table: str) -> list[dict[str, str]]:
    path = own.folder / "results" / "local" / "tables" / experiment / f"{table}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_runs_that_were_measured_before_are_not_measured_again(own: Any, finished: Any) -> None:
    assert own.records.items() >= finished.records.items()
    new = [name.split("-")[0] for name in sorted(own.records.keys() - finished.records.keys())]
    assert new == ["mine"] * 2 + ["pytorch"] + ["unready"] * 2 + ["wrong"] * 4


def test_an_own_experiment_has_its_section_figures_and_tables_in_the_report(
    own: Any, text_of: Callable[[Path], str], squeezed: Callable[[str], str]
) -> None:
    text = text_of(own.pdf)
    for said in (
        *("實驗 1：固定總長度", "Experiment 1: Tokens kept equal"),
        *("實驗 2：兩種遮罩", "Experiment 2: Both masks"),
        *("同時變動：批次大小 B（4、1）。", "Varied with it: batch size B (4, 1)."),
        *("Figure 3", "我的實作", "Mine kernel"),
    ):
        assert squeezed(said) in text
    assert squeezed("Embedding dimension") not in text


def test_a_kernel_that_gives_no_result_is_recorded_as_what_it_is(own: Any) -> None:
    statuses = {
        row["implementation"]: (row["status"], row["message"])
        for name in ("tokens", "both-masks")
        for row in rows(own, name, "runs")
    }
    assert statuses["Unready"] == ("unsupported", "no head_dim 16 yet")
    assert statuses["Wrong"][0] == "incorrect"
    for row in rows(own, "both-masks", "metrics"):
        if row["implementation"] == "Wrong":
            assert (row["value"], row["samples"]) == ("", "")


def test_a_kernel_that_gives_no_result_is_drawn_and_worded_as_what_it_is(
    own: Any, text_of: Callable[[Path], str], squeezed: Callable[[str], str]
) -> None:
    figures = own.folder / "results" / "local" / "figures"
    assert "Unready: 不支援 unsupported" in (figures / "tokens" / "time.svg").read_text("utf-8")
    both = (figures / "both-masks" / "time.svg").read_text("utf-8")
    assert "Wrong " in both and "結果錯誤 incorrect" in both
    text = text_of(own.pdf)
    for said in (
        *("不支援 unsupported no head_dim 16 yet", "結果錯誤 incorrect"),
        *("6 項量測沒有數據（共 17 項）", "6 of 17 runs have no numbers"),
    ):
        assert squeezed(said) in text


def test_no_finding_is_made_of_a_run_without_numbers(own: Any) -> None:
    path = own.folder / "results" / "local" / "findings.json"
    findings = json.loads(path.read_text(encoding="utf-8"))
    about = [
        finding
        for finding in findings
        if finding["subject"].get("implementation") in ("Unready", "Wrong")
        and finding["kind"] != "correctness"
    ]
    assert about
    for finding in about:
        nothing = {"none", "inconclusive", "withheld", "too_few_sizes"}
        assert finding["verdict"] in nothing and not finding["facts"].get("count")
        if finding["verdict"] != "none":  # of what did not run out of memory
            assert finding["estimates"] == []
            excluded = {reason["run"]["implementation"] for reason in finding["reasons"]}
            assert finding["subject"]["implementation"] in excluded
