"""Page one: everything on it stands on one page, whatever was measured and however it is named."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flashlab.files import read_json, write_json
from flashlab.plan_files import experiment_file
from flashlab.report.document import Cell, Front, Statement, Statements, Table
from flashlab.report.front import without_weakest

LONG_NAME = "Abacus Mark {n} Super Special Edition with Very Many Beads and 192 Threads (384 CPUs)"
AUTHOR = {"name": "王小明", "id": "113062000", "course": "Parallel Programming"}


def texts_of_pages(pdf: Path) -> list[str]:
    done = subprocess.run(
        ["pdftotext", "-raw", str(pdf), "-"], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.split("\f")


def name_devices(results: Any, count: int) -> None:
    """Give the records long device names, `count` different ones."""

    def renamed(rows: list[dict[str, str]]) -> list[dict[str, str]]:
        return [row | {"device_name": LONG_NAME.format(n=i % count)} for i, row in enumerate(rows)]

    for path in results.local.glob("tables/*/runs.csv"):
        results.edit_table(path.parent.name, "runs", renamed)
    results.derive_findings()


def assert_page_one_is_whole(results: Any, squeezed: Callable[[str], str]) -> Front:
    """Page one ends with the headline table's last row, and page two begins with the contents."""
    first, second, *_ = texts_of_pages(results.write())
    front: Front = results.compose().front
    languages = results.config["languages"]
    last = front.headline.rows[-1].cells[0]
    label = last.text if isinstance(last, Cell) else "".join(last[name] for name in languages)
    assert squeezed(label) in squeezed(first)
    contents = {"zh_TW": "目錄", "en": "Contents"}
    assert squeezed(second).startswith("".join(contents[language] for language in languages))
    return front


@pytest.mark.parametrize("languages", [["zh_TW", "en"], ["zh_TW"], ["en"]])
def test_page_one_is_one_page_with_an_author_every_notice_and_long_device_names(
    results: Any, squeezed: Callable[[str], str], languages: list[str]
) -> None:
    results.redraw(languages)
    results.change(author=AUTHOR)
    name_devices(results, count=4)
    front = assert_page_one_is_whole(results, squeezed)
    assert len(front.notices) == 2
    assert AUTHOR["id"] in texts_of_pages(results.pdf)[0]


def test_the_page_says_the_findings_that_fit_on_paper(
    results: Any, squeezed: Callable[[str], str]
) -> None:
    name_devices(results, count=12)
    entries = results.compose().front.key.entries
    printed = squeezed(texts_of_pages(results.write())[0])
    on_paper = [entry for entry in entries if squeezed(entry.text["en"]) in printed]
    assert entries[0] in on_paper and len(on_paper) < len(entries)
    html = results.write_page().read_text(encoding="utf-8")
    key = html[html.index('<section class="key">') : html.index("<figure")]
    assert len(re.findall('class="both statement"', key)) == len(on_paper)


