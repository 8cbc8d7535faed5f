"""What changes, and exactly which jobs that asks for: by Snakemake's own dry runs.

Each row is checked in two folders: the one that everything was made in, and a fresh clone with
the results copied in, which has none of Snakemake's bookkeeping.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

Jobs = set[str]

EXPERIMENTS = ("seq_len", "causal", "batch_size", "num_heads", "emb_dim")
SHAPES = (
    *("b1-n16-h2-e32-full", "b1-n64-h2-e32-full", "b1-n16-h2-e32-causal", "b1-n64-h2-e32-causal"),
    *("b2-n16-h2-e32-causal", "b1-n16-h1-e32-causal", "b1-n16-h2-e16-causal"),
)

NOTHING: Jobs = set()
REPORT = {"Rendering the report", "Writing report/lab5.pdf"}
FINDINGS = {"Deriving the findings"}
OVERVIEW = {"Drawing the figures across experiments"}
CEILINGS = {"Measuring the machine's ceilings"}


def measured(implementation: str, *shapes: str, process: int = 0) -> Jobs:
    of = f"-process{process}" if process else ""
    return {f"Measuring {implementation.lower()}-{shape}{of}" for shape in shapes}


def counted(*shapes: str) -> Jobs:
    return {f"Reading the counters of flash2-{shape}" for shape in shapes}


def tables(*experiments: str) -> Jobs:
    return {f"Tabulating {experiment}" for experiment in experiments}


def figures(*experiments: str) -> Jobs:
    return {f"Drawing {experiment}" for experiment in experiments}


ALL_RUNS = measured("Pytorch", *SHAPES) | measured("Flash2", *SHAPES)
SECOND_PROCESSES = measured("Pytorch", *SHAPES, process=1) | measured("Flash2", *SHAPES, process=1)
ALL_COUNTED = counted(*SHAPES)
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


def measure_in(processes: Any) -> Callable[[Any], None]:
    def change(project: Any) -> None:
        with project.config() as config:
            config["replicates"] = processes

    return change


def allow_more_time(project: Any) -> None:
    with project.config() as config:
        config["measure"]["timeout_s"] = 600


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
    allow_more_time(project)


def exchange_the_headlines_columns(project: Any) -> None:
    with project.config() as config:
        config["summary"]["implementations"].reverse()


def remove(*names: str) -> Callable[[Any], None]:
    def change(project: Any) -> None:
        with project.config() as config:
            config["experiments"] = [e for e in config["experiments"] if e["name"] not in names]

    return change


def reorder_experiments(project: Any) -> None:
    with project.config() as config:
        config["experiments"].reverse()


def rename_an_experiment(project: Any) -> None:
    with project.config() as config:
        config["experiments"][0]["name"] = "length"


def compare_with_the_other(project: Any) -> None:
    with project.config() as config:
        config["baseline"] = "Flash2"


def write_half_a_kernel(project: Any) -> None:
    project.folder.joinpath("kernels", "half.py").write_text("def attention(qkv,")


def delete(*results: str) -> Callable[[Any], None]:
    """Delete files or folders of the results; a record by the name of its run."""

    def change(project: Any) -> None:
        for result in results:
            path = project.result(result)
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    return change


def cut(*results: str) -> Callable[[Any], None]:
    """Leave half of each file, to the middle of a line, as old as it was."""

    def change(project: Any) -> None:
        for result in results:
            path = project.result(result)
            times, content = path.stat(), path.read_bytes()
            path.write_bytes(content[: len(content) // 2].rstrip(b"\n"))
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    return change


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


def recode(file: str) -> Callable[[Any], None]:
    """A line of code at the end of a file."""
    return lambda project: project.append(file, "\nEDITED = True\n")


def import_a_helper(project: Any) -> None:
    """A kernel with a file of its own beside it, before anything is made."""
    project.folder.joinpath("kernels", "lib").mkdir()
    project.folder.joinpath("kernels", "lib", "scale.py").write_text("SCALE = 1\n")
    project.append("kernels/flash2.py", "\nfrom kernels.lib import scale\n")


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
    """A change, and the jobs it asks for, with or without Snakemake's bookkeeping."""

    what: str
    change: Callable[[Any], None]
    jobs: Jobs
    arguments: tuple[str, ...] = ()


