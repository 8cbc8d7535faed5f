"""Changes, and exactly the jobs that each reruns, by Snakemake's own dry runs.

Which files of the plan a configuration changes: test_plan.py. Which stage reads them, the first
test here.
"""

from __future__ import annotations

import os
import shutil
import time

from planted.project import Project

from flashlab.analysis.experiment import OF_DATASET
from flashlab.plan.digests import LIST

PACKAGE = "workflow/flashlab"
GATE = f"{PACKAGE}/benchmarks/attention/gate.py"
FROM_TABLES_ON = {
    *("Tabulating the records", "Observing what the report says", "Drawing the figures"),
    *("Rendering the report", "Writing report/lab5.pdf"),
}
SMALLEST, OTHER = "flash2-b1-n16-h2-e16-causal", "pytorch-b2-n16-h2-e32-causal"
COUNTED = "counters-flash2-b2-n16-h2-e32-causal"

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
    project: Project,
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


def nothing_that_counts(project: Project) -> None:
    """More processes on GPUs alone, another kernel, and comments in what measures."""
    with project.config() as config:
        config["replicates"] = {"cuda": 9, "cpu": 1}
    project.append("kernels/sdpa_math.py", "\nEDITED = True\n")
    for file in ("kernels/flash2.py", f"{PACKAGE}/measuring/protocols.py", GATE):
        project.append(file, "# edited\n")


def damage(project: Project) -> None:
    """A record and counters are cut off, and as old; a record and the ceilings are gone."""
    for result in (SMALLEST, COUNTED):
        path = project.result(result)
        times, content = path.stat(), path.read_bytes()
        path.write_bytes(content[: len(content) // 2].rstrip(b"\n"))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    for name in (OTHER, "ceilings"):
        project.result(name).unlink()


DAMAGED = {f"Measuring {SMALLEST}", f"Measuring {OTHER}", f"Reading {COUNTED}"}
DAMAGED |= {"Measuring the machine's ceilings"} | FROM_TABLES_ON


def test_what_is_damaged_or_asked_for_besides_is_made_and_no_more(project: Project) -> None:
    damage(project)
    with project.config() as config:
        config["experiments"][0]["cpu"]["seq_len"] = [16, 48, 64]
    shape = {f"Measuring {who}-b1-n48-h2-e32-full" for who in ("pytorch", "flash2")}
    assert project.plan() == DAMAGED | shape


RESULTS = (
    *("lab5.pdf", "figures", "overview", "observations.json"),
    *(LIST, *OF_DATASET, "tables", "records", "plan"),
)
"""What a whole run makes in the results, the last first; before it the report in `report/`."""


def copied(project: Project) -> None:
    """Leave a folder as if its results had been copied into a fresh clone, backwards."""
    shutil.rmtree(project.folder / ".snakemake")
    now = time.time()
    made = [*map(project.result, RESULTS), project.folder / "report"]
    for place, path in enumerate(reversed(made)):  # only the order matters
        for each in (*path.rglob("*"), path):
            os.utime(each, (now - place / 10,) * 2)


def test_where_results_were_copied_backwards_only_what_is_damaged_is_measured(
    project: Project,
) -> None:
    copied(project)
    nothing_that_counts(project)
    assert project.plan() <= FROM_TABLES_ON
    damage(project)
    assert project.plan() == DAMAGED


def test_what_is_touched_and_the_same_and_what_counts_not_rerun_nothing(project: Project) -> None:
    """As a checkout of another branch and back leaves files, where Snakemake knows them."""

    def touch_everything() -> None:
        for folder in ("config", "kernels", "templates", "workflow"):
            for path in (project.folder / folder).rglob("*.*"):
                os.utime(path)

    touch_everything()
    project.make("report/lab5.pdf")  # Snakemake keeps the files' checksums by their full paths
    touch_everything()
    nothing_that_counts(project)
    assert project.plan() == set()
