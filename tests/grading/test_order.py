"""What a call orders of grading, and what its jobs read of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashlab.benchmarks.implementations import find_implementations
from flashlab.config import ConfigError, read_layer, resolve_config
from flashlab_grading.files import find_submissions
from flashlab_grading.model import GradingError
from flashlab_grading.order import Ordered, kept_order, order_grading


def test_a_job_that_reads_the_rules_again_grades_what_its_call_ordered(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = resolve_config([read_layer(root / "tests" / "tiny.yaml")], find_implementations())
    monkeypatch.chdir(tmp_path)
    assert kept_order() == Ordered()
    Path("lab5.pdf").touch()
    ordered = order_grading({**config, "pdf": "lab5.pdf"}, Path())
    assert (ordered.kind, ordered.orders, ordered.records) == ("pdf", {}, [])
    assert kept_order() == ordered
    assert order_grading(config, Path()) == Ordered() == kept_order()


def test_a_call_that_grades_nothing_orders_nothing(tmp_path: Path) -> None:
    assert order_grading({}, tmp_path) == Ordered()
    here, report = str(tmp_path / "class"), tmp_path / "lab5.pdf"
    Path(here).mkdir()
    report.touch()
    for order, said in (
        ({"reproduce": 5}, r"reproduce: there is nothing .* give submissions=DIR"),
        ({"submissions": here, "reproduce": 1, "dataset": "h200"}, "it measures on this machine"),
        ({"submissions": f"{here}/gone"}, "there is no folder"),
        ({"pdf": f"{here}/gone.pdf"}, "there is no file"),
        ({"pdf": str(report), "submissions": here}, "give either"),
    ):
        with pytest.raises(ConfigError, match=said):
            order_grading(order, tmp_path)
    with pytest.raises(GradingError, match="has no subfolders"):
        find_submissions(here)
    assert sorted(tmp_path.iterdir()) == [Path(here), report]
