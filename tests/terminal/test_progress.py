"""The lines that a call prints, given its plan and events by hand in a folder of records."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pikepdf
import pytest

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import implementations_of
from flashlab.plan.datasets import Entry
from flashlab.plan.experiments import Experiment
from flashlab.plan.runs import Planned
from flashlab.plan.views import views_of
from flashlab.records import Measurement, write_record
from flashlab.runs import Run
from flashlab.terminal.progress import (
    LONGEST_LINE,
    MEASURE,
    STAGES,
    UNPLANNED,
    WAITING,
    CallProgress,
    Job,
    duration,
)

COMMAND = "snakemake --cores 1 report/lab5.pdf"


def run_of(implementation: str, seq_len: int) -> Run:
    return attention_run(implementation, Shape(16, seq_len, 32, 2048, False), "float32", "cpu")


RUNS = [run_of(name, n) for n in (128, 1024) for name in ("Pytorch", "Flash2")]


class Lab:
    """A folder with the plan of four runs, and a clock that is wound by hand."""

    def __init__(self, root: Path, record_of: Callable[..., dict[str, Any]], dataset: str) -> None:
        self.root, self.record_of, self.dataset = root, record_of, dataset
        self.seconds = 0.0
        self.claimed: set[str] = set()
        self.planned = [{"run": run.to_json(), "path": self.path(run)} for run in RUNS]
        home = f"results/{dataset}"
        records = {"benchmark": "attention", "records": self.planned}
        views = {f"{home}/plan/records/summary.json": records}
        self.prepared = replace(UNPLANNED, dataset=dataset, home=home, views=views)

    def is_claimed(self, device: str) -> bool:
        return device in self.claimed

    def path(self, run: Run) -> str:
        return f"results/{self.dataset}/records/{run.slug}-0123456789ab.json"

    def call(self, dry_run: bool = False, command: str = COMMAND, **counts: int) -> CallProgress:
        call = CallProgress(self.root, self.is_claimed, dry_run, lambda: self.seconds)
        call.begins(command, self.prepared)
        call.plans({**counts, "total": sum(counts.values())})
        return call

    def job(self, run: Run) -> Job:
        return Job(RUNS.index(run), "measure", f"Measuring {run.slug}", (self.path(run),))

    def record(self, run: Run, status: str = "ok", **inner: Any) -> None:
        write_record(self.root / self.path(run), self.record_of(run, status, **inner))

    def measure(self, call: CallProgress, run: Run, status: str = "ok", **inner: Any) -> list[str]:
        """The lines from a job that takes ten seconds."""
        job = self.job(run)
        lines = call.starts(job)
        self.seconds += 10
        self.record(run, status, **inner)
        return [*lines, *call.finishes(job.id)]

    def report(self, pages: int = 3) -> Job:
        """The PDF as it is once a job has made it, and that job."""
        self.root.joinpath("report").mkdir(exist_ok=True)
        with pikepdf.new() as pdf:
            for _ in range(pages):
                pdf.add_blank_page()
            pdf.save(self.root / "report" / "lab5.pdf")
        return Job(99, "report", "Rendering the report", ("report/lab5.pdf",))


@pytest.fixture
def lab(tmp_path: Path, record_of: Callable[..., dict[str, Any]]) -> Lab:
    return Lab(tmp_path, record_of, "local")


def text(lines: Sequence[str]) -> str:
    return "\n".join(lines)


def test_after_a_minute_a_call_says_what_is_known_by_then(lab: Lab) -> None:
    """Pytorch takes 1 + 2 ms and Flash2 half of that, at N 128; of N 1024 one run is there."""
    names = ("Pytorch", "Flash2")
    title = {"en": "Sequence length"}
    experiments = [
        Experiment("summary", names, tuple(RUNS[:2])),
        Experiment("seq_len", names, tuple(RUNS), title, sweep="seq_len"),
    ]
    planned = Planned({run: [Entry(run, {}, Path(lab.path(run)), None)] for run in RUNS})
    config = {
        **{"languages": ["en"], "anonymous": False, "baseline": "Pytorch", "counted": []},
        **{"summary": {"implementations": names}, "experiments": []},
    }
    kernels, home = implementations_of(ATTENTION), Path("results", "local")
    views = views_of(ATTENTION, kernels, config, home, experiments, planned)
    lab.prepared = replace(lab.prepared, views={**lab.prepared.views, **views})
    call = lab.call(measure=4)

    def metrics(factor: float) -> dict[str, Measurement]:
        times = {"forward_time": factor, "backward_time": 2 * factor, "peak_memory": 1.0}
        return {name: Measurement(value, stopped="count") for name, value in times.items()}

    assert "So far" not in text(lab.measure(call, RUNS[0], metrics=metrics(1.0)))
    assert "So far" not in text(lab.measure(call, RUNS[1], metrics=metrics(0.5)))
    lab.seconds += 30
    assert lab.measure(call, RUNS[2], metrics=metrics(1.0))[-2:] == [
        "So far, from one process of each run, the speed as a multiple of Pytorch's (total time):",
        "  Sequence length: Flash2 2.00× at 1 of 2 settings",
    ]
    assert "So far" not in text(lab.measure(call, RUNS[3], metrics=metrics(1.0)))


def test_each_run_is_one_line_of_a_table(lab: Lab) -> None:
    lab.record(RUNS[3])
    call = lab.call(measure=3)
    head = lab.measure(call, RUNS[0])
    second = lab.measure(
        call, RUNS[1], forward=(0.0071,) * 12, backward=(0.0189,) * 12, peak=1288.0
    )
    third = lab.measure(call, RUNS[2])
    assert head[1] == "Measuring 3 runs on the CPU in float32; 1 of 4 are measured already."
    assert head[-2:] + second + third == [
        "run   left                                      forward    backward peak memory",
        "1/3        Pytorch B16 N128  H32 E2048 full     1.00 ms     2.50 ms    10.0 MiB",
        "2/3   10 s Flash2  B16 N128  H32 E2048 full     7.10 ms     18.9 ms   1,288 MiB",
        "3/3        Pytorch B16 N1024 H32 E2048 full     1.00 ms     2.50 ms    10.0 MiB",
    ]


@pytest.mark.parametrize("status", ["oom", "unsupported", "incorrect", "error"])
def test_a_run_that_failed_says_why_in_the_first_line_of_its_message(lab: Lab, status: str) -> None:
    call = lab.call(measure=1)
    line = lab.measure(call, RUNS[0], status, message="\n no memory\x1b[2J for this\nmore")[-1]
    assert line.endswith(f"full {status}: no memory [2J for this")


def test_a_call_that_waits_for_the_device_says_so_once(lab: Lab) -> None:
    lab.claimed.add("cpu")
    call = lab.call(ceilings=1, measure=2)
    assert call.starts(Job(9, "ceilings", "")) == [WAITING]
    call.finishes(9)
    assert WAITING not in lab.measure(call, RUNS[0])
    lab.claimed.clear()
    assert lab.call(ceilings=1).starts(Job(9, "ceilings", "")) == []


def test_a_message_of_one_long_line_is_cut(lab: Lab) -> None:
    line = lab.measure(lab.call(measure=1), RUNS[0], "error", message="x" * 20_000)[-1]
    assert line.endswith("full error: " + "x" * (LONGEST_LINE - 1) + "…")


def test_nothing_is_estimated_from_the_first_run_which_imports_torch(lab: Lab) -> None:
    call = lab.call(measure=4)
    lab.measure(call, RUNS[0])
    call.starts(lab.job(RUNS[1]))
    assert call.activity() == "Measuring Flash2 B16 N128 H32 E2048 full"
    lab.measure(call, RUNS[1])
    call.starts(lab.job(RUNS[2]))
    assert call.activity() == (
        "Measuring Pytorch B16 N1024 H32 E2048 full, about 20 s of measuring left"
    )


def test_a_stage_is_one_line_when_its_last_job_is_done(lab: Lab) -> None:
    call = lab.call(tables=2, observations=1)
    jobs = [Job(1, "tables", ""), Job(2, "tables", ""), Job(3, "observations", "")]
    lines = []
    for job in jobs:
        assert call.starts(job) == []
        lines += call.finishes(job.id)
    assert lines == ["Tables: 2 done", "Observations: done"]


def test_a_job_that_writes_to_the_terminal_has_it_for_itself(lab: Lab) -> None:
    call = lab.call(verify=1)
    call.starts(Job(1, "verify", "Verifying a report"))
    assert call.activity() is None


def test_freezing_says_what_to_do_with_the_dataset(lab: Lab) -> None:
    lab.root.joinpath("freeze.log").write_text("data/x now holds these records\n")
    call = lab.call(freeze=1)
    call.starts(Job(1, "freeze", "", logs=("freeze.log",)))
    assert call.finishes(1) == ["Recorded dataset: done", "data/x now holds these records"]


def test_the_summary_counts_the_runs_and_says_where_the_report_is(lab: Lab) -> None:
    call = lab.call(measure=4, report=1)
    for run in RUNS:
        lab.measure(call, run)
    call.starts(lab.report(pages=1))
    call.finishes(99)
    summary = call.ends()
    assert summary[:4] == [
        "",
        "4 runs: all ok.",
        "",
        "report/lab5.pdf (1 page) shows this machine's records.",
    ]
    assert "./run report --config dataset=h200" in text(summary)


def test_the_summary_names_each_run_that_is_not_ok_and_what_to_do(lab: Lab) -> None:
    call = lab.call(measure=1, report=1)
    lab.record(RUNS[0], "oom", message="out of memory")
    lab.record(RUNS[1])
    lab.record(RUNS[2], "unsupported", message="no such size")
    lab.measure(call, RUNS[3], "error", message="RuntimeError: it broke")
    summary = call.ends()
    assert summary[1:5] == [
        "4 runs: 1 ok, 3 not (1 oom, 1 unsupported, 1 error).",
        "  Pytorch B16 N128  H32 E2048 full  oom          out of memory",
        "  Pytorch B16 N1024 H32 E2048 full  unsupported  no such size",
        "  Flash2  B16 N1024 H32 E2048 full  error        RuntimeError: it broke",
    ]
    said = text(summary)
    assert "results/local/logs/measure/" in said
    shape = "B16,N1024,H32,E2048,full"
    assert f"./run check Flash2 --shape {shape} --dtype {RUNS[3].dtype}\n" in said
    assert "./run check Pytorch" not in said
    assert "./run report --again flash2-b16-n1024-h32-e2048-full" in said


def test_many_faulty_runs_are_measured_again_by_implementation(lab: Lab) -> None:
    call = lab.call(measure=4)
    for run in RUNS:
        lab.measure(call, run, "incorrect")
    assert text(call.ends()).endswith("./run report --again Pytorch Flash2")


def test_nothing_to_do_still_names_what_is_not_ok(lab: Lab) -> None:
    for run in RUNS:
        lab.record(run, "oom" if run is RUNS[0] else "ok")
    lab.report()
    call = CallProgress(lab.root, lab.is_claimed)
    call.begins(COMMAND, lab.prepared)
    call.nothing_to_do = True
    said = text(call.ends())
    assert "Nothing to do" in said and "3 ok, 1 not (1 oom)" in said and "(3 pages)" in said


def test_warnings_of_the_rendering_are_shown(lab: Lab) -> None:
    call = lab.call(report=1)
    call.starts(lab.report())
    call.finishes(99)
    log = lab.root / "results" / "local" / "logs" / "report.log"
    log.parent.mkdir(parents=True)
    log.write_text("made\nwarning: the fonts lack U+1F600\n")
    lines = call.ends()
    assert "warning: the fonts lack U+1F600" in lines and "made" not in lines


def test_a_recorded_dataset_is_named_and_the_own_report_is_not_lost(
    tmp_path: Path, record_of: Callable[..., dict[str, Any]]
) -> None:
    lab = Lab(tmp_path, record_of, "h200")
    own = tmp_path / "results" / "local" / "lab5.pdf"
    for there in (False, True):
        call = lab.call(report=1)
        if there:
            own.parent.mkdir(parents=True)
            own.touch()
        for run in RUNS:
            lab.record(run, "oom" if run is RUNS[0] else "ok")
        call.starts(lab.report())
        call.finishes(99)
        said = text(call.ends())
        assert "report/lab5.pdf (3 pages) shows the dataset h200." in said
        assert "4 runs: 3 ok, 1 not (1 oom)." in said and "N128" not in said
        assert ("is kept as results/local/lab5.pdf" in said) == there


def test_a_failed_job_is_named_with_the_end_of_its_log_and_the_old_report(lab: Lab) -> None:
    lab.report()
    os.utime(lab.root / "report" / "lab5.pdf", (0, 0))
    log = lab.root / "tables.log"
    log.write_text("".join(f"line {i}\n" for i in range(99)) + "error: no space left\n")
    call = lab.call(tables=2)
    for job in (
        Job(1, "tables", "Tabulating seq_len", logs=("tables.log",)),
        Job(2, "tables", "Tabulating causal", logs=("tables.log",)),
    ):
        call.starts(job)
        assert call.fails(Job(job.id, "tables", "")) == [f"{job.message}: failed"]
    lines = call.ends()
    assert lines[1:3] == ["2 jobs failed:", "  Tabulating seq_len"]
    assert lines.count("      | error: no space left") == 1
    assert "      | line 80" not in lines and "      | line 98" in lines
    said = text(lines)
    assert "report/lab5.pdf is still the old report, made on 1970-01-01" in said
    assert "make the same call again" in said
    assert "all ok" not in said


def test_an_interrupted_call_says_what_is_kept_in_one_line(lab: Lab) -> None:
    call = lab.call(measure=4)
    lab.measure(call, RUNS[0])
    call.starts(lab.job(RUNS[1]))
    call.interrupted = True
    assert call.fails(lab.job(RUNS[1])) == []
    assert call.activity() is None
    assert call.ends() == [
        "",
        "Interrupted: 1 of 4 runs is measured and kept; the same call goes on from there.",
    ]


def test_an_error_outside_any_job_is_not_followed_by_a_success(lab: Lab) -> None:
    for run in RUNS:
        lab.record(run)
    lab.report()
    call = lab.call(report=1)
    call.stopped = True
    said = text(call.ends())
    assert "old report" in said and "all ok" not in said


def test_a_dry_run_says_what_would_be_measured_and_made(lab: Lab) -> None:
    call = lab.call(dry_run=True, measure=3, tables=2)
    for run in RUNS[:3]:
        assert call.starts(lab.job(run)) == []
    call.starts(Job(10, "tables", ""))
    call.starts(Job(11, "tables", ""))
    assert call.ends() == [
        "Would measure 3 runs: 1 Flash2, 2 Pytorch.",
        "Would make:",
        "  Tables (2)",
        "This was a dry run: nothing was measured or made.",
    ]


def test_every_rule_that_is_silent_has_a_title(root: Path) -> None:
    rules = "".join(path.read_text() for path in (root / "workflow" / "rules").glob("*.smk"))
    blocks = re.split(r"^ *(?:checkpoint|rule) (\w+):\n", rules, flags=re.MULTILINE)
    silent = {
        name for name, body in zip(blocks[1::2], blocks[2::2], strict=True) if "> {log" in body
    }
    assert silent - STAGES.keys() == {MEASURE}


def test_a_call_without_a_plan_loses_no_line(tmp_path: Path, lab: Lab) -> None:
    call = CallProgress(tmp_path / "empty", lab.is_claimed)
    call.begins(COMMAND, None)
    call.plans({"measure": 1, "total": 1})
    assert call.starts(lab.job(RUNS[0]))[1] == "Measuring 1 run."
    assert call.finishes(0)[0].endswith("its record is unreadable")


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (5400, "1.5 h")]
)
def test_duration(seconds: float, said: str) -> None:
    assert duration(seconds) == said


# Several processes of a run


@pytest.fixture
def replicated(lab: Lab) -> Lab:
    """The folder with two processes of each run planned."""
    for entry in lab.planned:
        other = entry["path"].replace("-0123", "-process1-0123")
        entry["replicates"] = [{"path": other, "sha256": None}]
    return lab


def measure_second(lab: Lab, call: CallProgress, run: Run, status: str = "ok") -> list[str]:
    path = lab.path(run).replace("-0123", "-process1-0123")
    lines = call.starts(Job(50 + RUNS.index(run), "measure", "", (path,)))
    write_record(lab.root / path, lab.record_of(run, status, sources={"process": 1}))
    return [*lines, *call.finishes(50 + RUNS.index(run))]


def test_each_process_of_a_run_is_a_line(replicated: Lab) -> None:
    call = replicated.call(measure=8)
    first = replicated.measure(call, RUNS[0])
    second = measure_second(replicated, call, RUNS[0])
    assert first[1] == "Measuring 8 processes of 4 runs on the CPU in float32."
    assert " Pytorch B16 N128  H32 E2048 full process 1 " in first[-1]
    assert " Pytorch B16 N128  H32 E2048 full process 2 " in second[-1]


@pytest.mark.parametrize(
    ("status", "line"),
    [
        ("ok", "4 runs in 8 processes: all ok."),
        ("error", "4 runs in 8 processes: 3 ok, 1 not (1 error)."),
    ],
)
def test_a_run_is_ok_if_all_of_its_processes_are(replicated: Lab, status: str, line: str) -> None:
    call = replicated.call(measure=8)
    for run in RUNS:
        replicated.measure(call, run)
        measure_second(replicated, call, run, status if run == RUNS[2] else "ok")
    assert line in call.ends()
