"""Changes, and exactly the jobs that each reruns, by Snakemake's own dry runs.

Which files of the plan a configuration changes: test_plan.py. Which stage reads them, the first
test here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from planted.project import Project, copy_files

from flashlab.analysis.experiment import OF_DATASET
from flashlab.plan.digests import LIST

Jobs = set[str]
Change = Callable[[Any], None]

PACKAGE = "workflow/flashlab"
RENDERED = {"Rendering the report", "Writing report/lab5.pdf"}
FIGURES = {"Drawing the figures"}
FROM_TABLES_ON = {"Tabulating the records", "Observing what the report says"} | FIGURES | RENDERED
SMALLEST, OTHER = "flash2-b1-n16-h2-e16-causal", "pytorch-b2-n16-h2-e32-causal"
COUNTED = "counters-flash2-b1-n16-h1-e32-causal"

INPUTS = {
    "tables": """
        workflow/flashlab/analysis/tables.py workflow/flashlab/records.py
        workflow/flashlab/statistics.py workflow/flashlab/benchmarks/attention/costs.py
        plan/experiments.json plan/records.json
    """,
    "observations": """
        workflow/flashlab/story/stage.py data/devices.csv plan/experiments.json
    """,
    "figures": """
        workflow/flashlab/figures/lines.py templates/labels/figures.toml
        templates/fonts/NotoSansTC-Regular.ttf plan/languages.json plan/figures.json
    """,
    "report": """
        workflow/flashlab/report/content.py templates/labels/report.toml templates/report.html.j2
        templates/report.css templates/fonts/fonts.conf plan/config.json plan/titles.json
    """,
}
"""Files that a stage takes as inputs, so that an edit to one reruns it."""
NO_INPUTS = {
    "tables": f"{PACKAGE}/story/words.py {PACKAGE}/measuring/protocols.py plan/titles.json",
    "observations": f"{PACKAGE}/figures/lines.py plan/figures.json plan/languages.json",
    "figures": f"{PACKAGE}/analysis/stage.py templates/report.css plan/titles.json",
    "report": f"{PACKAGE}/measuring/protocols.py templates/page.js",
}
"""Files whose edit must leave a stage's outputs as they are."""


def test_a_stage_has_all_that_it_is_made_of_as_inputs_and_nothing_of_other_stages(
    project: Any,
) -> None:
    done = project.snakemake("--detailed-summary", "report/lab5.pdf")
    names, *rows = (line.split("\t") for line in done.stdout.splitlines() if line.count("\t") > 5)
    found: dict[str, set[str]] = {}
    for row in (dict(zip(names, line, strict=True)) for line in rows):
        # As the job that made it had them, perhaps in the folder of which this one is a copy.
        paths = row["input-file(s)"].split(",")
        files = {"/".join(path.split("/")[-n:]) for path in paths for n in range(1, 8)}
        found.setdefault(row["rule"], set()).update(files)
    for rule, inputs in INPUTS.items():
        assert {*inputs.split()} <= found[rule], rule
        assert found[rule].isdisjoint(NO_INPUTS[rule].split()), rule


def edit(**ends: str) -> Change:
    """A text at the end of files; `__` in a name stands for a folder."""

    def change(project: Any) -> None:
        for name, end in ends.items():
            project.append(f"{PACKAGE}/{name.replace('__', '/')}.py", end)

    return change


def nothing_that_counts(project: Any) -> None:
    """More processes on GPUs alone, another kernel, and comments in what measures."""
    with project.config() as config:
        config["replicates"] = {"cuda": 9, "cpu": 1}
    project.append("kernels/sdpa_math.py", "\nEDITED = True\n")
    project.append("kernels/flash2.py", "# edited\n")
    edit(measuring__protocols="# edited\n", benchmarks__attention__gate="# edited\n")(project)


def add_a_shape(project: Any) -> None:
    with project.config() as config:
        config["experiments"][0]["cpu"]["seq_len"] = [16, 48, 64]


def name_the_author_and_allow_more_time(project: Any) -> None:
    with project.config() as config:
        config["author"] = {"name": "王小明"}
        config["measure"]["timeout_s"] = 600


def damage(project: Any) -> None:
    """A record and counters are cut off, and as old; a record and the ceilings are gone."""
    for result in (SMALLEST, COUNTED):
        path = project.result(result)
        times, content = path.stat(), path.read_bytes()
        path.write_bytes(content[: len(content) // 2].rstrip(b"\n"))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    project.result(OTHER).unlink()
    for path in project.result("ceilings").parent.glob("ceilings-*"):
        path.unlink()


DAMAGED = {f"Measuring {SMALLEST}", f"Measuring {OTHER}", f"Reading {COUNTED}"}
DAMAGED |= {"Measuring the machine's ceilings"} | FROM_TABLES_ON
TABLE: list[tuple[Change, Jobs]] = [
    (nothing_that_counts, set()),
    (
        add_a_shape,
        {f"Measuring {who}-b1-n48-h2-e32-full" for who in ("pytorch", "flash2")} | FROM_TABLES_ON,
    ),
    (name_the_author_and_allow_more_time, RENDERED),
    (edit(records="# edited\n"), FROM_TABLES_ON),
    (edit(figures__lines="# edited\n"), FIGURES | RENDERED),
    (damage, DAMAGED),
]


@pytest.mark.parametrize(
    ("change", "jobs"), TABLE, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_change_reruns_exactly_the_jobs_that_it_touches(
    change: Change, jobs: Jobs, project: Any
) -> None:
    change(project)
    assert project.plan() == jobs


RESULTS = (
    *(f"results/local/{stage}" for stage in ("plan", "records", "tables", *OF_DATASET, LIST)),
    *(f"results/local/{made}" for made in ("observations.json", "overview", "figures")),
    *("results/local/lab5.pdf", "report/dataset.json", "report/lab5.pdf"),
)
"""What a whole run makes, in this order."""


@pytest.fixture
def clone(tmp_path: Path, files: Sequence[Path], abridged: Project) -> Callable[..., Project]:
    """Makes a fresh clone with results copied in, which has none of Snakemake's bookkeeping."""

    def copied(results: Sequence[str] = RESULTS) -> Project:
        project = Project(tmp_path / "clone", abridged.temporary)
        copy_files([*files, *map(Path, results)], abridged.folder, project.folder)
        groups = [[project.folder / file for file in files]]
        groups += ([*(project.folder / r).rglob("*"), project.folder / r] for r in results)
        now = time.time()
        for seconds, group in enumerate(reversed(groups)):  # only the order matters
            for path in group:
                os.utime(path, (now - seconds, now - seconds))
        return project

    return copied


def test_where_results_were_copied_what_is_damaged_is_made_again_and_no_more(
    clone: Callable[..., Any],
) -> None:
    copied = clone()
    damage(copied)
    assert copied.plan() == DAMAGED


def test_in_whatever_order_results_were_copied_nothing_is_measured(
    clone: Callable[..., Any],
) -> None:
    copied = clone(RESULTS[::-1])
    nothing_that_counts(copied)
    assert copied.plan() <= FROM_TABLES_ON


def test_files_that_are_touched_and_the_same_rerun_nothing_where_snakemake_knows_them(
    project: Any,
) -> None:
    """As a checkout of another branch and back leaves them."""

    def touch_everything() -> None:
        for folder in ("config", "kernels", "templates", "workflow"):
            for path in (project.folder / folder).rglob("*.*"):
                os.utime(path)

    touch_everything()
    project.make("report/lab5.pdf")  # Snakemake keeps the files' checksums by their full paths
    touch_everything()
    assert project.plan() == set()