TABLE = [
    Row("nothing is changed", nothing, NOTHING),
    # The configuration
    Row(
        "a shape is added to an experiment",
        add_a_shape,
        measured("Pytorch", "b1-n48-h2-e32-full")
        | measured("Flash2", "b1-n48-h2-e32-full")
        | counted("b1-n48-h2-e32-full")
        | ONE_EXPERIMENT,
    ),
    Row(
        "a shape of an experiment is another one",
        change_a_shape,
        measured("Pytorch", "b1-n48-h2-e32-full")
        | measured("Flash2", "b1-n48-h2-e32-full")
        | counted("b1-n48-h2-e32-full")
        | ONE_EXPERIMENT,
    ),
    Row("times are to be closer", ask_for_closer_times, ALL_RUNS | FROM_TABLES_ON),
    Row("runs are measured in two processes", measure_in(2), SECOND_PROCESSES | FROM_TABLES_ON),
    Row("only GPUs measure in more processes", measure_in({"cuda": 9, "cpu": 1}), NOTHING),
    Row("more time is allowed", allow_more_time, REPORT),
    Row(
        "more time is allowed than a run had",
        run_out_of_time,
        measured("Flash2", "b1-n16-h2-e16-causal")
        | tables("emb_dim")
        | figures("emb_dim")
        | DERIVED,
    ),
    Row("the headline's columns are exchanged", exchange_the_headlines_columns, REPORT),
    Row("the baseline is another one", compare_with_the_other, ALL_FIGURES | DERIVED),
    Row("an experiment is removed", remove("emb_dim"), DERIVED),
    Row("one experiment is left", remove("causal", *EXPERIMENTS[2:]), DERIVED),
    Row("the experiments are in another order", reorder_experiments, DERIVED),
    Row(
        "an experiment is renamed",
        rename_an_experiment,
        tables("length") | figures("length") | DERIVED,
    ),
    Row(
        "the report is to be anonymous",
        nothing,
        FROM_TABLES_ON,
        arguments=("--config", "anonymous=true"),
    ),
    Row("the author is named", set_author, REPORT),
    Row("one language is left out", set_language, ALL_FIGURES | REPORT),
    # What is measured, with what, and where
    Row(
        "a kernel is edited",
        recode("kernels/flash2.py"),
        measured("Flash2", *SHAPES) | ALL_COUNTED | FROM_TABLES_ON,
    ),
    Row("a comment in a kernel", edit("kernels/flash2.py"), NOTHING),
    Row("a kernel that is in no experiment is edited", recode("kernels/sdpa_math.py"), NOTHING),
    Row("half a kernel is written", write_half_a_kernel, NOTHING),
    Row(
        "a kernel imports a file beside it",
        import_a_helper,
        measured("Flash2", *SHAPES) | ALL_COUNTED | FROM_TABLES_ON,
    ),
    Row(
        "measuring code is edited",
        recode("workflow/flashlab/measuring/protocols.py"),
        ALL_RUNS | ALL_COUNTED | CEILINGS | FROM_TABLES_ON,
    ),
    Row(
        "a comment in measuring code",
        edit(
            *(f"workflow/flashlab/measuring/{name}.py" for name in ("protocols", "child")),
            *(f"workflow/flashlab/benchmarks/attention/{name}.py" for name in ("measure", "gate")),
        ),
        NOTHING,
    ),
    Row(
        "the statistics are edited",
        recode("workflow/flashlab/statistics.py"),
        ALL_RUNS | ALL_COUNTED | CEILINGS | FROM_TABLES_ON,
    ),
    Row(
        "the code that counts operators is edited",
        recode("workflow/flashlab/measuring/operators.py"),
        ALL_COUNTED | FROM_TABLES_ON,
    ),
    Row(
        "a comment in the code that counts operators",
        edit("workflow/flashlab/measuring/operators.py"),
        NOTHING,
    ),
    Row("nothing is to be counted", nothing, FROM_TABLES_ON, arguments=("--config", "counters=no")),
    Row(
        "counters are asked for that are there already",
        nothing,
        NOTHING,
        arguments=("--config", "counters=yes"),
    ),
    Row(
        "counters are to be read again",
        nothing,
        ALL_COUNTED | FROM_TABLES_ON,
        arguments=("--config", "again=counters"),
    ),
    Row(
        "an implementation is to be measured again",
        nothing,
        measured("Flash2", *SHAPES) | ALL_COUNTED | FROM_TABLES_ON,
        arguments=("--config", "again=Flash2"),
    ),
    Row(
        "everything is to be measured again",
        nothing,
        ALL_RUNS | ALL_COUNTED | CEILINGS | FROM_TABLES_ON,
        arguments=("--config", "again=all"),
    ),
    Row(
        "torch is upgraded",
        install("torch", "99.0"),
        ALL_RUNS | ALL_COUNTED | CEILINGS | FROM_TABLES_ON,
    ),
    Row(
        "flash-attn is upgraded",
        install("flash-attn", "99.0"),
        measured("Flash2", *SHAPES) | ALL_COUNTED | FROM_TABLES_ON,
    ),
    Row(
        "another machine",
        move_to_another_machine,
        ALL_RUNS | ALL_COUNTED | CEILINGS | FROM_TABLES_ON,
    ),
    # What is made of the records
    Row(
        "the declaration of the benchmark is edited",
        recode("workflow/flashlab/benchmarks/attention/declaration.py"),
        FROM_TABLES_ON,
    ),
    Row(
        "the costs of a run are edited",
        recode("workflow/flashlab/benchmarks/attention/costs.py"),
        FROM_TABLES_ON,
    ),
    Row(
        "the reader of the records is edited",
        recode("workflow/flashlab/records.py"),
        FROM_TABLES_ON,
    ),
    Row(
        "the code of the tables is edited",
        edit("workflow/flashlab/analysis/tables.py"),
        FROM_TABLES_ON,
    ),
    Row(
        "the code of the findings is edited",
        edit("workflow/flashlab/analysis/kinds/scaling.py"),
        DERIVED,
    ),
    Row(
        "the code of the figures is edited",
        edit("workflow/flashlab/figures/lines.py"),
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
    # What is gone or damaged
    Row(
        "a record is deleted",
        delete("flash2-b1-n16-h2-e16-causal"),
        measured("Flash2", "b1-n16-h2-e16-causal")
        | tables("emb_dim")
        | figures("emb_dim")
        | DERIVED,
    ),
    Row(
        "a record is cut off",
        cut("flash2-b1-n16-h2-e16-causal"),
        measured("Flash2", "b1-n16-h2-e16-causal")
        | tables("emb_dim")
        | figures("emb_dim")
        | DERIVED,
    ),
    Row(
        "the counters of a run are deleted",
        delete("counters-flash2-b1-n16-h2-e16-causal"),
        counted("b1-n16-h2-e16-causal") | tables("emb_dim") | figures("emb_dim") | DERIVED,
    ),
    Row(
        "the counters of a run are cut off",
        cut("counters-flash2-b1-n16-h2-e16-causal"),
        counted("b1-n16-h2-e16-causal") | tables("emb_dim") | figures("emb_dim") | DERIVED,
    ),
    Row("the ceilings are deleted", delete("ceilings"), CEILINGS | DERIVED),
    Row("a table is deleted", delete("tables/seq_len/samples.csv"), ONE_EXPERIMENT),
    Row("a table is cut off", cut("tables/seq_len/metrics.csv"), ONE_EXPERIMENT),
    Row("the findings are deleted", delete("findings.json"), DERIVED),
    Row("the findings are cut off", cut("findings.json"), DERIVED),
    Row("a figure is deleted", delete("figures/seq_len/time.svg"), figures("seq_len") | REPORT),
    Row("a figure is cut off", cut("figures/seq_len/time.svg"), figures("seq_len") | REPORT),
    Row("all figures are deleted", delete("figures"), figures(*EXPERIMENTS) | REPORT),
    Row("page one's figure is cut off", cut("overview/summary.svg"), OVERVIEW | REPORT),
    Row("the rendered report is deleted", delete("lab5.pdf"), REPORT),
    Row("the rendered report is cut off", cut("lab5.pdf"), REPORT),
    # Edits that mean nothing
    Row(
        "a comment in every module but the measuring ones", comment_on_every_module, FROM_TABLES_ON
    ),
]


IN_A_CLONE = (
    *("nothing is changed", "a shape is added to an experiment", "an experiment is removed"),
    *("an experiment is renamed", "the author is named", "one language is left out"),
    *("a kernel is edited", "a comment in a kernel", "another machine"),
    *("nothing is to be counted", "an implementation is to be measured again"),
    *("the reader of the records is edited", "the code of the findings is edited"),
    *("the figures' messages are edited", "the template is edited"),
    *("a record is cut off", "the ceilings are deleted", "a table is cut off"),
    *("the findings are deleted", "a figure is deleted", "the rendered report is cut off"),
    "a comment in every module but the measuring ones",
)
"""Changes of each kind, which a clone without Snakemake's bookkeeping must notice too."""


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.what)
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
    Image.new("L", (9, 9)).save(screenshot)
    project.folder.joinpath("remarks", "seq_len.md").write_text("![a screenshot](screenshot.png)")
    with project.config() as config:
        config["remarks"] = {"seq_len": {"en": "remarks/seq_len.md"}}
    project.make("report/lab5.pdf")
    assert project.plan() == NOTHING
    screenshot.touch()
    assert project.plan() == NOTHING
    Image.new("L", (8, 9)).save(screenshot)
    assert project.plan() == REPORT


