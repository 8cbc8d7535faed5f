"""A benchmark that is only declared, and a ladder, get their figures and pages.

What their reports say are golden texts.
"""

from __future__ import annotations

import re
import shutil
from html import unescape
from pathlib import Path

import pytest
from planted import ladder
from planted.sorting import REPORT

from flashlab.benchmarks.model import UnknownNameError
from flashlab.files import read_json, write_json
from flashlab.plan.plan_files import experiment_file
from flashlab.report.render import write_page, write_report


def test_a_declared_benchmark_is_drawn_and_rendered_and_no_other_is_spoken_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with REPORT.declared():
        results = REPORT.write(Path("results", "local"))
        for file, label in (
            ("figures/items/throughput", "Throughput (Mitem/s)"),
            ("figures/items/scratch", "Scratch space (KiB)"),
            ("overview/strips", "吞吐量 Throughput"),
        ):
            assert label in (results / f"{file}.svg").read_text(encoding="utf-8")
        config = results / "plan" / "config.json"
        write_page(config, results, None, Path("sorting.html"))
        text = re.sub(r"<[^>]+>", "", unescape(Path("sorting.html").read_text(encoding="utf-8")))
        assert "效能實驗報告：sorting" in text and "Scratch space (KiB)" in text
        assert not re.search("attention|seq_len|forward|注意力", text.lower())
        write_report(config, results, None, Path("sorting.pdf"))
        assert Path("sorting.pdf").read_bytes().startswith(b"%PDF")

        copied = shutil.copytree(results, tmp_path / "copy")
        planned = read_json(file := experiment_file(copied, "items"))
        planned["figures"][0]["quantity"] = "energy"
        write_json(file, planned)
        with pytest.raises(UnknownNameError, match="energy is no quantity of sorting; there are"):
            REPORT.compose(copied)


def test_the_parts_of_a_steps_process_are_drawn(tmp_path: Path) -> None:
    drawn = (ladder.ON_GPU.write(tmp_path) / "overview" / "clocks.svg").read_text("utf-8")
    assert "整個程式的時間" in drawn and "Kernel time" in drawn
