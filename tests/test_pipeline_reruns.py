"""Changes, and exactly the jobs that each reruns, by Snakemake's own dry runs.

Each row is checked in two folders: the one that everything was made in, and a fresh clone with
the results copied in, which has none of Snakemake's bookkeeping.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from PIL import Image

from flashlab.plan.digests import write_digests

Jobs = set[str]

EXPERIMENTS = ("seq_len", "causal", "batch_size", "num_heads", "emb_dim")
SHAPES = (
    *("b1-n16-h2-e32-full", "b1-n64-h2-e32-full", "b1-n16-h2-e32-causal", "b1-n64-h2-e32-causal"),
    *("b2-n16-h2-e32-causal", "b1-n16-h1-e32-causal", "b1-n16-h2-e16-causal"),
)

PACKAGE = "workflow/flashlab"
NOTHING: Jobs = set()
RENDERED = {"Rendering the report", "Writing report/lab5.pdf"}
FIGURES = {"Drawing the figures"}
REPORT = FIGURES | RENDERED
TABLES = {"Tabulating the records"}
OBSERVATIONS = {"Observing what the report says"}
CEILINGS = {"Measuring the machine's ceilings"}


def measured(implementation: str, *shapes: str, process: int = 0) -> Jobs:
    of = f"-process{process}" if process else ""
    return {f"Measuring {implementation.lower()}-{shape}{of}" for shape in shapes}


def counted(*shapes: str) -> Jobs:
    return {f"Reading counters-flash2-{shape}" for shape in shapes}


ALL_RUNS = measured("Pytorch", *SHAPES) | measured("Flash2", *SHAPES)
ALL_COUNTED = counted(*SHAPES)
FROM_TABLES_ON = TABLES | OBSERVATIONS | REPORT


# Changes

Change = Callable[[Any], None]


def nothing(project: Any) -> None:
    pass


def all_of(*changes: Change) -> Change:
    """Several changes, each of which asks for jobs that no other one of them asks for."""

    def change(project: Any) -> None:
        for one in changes:
            one(project)

    return change


def configure(edit: Callable[[dict[str, Any]], Any]) -> Change:
    """An edit of the configuration."""

    def change(project: Any) -> None:
        with project.config() as config:
            edit(config)

    return change


def measure_in(processes: Any) -> Change:
    return configure(lambda config: config.update(replicates=processes))


allow_more_time = configure(lambda config: config["measure"].update(timeout_s=600))
remove_the_last = configure(lambda config: config["experiments"].pop())


def run_out_of_time(project: Any) -> None:
    """As if a run had taken longer than the 5 s that it was allowed, which are 600 s now."""
    record = project.record("flash2-b1-n16-h2-e16-causal")
    document = json.loads(record.read_text())
    for name in ("forward", "backward", "forward_backward"):
        document[name] = {"time(s)": None, "FLOPS(TFLOPs/s)": None}
    document["peak_memory_usage(MB)"] = None
    document["record"] |= {"status": "error", "message": "timed out after 5 s"}
    document["record"]["protocol"]["timeout_s"] = 5
    times = record.stat()
    record.write_text(json.dumps(document))
    os.utime(record, ns=(times.st_atime_ns, times.st_mtime_ns))
    write_digests(record)
    allow_more_time(project)


def divide_by_ten(*runs: str) -> Change:
    """Make runs look ten times as fast, as consistently as one can by hand."""

    def change(project: Any) -> None:
        for run in runs:
            record = project.record(run)
            document, times = json.loads(record.read_text()), record.stat()
            for metric in document["record"]["metrics"].values():
                metric["value"] /= 10
                metric |= (
                    {"samples": [s / 10 for s in metric["samples"]]} if "samples" in metric else {}
                )
            record.write_text(json.dumps(document))
            os.utime(record, ns=(times.st_atime_ns, times.st_mtime_ns))

    return change


def delete(*results: str) -> Change:
    """Delete files or folders of the results; a record by the name of its run."""

    def change(project: Any) -> None:
        for result in results:
            path = project.result(result)
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    return change


def cut(*results: str) -> Change:
    """Leave half of each file, to the middle of a line, as old as it was."""

    def change(project: Any) -> None:
        for result in results:
            path = project.result(result)
            times, content = path.stat(), path.read_bytes()
            path.write_bytes(content[: len(content) // 2].rstrip(b"\n"))
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    return change


def rewrite(result: str, edit: Callable[[bytes], bytes]) -> Change:
    """Change what a stage has made by hand."""

    def change(project: Any) -> None:
        path = project.result(result)
        path.write_bytes(edit(path.read_bytes()))

    return change


def comment(*files: str) -> Change:
    """A comment at the end of each file of Python."""
    return all_of(*(lambda project, f=f: project.append(f, "# edited\n") for f in files))


def recode(file: str) -> Change:
    """A line of code at the end of a file."""
    return lambda project: project.append(file, "\nEDITED = True\n")


def import_a_helper(project: Any) -> None:
    """A kernel with a file of its own beside it, before anything is made."""
    project.folder.joinpath("kernels", "lib").mkdir()
    project.folder.joinpath("kernels", "lib", "scale.py").write_text("SCALE = 1\n")
    project.append("kernels/flash2.py", "\nfrom kernels.lib import scale\n")


def touch_everything(project: Any) -> None:
    """As a checkout of another branch and back leaves the files: newer, and the same."""
    for folder in ("config", "kernels", "templates", "workflow"):
        for path in (project.folder / folder).rglob("*.*"):
            os.utime(path)


def move_to_another_machine(project: Any) -> None:
    """As Snakemake's process is told by a module of this name."""
    project.append(
        "workflow/sitecustomize.py",
        "from flashlab import machine\nmachine.cpu_model = lambda: 'Abacus'\n",
    )