def test_a_headline_of_seven_implementations_stays_within_the_page(
    results: Any, squeezed: Callable[[str], str]
) -> None:
    others = ["SdpaMath", "SdpaEfficient", "SdpaCudnn", "Flex", "Flash4"]

    def more(rows: list[dict[str, str]]) -> list[dict[str, str]]:
        flash = [row for row in rows if row["implementation"] == "Flash2"]
        return rows + [
            {key: cell.replace("Flash2", name).replace("flash2", name) for key, cell in row.items()}
            for name in others
            for row in flash
        ]

    for table in ("runs", "metrics"):
        results.edit_table("summary", table, more)
    plan = experiment_file(results.local, "summary")
    document = json.loads(plan.read_text(encoding="utf-8"))
    for style, name in enumerate(others, start=2):
        label = {"zh_TW": name, "en": name}
        document["implementations"].append(
            document["implementations"][0] | {"name": name, "style": style, "label": label}
        )
    plan.write_text(json.dumps(document), encoding="utf-8")
    summary = results.config["summary"]
    summary["implementations"] += others
    results.change(summary=summary)

    front = assert_page_one_is_whole(results, squeezed)
    assert [row.cells[0].text for row in front.headline.rows][2:] == others  # type: ignore[union-attr]
    boxes = subprocess.run(
        ["pdftotext", "-bbox", "-l", "1", str(results.pdf), "-"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    width = float(re.search(r'<page width="([\d.]+)"', boxes)[1])  # type: ignore[index]
    assert max(map(float, re.findall(r'xMax="([\d.]+)"', boxes))) < width


def set_headline(results: Any, verdict: str, ratio: float) -> None:
    """Let the findings about the headline's measured metrics come to this."""
    found = results.findings()
    for finding in found:
        if finding["experiment"] == "summary":
            finding |= {"verdict": verdict, "params": {"count": 1, "low": ratio, "high": ratio}}
    write_json(results.local / "findings.json", found)


@pytest.mark.parametrize(
    ("verdict", "forward", "memory"),
    [
        ("better", "1.03× the speed", "1.03× the memory"),
        ("equivalent", "within 5% (1.03×)", "within 5% (1.03×)"),
        ("inconclusive", "undecided (1.03×)", "undecided (1.03×)"),
    ],
)
def test_the_headline_quotes_the_findings_with_their_verdicts(
    results: Any, verdict: str, forward: str, memory: str
) -> None:
    set_headline(results, verdict, 1.03)
    rows = results.compose().front.headline.rows
    said = {row.cells[0]["en"]: row.cells[-1] for row in rows}
    assert said["Forward time (ms)"]["en"] == said["Total time (ms)"]["en"] == forward
    assert said["Peak memory (MiB)"]["en"] == memory
    assert said["Forward rate (TFLOP/s)"] == Cell("")


def test_the_baseline_is_defined_on_page_one(results: Any) -> None:
    facts = {label["en"]: value for label, value in results.compose().front.facts}
    assert "whose causal path builds its mask at every call" in facts["Baseline"]["en"]
    assert "每次呼叫都重建遮罩" in facts["Baseline"]["zh_TW"]


def test_on_a_cpu_flash2_is_called_what_it_runs_there(results: Any) -> None:
    subtitle = results.compose().front.subtitle
    assert "PyTorch's CPU flash kernel" in subtitle["en"]
    assert "FlashAttention-2" not in "".join(subtitle.values())


def test_every_figure_across_experiments_that_is_drawn_is_shown(results: Any) -> None:
    report = results.compose()
    drawn = read_json(results.local / "overview" / "drawn.json")
    all_ = report.implementations
    shown = [report.front.figure, *all_.rooflines, *all_.others]
    assert sorted(figure.path.stem for figure in shown) == sorted(drawn)


def front_of(marks: list[str], ranked: int) -> Front:
    entries = [
        Statement({"en": str(position)}, mark) for position, mark in enumerate(marks, start=1)
    ]
    key = Statements(entries, {"en": "* doubted"} if any(marks) else None)
    return Front({}, {}, "", [], [], [], key, ranked, None, Table([], []))


def test_the_weakest_finding_gives_way_first_and_the_ceiling_last() -> None:
    front: Front | None = front_of(["", "", ""], ranked=2)
    said = []
    while front is not None:
        said.append([entry.text["en"] for entry in front.key.entries])
        front = without_weakest(front)
    assert said == [["1", "2", "3"], ["1", "3"], ["3"]]


def test_without_a_ceiling_the_weakest_is_the_last() -> None:
    front = without_weakest(front_of(["", ""], ranked=2))
    assert front is not None and [entry.text["en"] for entry in front.key.entries] == ["1"]


def test_the_note_on_doubts_goes_with_the_last_doubted_finding() -> None:
    front = without_weakest(front_of(["*", "*"], ranked=2))
    assert front is not None and front.key.doubts is not None
    front = without_weakest(front_of(["", "*"], ranked=2))
    assert front is not None and front.key.doubts is None
