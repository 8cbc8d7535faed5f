"""What a call orders of grading, and what its jobs read of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashlab.config import ConfigError
from flashlab_grading.order import Ordered, keep_order, kept_order, order_grading


def test_a_job_that_reads_the_rules_again_grades_what_its_call_ordered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError):
        kept_order()
    for ordered in (
        Ordered(),
        Ordered("submissions", "results/grading/submissions.json", {"a.json": {"run": {}}}, ("a",)),
    ):
        keep_order(ordered)
        assert kept_order() == ordered


def test_a_call_that_grades_nothing_orders_nothing(tmp_path: Path) -> None:
    assert order_grading({}, tmp_path) == Ordered()
    with pytest.raises(ConfigError, match=r"reproduce: there is nothing .* give submissions=DIR"):
        order_grading({"reproduce": 5}, tmp_path)
    order = {"submissions": str(tmp_path), "reproduce": 1, "dataset": "h200"}
    with pytest.raises(ConfigError, match="reproduce: it measures on this machine"):
        order_grading(order, tmp_path)
    assert list(tmp_path.iterdir()) == []