@dataclass(frozen=True)
class Row:
    """A change, and the jobs it asks for, with or without Snakemake's bookkeeping."""

    what: str
    change: Change
    jobs: Jobs
    arguments: tuple[str, ...] = ()


SMALLEST = "flash2-b1-n16-h2-e16-causal"
TABLE = [
    Row(
        "only GPUs measure in more processes, other kernels, comments in what measures",
        all_of(
            measure_in({"cuda": 9, "cpu": 1}),
            recode("kernels/sdpa_math.py"),
            comment(
                "kernels/flash2.py",
                *(f"{PACKAGE}/measuring/{n}.py" for n in ("protocols", "child", "operators")),
                *(f"{PACKAGE}/benchmarks/attention/{name}.py" for name in ("measure", "gate")),
            ),
        ),
        NOTHING,
    ),
    # The configuration
    Row(
        "a shape is added to an experiment",
        configure(lambda c: c["experiments"][0]["cpu"].update(seq_len=[16, 48, 64])),
        measured("Pytorch", "b1-n48-h2-e32-full")
        | measured("Flash2", "b1-n48-h2-e32-full")  # counters are read at the ends of a sweep
        | FROM_TABLES_ON,
    ),
    Row(
        "times are to be closer",
        configure(lambda c: c["measure"]["sampled"].update(relative_interval=0.4)),
        ALL_RUNS | FROM_TABLES_ON,
    ),
    Row(
        "more time is allowed, and the author is named",
        all_of(allow_more_time, configure(lambda c: c.update(author={"name": "王小明"}))),
        RENDERED,
    ),
    Row(
        "more time is allowed than a run had",
        run_out_of_time,
        measured("Flash2", "b1-n16-h2-e16-causal") | FROM_TABLES_ON,
    ),
    Row(
        "the baseline is another one",
        configure(lambda c: c.update(baseline="Flash2")),
        FROM_TABLES_ON,
    ),
    Row(
        "an experiment is removed and another renamed",
        all_of(remove_the_last, configure(lambda c: c["experiments"][0].update(name="length"))),
        FROM_TABLES_ON,
    ),
    Row(
        "an experiment has other figures, and the observations are cut off",
        all_of(
            configure(lambda c: c["experiments"][0].update(figures=["rate"])),
            cut("observations.json"),
        ),
        OBSERVATIONS | REPORT,
    ),
    Row(
        "an experiment's title is another one",
        configure(lambda c: c["experiments"][0]["title"].update(en="Length")),
        RENDERED,
    ),
    Row(
        "one language is left out",
        configure(lambda c: c.update(languages=["en"])),
        REPORT,
    ),
    Row("nothing is to be counted", nothing, FROM_TABLES_ON, arguments=("--config", "counters=no")),
    # What is measured, with what, and where
    Row(
        "a kernel imports a file beside it",
        import_a_helper,
        measured("Flash2", *SHAPES) | ALL_COUNTED | FROM_TABLES_ON,
    ),
    Row(
        "the code that counts operators is edited",
        recode(f"{PACKAGE}/measuring/operators.py"),
        ALL_COUNTED | FROM_TABLES_ON,
    ),
    Row(
        "another machine",
        move_to_another_machine,
        ALL_RUNS | ALL_COUNTED | CEILINGS | FROM_TABLES_ON,
    ),
    # What is gone or damaged
    Row(
        "a record and counters are cut off, another record and the ceilings are deleted",
        all_of(
            cut(SMALLEST, "counters-flash2-b1-n16-h1-e32-causal"),
            delete("pytorch-b2-n16-h2-e32-causal", "ceilings"),
        ),
        measured("Flash2", "b1-n16-h2-e16-causal")
        | counted("b1-n16-h1-e32-causal")
        | measured("Pytorch", "b2-n16-h2-e32-causal")
        | CEILINGS
        | FROM_TABLES_ON,  # which rates are plausible, new ceilings decide
    ),
    Row(
        "a record and counters are changed by hand",
        divide_by_ten(SMALLEST, "counters-flash2-b1-n16-h1-e32-causal"),
        measured("Flash2", "b1-n16-h2-e16-causal")
        | counted("b1-n16-h1-e32-causal")
        | FROM_TABLES_ON,
    ),
    Row(
        "a table is cut off, and another at a line's end",
        all_of(
            cut("tables/seq_len/metrics.csv"),
            rewrite("tables/causal/metrics.csv", lambda text: text[: text[:-1].rindex(b"\n") + 1]),
        ),
        FROM_TABLES_ON,
    ),
    Row(
        "a figure is deleted and another cut off",
        all_of(delete("figures/batch_size/time.svg"), cut("figures/num_heads/time.svg")),
        FIGURES | RENDERED,
    ),
    Row("the rendered report is cut off", cut("lab5.pdf"), RENDERED),
]