def measuring(jobs: Jobs) -> Jobs:
    return {job for job in jobs if job.startswith("Measuring")}


def test_processes_are_measured_once_and_added_where_a_verdict_is_open_only_when_asked_for(
    project: Any,
) -> None:
    with project.config() as config:
        config["experiments"] = config["experiments"][-1:]
    shapes = ("b1-n16-h2-e32-causal", "b1-n16-h2-e16-causal")
    table = "results/local/tables/emb_dim/runs.csv"
    measure_in(2)(project)
    project.make("results/local/findings.json")
    measure_in(1)(project)  # fewer: from the tables on
    assert project.plan() >= tables("emb_dim") and not measuring(project.plan())
    project.make(table)
    measure_in(2)(project)  # as many again: nothing is measured
    assert project.plan() >= tables("emb_dim") and not measuring(project.plan())
    project.make("results/local/findings.json")
    findings = project.folder / "results" / "local" / "findings.json"
    documents = json.loads(findings.read_text())
    for document in documents:
        document |= {"told": False, "rank": None}
    undecided = next(
        document
        for document in documents
        if (document["kind"], document["experiment"]) == ("comparison", "emb_dim")
        and document["subject"]["metric"] == "forward_time"
    )
    undecided |= {"told": True, "verdict": "mixed"}
    for estimate in undecided["evidence"]["estimates"]:
        estimate["verdict"] = "inconclusive" if estimate["value"] == 16 else "above"
    findings.write_text(json.dumps(documents))
    third = {j for name in ("Pytorch", "Flash2") for j in measured(name, shapes[1], process=2)}
    asked_for = ("--config", "decide=true")
    assert not measuring(project.plan())
    assert measuring(project.plan(*asked_for)) == third
    project.make(table, *asked_for)
    assert not measuring(project.plan())
    measure_in(1)(project)  # what was added stays
    assert not measuring(project.plan())
    assert "process2" in project.folder.joinpath(table).read_text()


@pytest.mark.parametrize("row", TABLE[:2], ids=lambda row: row.what)
def test_in_whatever_order_results_were_copied_only_what_is_new_is_measured(
    row: Row, clone: Callable[..., Any]
) -> None:
    copied = clone(backwards=True)
    row.change(copied)
    planned = copied.plan()
    assert row.jobs <= planned <= row.jobs | FROM_TABLES_ON
