"""What changes, and exactly which jobs that asks for: by Snakemake's own dry runs.

Each row is held against two folders: the one that everything was made in, and a fresh clone with
the results copied in, which has none of Snakemake's bookkeeping.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

Jobs = set[str]

EXPERIMENTS = ("seq_len", "causal", "batch_size", "num_heads", "emb_dim")
SHAPES = (
    *("b1-n16-h2-e32-full", "b1-n64-h2-e32-full", "b1-n16-h2-e32-causal", "b1-n64-h2-e32-causal"),
    *("b2-n16-h2-e32-causal", "b1-n16-h1-e32-causal", "b1-n16-h2-e16-causal"),
)

NOTHING: Jobs = set()
REPORT = {"Setting report/lab5.pdf in type"}
FINDINGS = {"Deriving the findings"}
OVERVIEW = {"Drawing the figures across experiments"}
CEILINGS = {"Measuring the machine's ceilings"}


def measured(implementation: str, *shapes: str) -> Jobs:
    return {f"Measuring {implementation.lower()}-{shape}" for shape in shapes}


def tables(*experiments: str) -> Jobs:
    return {f"Tabulating {experiment}" for experiment in experiments}


def figures(*experiments: str) -> Jobs:
    return {f"Drawing {experiment}" for experiment in experiments}


ALL_RUNS = measured("Pytorch", *SHAPES) | measured("Flash2", *SHAPES)
ALL_FIGURES = figures(*EXPERIMENTS) | OVERVIEW
DERIVED = FINDINGS | OVERVIEW | REPORT
FROM_TABLES_ON = tables("summary", *EXPERIMENTS) | figures(*EXPERIMENTS) | DERIVED
ONE_EXPERIMENT = tables("seq_len") | figures("seq_len") | DERIVED


# Changes


def nothing(project: Any) -> None:
    pass


def add_a_shape(project: Any) -> None:
    with project.config() as config:
        config["experiments"][0]["cpu"]["seq_len"] = [16, 48, 64]


def change_a_shape(project: Any) -> None:
    with project.config() as config:
        config["experiments"][0]["cpu"]["seq_len"] = [16, 48]


def ask_for_closer_times(project: Any) -> None:
    with project.config() as config:
        config["measure"]["sampled"]["relative_interval"] = 0.4


def set_author(project: Any) -> None:
    with project.config() as config:
        config["author"] = {"name": "王小明"}


def set_language(project: Any) -> None:
    with project.config() as config:
        config["languages"] = ["en"]


def edit(*files: str) -> Callable[[Any], None]:
    """A comment at the end of each file."""
    comments = {
        ".py": "# edited",
        ".po": "# edited",
        ".css": "/* edited */",
        ".js": "// edited",
        ".j2": "{# edited #}",
    }

    def change(project: Any) -> None:
        for file in files:
            project.append(file, f"{comments[Path(file).suffix]}\n")

    return change


def comment_on_every_module(project: Any) -> None:
    package = project.folder / "workflow" / "flashlab"
    found = [path for path in package.rglob("*.py") if "measuring" not in path.parts]
    assert len(found) > 20
    edit(*(str(path.relative_to(project.folder)) for path in found))(project)


def touch_everything(project: Any) -> None:
    """As a checkout of another branch and back leaves the files: newer, and the same."""
    for folder in ("config", "kernels", "templates", "workflow"):
        for path in (project.folder / folder).rglob("*.*"):
            os.utime(path)


# Other versions and another machine are told to Snakemake's process by modules of these names


def install(package: str, version: str) -> Callable[[Any], None]:
    def change(project: Any) -> None:
        about = project.folder / "workflow" / f"{package.replace('-', '_')}-{version}.dist-info"
        about.mkdir()
        about.joinpath("METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
        )

    return change


def move_to_another_machine(project: Any) -> None:
    project.append(
        "workflow/sitecustomize.py",
        "from flashlab import machine\nmachine.cpu_model = lambda: 'Abacus'\n",
    )


@dataclass(frozen=True)
class Row:
    """A change, the jobs it asks for, and those it asks for where the bookkeeping is lost."""

    what: str
    change: Callable[[Any], None]
    jobs: Jobs
    without_bookkeeping: Jobs | None = field(default=None)


TABLE = [
    Row("nothing is changed", nothing, NOTHING),
    # The configuration
    Row(
        "a shape is added to an experiment",
        add_a_shape,
        measured("Pytorch", "b1-n48-h2-e32-full")
        | measured("Flash2", "b1-n48-h2-e32-full")
        | ONE_EXPERIMENT,
    ),
    Row(
        "a shape of an experiment is another one",
        change_a_shape,
        measured("Pytorch", "b1-n48-h2-e32-full")
        | measured("Flash2", "b1-n48-h2-e32-full")
        | ONE_EXPERIMENT,
    ),
    Row("times are to be closer", ask_for_closer_times, ALL_RUNS | FROM_TABLES_ON),
    Row("the author is named", set_author, REPORT),
    Row("one language is left out", set_language, ALL_FIGURES | REPORT),
    # What is measured, with what, and where
    Row(
        "a kernel is edited",
        edit("kernels/flash2.py"),
        measured("Flash2", *SHAPES) | FROM_TABLES_ON,
    ),
    Row("a kernel that is in no experiment is edited", edit("kernels/sdpa_math.py"), NOTHING),
    Row(
        "measuring code is edited",
        edit("workflow/flashlab/measuring/protocols.py"),
        ALL_RUNS | CEILINGS | FROM_TABLES_ON,
    ),
    Row("torch is upgraded", install("torch", "99.0"), ALL_RUNS | CEILINGS | FROM_TABLES_ON),
    Row(
        "flash-attn is upgraded",
        install("flash-attn", "99.0"),
        measured("Flash2", *SHAPES) | FROM_TABLES_ON,
    ),
    Row("another machine", move_to_another_machine, ALL_RUNS | CEILINGS | FROM_TABLES_ON),
    # What is made of the records
    Row("the code of the tables is edited", edit("workflow/flashlab/tables.py"), FROM_TABLES_ON),
    Row(
        "the code of the findings is edited",
        edit("workflow/flashlab/findings/scaling.py"),
        DERIVED,
    ),
    Row(
        "the code of the figures is edited",
        edit("workflow/flashlab/figures/sweeps.py"),
        ALL_FIGURES | REPORT,
    ),
    Row("the code of the report is edited", edit("workflow/flashlab/report/content.py"), REPORT),
    Row(
        "the figures' messages are edited",
        edit("templates/locale/en/LC_MESSAGES/figures.po"),
        ALL_FIGURES | REPORT,
    ),
    Row(
        "the report's messages are edited",
        edit("templates/locale/zh_TW/LC_MESSAGES/report.po"),
        REPORT,
    ),
    Row("the template is edited", edit("templates/report.html.j2"), REPORT),
    Row("the style sheet is edited", edit("templates/report.css"), REPORT),
    Row("the script of the HTML page is edited", edit("templates/page.js"), NOTHING),
    # Edits that mean nothing
    Row(
        "a comment in every module but the measuring ones", comment_on_every_module, FROM_TABLES_ON
    ),
    Row("every file is touched", touch_everything, NOTHING, without_bookkeeping=FROM_TABLES_ON),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.what)
def test_a_change_reruns_exactly_the_jobs_that_it_touches(
    row: Row, project: Any, clone: Callable[..., Any]
) -> None:
    copied = clone()
    row.change(project)
    row.change(copied)
    with ThreadPoolExecutor() as together:
        here = together.submit(project.plan)
        there = together.submit(copied.plan)
    assert here.result() == row.jobs
    assert there.result() == (
        row.jobs if row.without_bookkeeping is None else row.without_bookkeeping
    )


def test_a_changed_screenshot_of_a_remark_renders_the_report_again(project: Any) -> None:
    screenshot = project.folder / "remarks" / "screenshot.svg"
    screenshot.parent.mkdir()
    empty = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
    screenshot.write_text(empty)
    project.folder.joinpath("remarks", "seq_len.md").write_text("![a screenshot](screenshot.svg)")
    with project.config() as config:
        config["remarks"] = {"seq_len": {"en": "remarks/seq_len.md"}}
    project.make("report/lab5.pdf")
    assert project.plan() == NOTHING
    screenshot.touch()
    assert project.plan() == NOTHING
    screenshot.write_text(empty.replace("9", "8"))
    assert project.plan() == REPORT


@pytest.mark.parametrize("row", TABLE[:2], ids=lambda row: row.what)
def test_in_whatever_order_results_were_copied_only_what_is_new_is_measured(
    row: Row, clone: Callable[..., Any]
) -> None:
    copied = clone(backwards=True)
    row.change(copied)
    planned = copied.plan()
    assert row.jobs <= planned <= row.jobs | FROM_TABLES_ON