TRIED_ALONE = {
    "times are to be closer": "test_plan.py",
    "more time is allowed than a run had": "test_remaking.py",
    "nothing is to be counted": "test_counters_plan.py",
    "the code that counts operators is edited": "test_identity.py",
    "another machine": "test_identity.py",
    "a record and counters are changed by hand": "test_remaking.py",
    "a table is cut off, and another at a line's end": "test_remaking.py",
    "a figure is deleted and another cut off": "test_remaking.py",
}
"""Changes that are noticed by a function, with the file of its own tests: those are the gate's."""

IN_A_CLONE = (
    "a record and counters are cut off, another record and the ceilings are deleted",
    *(
        pytest.param(what, marks=pytest.mark.scheduled)
        for what in (
            *("an experiment is removed and another renamed", "a kernel imports a file beside it"),
            "the rendered report is cut off",
        )
    ),
)
"""Changes of each kind, which a clone without Snakemake's bookkeeping must notice too."""

INPUTS = {
    "tables": {
        *(f"{PACKAGE}/{name}.py" for name in ("analysis/tables", "records")),
        *(f"{PACKAGE}/{name}.py" for name in ("analysis/ratios", "statistics")),
        *(f"{PACKAGE}/benchmarks/attention/{name}.py" for name in ("declaration", "costs")),
    },
    "observations": {
        *(f"{PACKAGE}/{name}.py" for name in ("story/stage", "story/speeds")),
        "data/devices.csv",
    },
    "figures": {
        *(f"{PACKAGE}/figures/{name}.py" for name in ("stage", "lines", "style")),
        "templates/labels/figures.toml",
        "templates/fonts/NotoSansTC-Regular.ttf",
    },
    "report": {
        *(f"{PACKAGE}/report/{name}.py" for name in ("render", "content")),
        "templates/labels/report.toml",
        *(f"templates/{name}" for name in ("report.html.j2", "report.css", "fonts/fonts.conf")),
    },
}
"""Files of the project that a stage takes as inputs, so that an edit to one reruns it."""
NO_INPUTS = {
    "tables": {f"{PACKAGE}/story/words.py", f"{PACKAGE}/measuring/protocols.py"},
    "observations": {f"{PACKAGE}/figures/lines.py", f"{PACKAGE}/report/content.py"},
    "figures": {f"{PACKAGE}/analysis/stage.py", "templates/report.css"},
    "report": {f"{PACKAGE}/measuring/protocols.py", "templates/page.js"},
}
"""Files whose edit must leave a stage's outputs as they are."""


def test_a_stage_has_all_that_it_is_made_of_as_inputs_and_nothing_of_other_stages(
    project: Any,
) -> None:
    done = project.snakemake("--detailed-summary", "report/lab5.pdf")
    lines = [line.split("\t") for line in done.stdout.splitlines() if line.count("\t") > 5]
    names, *rows = lines
    found: dict[str, set[str]] = {}
    for row in (dict(zip(names, line, strict=True)) for line in rows):
        # As the job that made it had them, perhaps in the folder of which this one is a copy.
        paths = row["input-file(s)"].split(",")
        files = {"/".join(path.split("/")[-n:]) for path in paths for n in range(1, 8)}
        found.setdefault(row["rule"], set()).update(files)
    for rule, files in INPUTS.items():
        assert files <= found[rule], rule
        assert NO_INPUTS[rule].isdisjoint(found[rule]), rule


def test_an_edit_reruns_what_stands_on_it(project: Any) -> None:
    project.append("templates/page.js", "// edited\n")
    assert project.plan() == NOTHING
    project.append("templates/report.css", "/* edited */\n")
    assert project.plan() == RENDERED
    project.append("workflow/flashlab/analysis/comparisons.py", "# edited\n")
    assert project.plan() == FROM_TABLES_ON
    project.append("workflow/flashlab/records.py", "# edited\n")
    assert project.plan() == FROM_TABLES_ON


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=pytest.mark.scheduled) if row.what in TRIED_ALONE else row
        for row in TABLE
    ],
    ids=lambda row: row.what,
)
def test_a_change_reruns_exactly_the_jobs_that_it_touches(row: Row, project: Any) -> None:
    row.change(project)
    assert project.plan(*row.arguments) == row.jobs


@pytest.mark.parametrize("what", IN_A_CLONE)
def test_a_change_reruns_the_same_jobs_where_results_were_copied_into_a_clone(
    what: str, clone: Callable[..., Any]
) -> None:
    (row,) = (row for row in TABLE if row.what == what)
    copied = clone()
    row.change(copied)
    assert copied.plan(*row.arguments) == row.jobs


def test_files_that_are_touched_and_the_same_rerun_nothing_where_snakemake_knows_them(
    project: Any, clone: Callable[..., Any]
) -> None:
    copied = clone()
    touch_everything(copied)
    assert copied.plan() == FROM_TABLES_ON
    touch_everything(project)
    project.make("report/lab5.pdf")  # Snakemake keeps the files' checksums by their full paths
    touch_everything(project)
    assert project.plan() == NOTHING


def test_a_changed_screenshot_of_a_remark_renders_the_report_again(project: Any) -> None:
    screenshot = project.folder / "remarks" / "screenshot.png"
    screenshot.parent.mkdir()
    Image.new("RGB", (9, 9)).save(screenshot)
    project.folder.joinpath("remarks", "seq_len.md").write_text("![a screenshot](screenshot.png)")
    with project.config() as config:
        config["remarks"] = {"seq_len": {"en": "remarks/seq_len.md"}}
    project.make("report/lab5.pdf")
    screenshot.touch()
    assert project.plan() == NOTHING
    Image.new("RGB", (8, 9)).save(screenshot)
    assert project.plan() == RENDERED


def measuring(jobs: Jobs) -> Jobs:
    return {job for job in jobs if job.startswith("Measuring")}


@pytest.mark.scheduled  # the parts: test_plan.py
def test_more_processes_measure_only_those_that_are_new(project: Any) -> None:
    with project.config() as config:
        config["experiments"] = config["experiments"][-1:]
    shapes = ("b1-n64-h2-e32-full", "b1-n16-h2-e32-causal", "b1-n16-h2-e16-causal")
    measure_in(2)(project)
    project.make("results/local/observations.json")
    measure_in(1)(project)  # fewer: from the tables on
    planned = project.plan()
    assert planned >= TABLES and not measuring(planned)
    measure_in(2)(project)
    assert not measuring(project.plan())
    measure_in(3)(project)
    third = {
        j for name in ("Pytorch", "Flash2") for s in shapes for j in measured(name, s, process=2)
    }
    assert measuring(project.plan()) == third


def test_in_whatever_order_results_were_copied_only_what_is_new_is_measured(
    clone: Callable[..., Any],
) -> None:
    row, copied = TABLE[0], clone(backwards=True)
    row.change(copied)
    planned = copied.plan()
    assert row.jobs <= planned <= row.jobs | FROM_TABLES_ON
