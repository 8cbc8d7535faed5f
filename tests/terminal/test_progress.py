"""The lines that a call prints, given its plan and events by hand in a folder of records."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
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
    ADVICE,
    LONGEST_LINE,
    MEASURE,
    STAGES,
    UNPLANNED,
    UP_TO_DATE,
    WAITING,
    CallProgress,
    Job,
    aligned,
    check_of,
    duration,
)

FAILED = ("oom", "unsupported", "incorrect", "error")


def run_of(implementation: str, seq_len: int) -> Run:
    return attention_run(implementation, Shape(16, seq_len, 32, 2048, False), "float32", "cpu")


RUNS = [run_of(name, n) for n in (128, 1024) for name in ("Pytorch", "Flash2")]


class Lab:
    """A folder with the plan of four runs, and a clock that is wound by hand."""

    def __init__(
        self, root: Path, record_of: Callable[..., dict[str, Any]], dataset: str, processes: int = 1
    ) -> None:
        self.root, self.record_of, self.home = root, record_of, f"results/{dataset}"
        self.seconds, self.claimed = 0.0, set[str]()
        planned = [
            {
                **{"run": run.to_json(), "path": self.path(run)},
                "replicates": [{"path": self.path(run, i)} for i in range(1, processes)],
            }
            for run in RUNS
        ]
        records = {"benchmark": "attention", "records": planned}
        views = {f"{self.home}/plan/records/summary.json": records}
        self.plan = replace(UNPLANNED, dataset=dataset, home=self.home, views=views)

    def path(self, run: Run, process: int = 0) -> str:
        return f"{self.home}/records/{run.slug}-{process}123456789ab.json"

    def call(self, dry_run: bool = False, **counts: int) -> CallProgress:
        claimed = self.claimed
        call = CallProgress(self.root, claimed.__contains__, dry_run, lambda: self.seconds)
        call.begins("snakemake --cores 1 report/lab5.pdf", self.plan)
        call.plans({**counts, "total": sum(counts.values())})
        return call

    def job(self, run: Run, process: int = 0) -> Job:
        number = RUNS.index(run) + 50 * process
        return Job(number, "measure", f"Measuring {run.slug}", (self.path(run, process),))

    def record(self, run: Run, status: str = "ok", process: int = 0, **inner: Any) -> None:
        document = self.record_of(run, status, sources={"process": process}, **inner)
        write_record(self.root / self.path(run, process), document)

    def measure(self, call: CallProgress, run: Run, *told: str, **inner: Any) -> list[str]:
        """The lines from a job that takes ten seconds."""
        job = self.job(run, inner.get("process", 0))
        lines = call.starts(job)
        self.seconds += 10
        self.record(run, *told, **inner)
        return [*lines, *call.finishes(job.id)]

    def report(self, call: CallProgress, pages: int = 3) -> list[str]:
        """The lines from the job that makes the PDF, and of the end."""
        self.root.joinpath("report").mkdir(exist_ok=True)
        with pikepdf.new() as pdf:
            for _ in range(pages):
                pdf.add_blank_page()
            pdf.save(self.root / "report" / "lab5.pdf")
        call.starts(Job(99, "report", "Rendering the report", ("report/lab5.pdf",)))
        return [*call.finishes(99), *call.ends()]


Planted = Callable[..., Lab]


@pytest.fixture
def planted(tmp_path: Path, record_of: Callable[..., dict[str, Any]]) -> Planted:
    return partial(Lab, tmp_path, record_of)


@pytest.fixture
def lab(planted: Planted) -> Lab:
    return planted("local")


def test_a_call_is_a_line_for_each_run_and_stage_and_a_summary(lab: Lab) -> None:
    lab.record(RUNS[3])
    lab.root.joinpath("freeze.log").write_text("data/x now holds these records\n")
    call = lab.call(measure=3, tables=2, freeze=1, report=1)
    lines = lab.measure(call, RUNS[0])
    times = {"forward": (0.0071,) * 12, "backward": (0.0189,) * 12}
    lines += lab.measure(call, RUNS[1], **times, peak=1288.0)
    lines += lab.measure(call, RUNS[2])
    for number, rule in enumerate(("tables", "tables", "freeze"), 10):
        lines += call.starts(Job(number, rule, "", logs=("freeze.log",)))
        lines += call.finishes(number)
    said = "\n".join([*lines, *lab.report(call, pages=1)])
    sizes = "B batch size, N sequence length, H number of heads, E embedding dimension."
    assert said.startswith(
        f"""
Measuring 3 runs on the CPU in float32; 1 of 4 are measured already.
{sizes}

run   left                                      forward    backward peak memory
1/3        Pytorch B16 N128  H32 E2048 full     1.00 ms     2.50 ms    10.0 MiB
2/3   10 s Flash2  B16 N128  H32 E2048 full     7.10 ms     18.9 ms   1,288 MiB
3/3        Pytorch B16 N1024 H32 E2048 full     1.00 ms     2.50 ms    10.0 MiB
Tables: 2 done
Recorded dataset: done
data/x now holds these records
Report: done

4 runs: all ok.

report/lab5.pdf (1 page) shows this machine's records.
"""
    )
    assert "./run report --config dataset=h200" in said


def test_after_a_minute_a_call_says_what_is_known_by_then(lab: Lab) -> None:
    """Pytorch takes 1 + 2 ms and Flash2 half of that, at N 128; of N 1024 one run is there."""
    names = ("Pytorch", "Flash2")
    experiments = [
        Experiment("summary", names, tuple(RUNS[:2])),
        Experiment("seq_len", names, tuple(RUNS), {"en": "Sequence length"}, sweep="seq_len"),
    ]
    planned = Planned({run: [Entry(run, {}, Path(lab.path(run)), None)] for run in RUNS})
    config = {
        **{"languages": ["en"], "anonymous": False, "baseline": "Pytorch", "counted": []},
        **{"summary": {"implementations": names}, "experiments": []},
    }
    kernels, home = implementations_of(ATTENTION), Path("results", "local")
    views = views_of(ATTENTION, kernels, config, home, experiments, planned)
    lab.plan = replace(lab.plan, views={**lab.plan.views, **views})
    call, said = lab.call(measure=4), list[list[str]]()
    for run, factor in zip(RUNS, (1.0, 0.5, 1.0, 0.5), strict=True):
        times = {"forward_time": factor, "backward_time": 2 * factor, "peak_memory": 1.0}
        metrics = {name: Measurement(value, stopped="count") for name, value in times.items()}
        said.append(lab.measure(call, run, metrics=metrics))
        lab.seconds += 15
    assert said[2][-2:] == [
        "So far, from one process of each run, the speed as a multiple of Pytorch's (total time):",
        "  Sequence length: Flash2 2.00× at 1 of 2 settings",
    ]
    assert not any("So far" in line for i in (0, 1, 3) for line in said[i])


@pytest.mark.parametrize(
    ("status", "message", "end"),
    [
        *((s, "\n no memory\x1b[2J for this\nmore", "no memory [2J for this") for s in FAILED),
        ("error", "x" * 20_000, "x" * (LONGEST_LINE - 1) + "…"),
    ],
)
def test_a_run_that_failed_says_why_in_the_first_line_of_its_message(
    lab: Lab, status: str, message: str, end: str
) -> None:
    line = lab.measure(lab.call(measure=1), RUNS[0], status, message=message)[-1]
    assert line.endswith(f"full {status}: {end}")


def test_a_call_that_waits_for_the_device_says_so_once(lab: Lab) -> None:
    lab.claimed.add("cpu")
    call = lab.call(ceilings=1, measure=2)
    assert call.starts(Job(9, "ceilings")) == [WAITING]
    call.finishes(9)
    assert WAITING not in lab.measure(call, RUNS[0])
    lab.claimed.clear()
    assert lab.call(ceilings=1).starts(Job(9, "ceilings")) == []


def test_nothing_is_estimated_from_the_first_run_which_imports_torch(lab: Lab) -> None:
    call = lab.call(measure=4, verify=1)
    lab.measure(call, RUNS[0])
    call.starts(lab.job(RUNS[1]))
    assert call.activity() == "Measuring Flash2 B16 N128 H32 E2048 full"
    lab.measure(call, RUNS[1])
    call.starts(lab.job(RUNS[2]))
    named = "Measuring Pytorch B16 N1024 H32 E2048 full"
    assert call.activity() == f"{named}, about 20 s of measuring left"
    call.starts(Job(9, "verify", "Verifying a report"))
    assert call.activity() is None  # the job writes to the terminal itself


def test_the_summary_names_each_run_that_is_not_ok_and_what_to_do(lab: Lab) -> None:
    lab.record(RUNS[0], "oom", message="out of memory")
    lab.record(RUNS[1])
    lab.record(RUNS[2], "unsupported", message="no such size")
    call = lab.call(measure=1, report=1)
    lab.measure(call, RUNS[3], "error", message="RuntimeError: it broke")
    assert "\n".join(call.ends()) == (
        """
4 runs: 1 ok, 3 not (1 oom, 1 unsupported, 1 error).
  Pytorch B16 N128  H32 E2048 full  oom          out of memory
  Pytorch B16 N1024 H32 E2048 full  unsupported  no such size
  Flash2  B16 N1024 H32 E2048 full  error        RuntimeError: it broke
The report shows them as what they are.
  their logs:        results/local/logs/measure/
  look into Flash2:  ./run check Flash2 --shape B16,N1024,H32,E2048,full --dtype float32
  measure again:     ./run report --again flash2-b16-n1024-h32-e2048-full"""
    )
    for run in RUNS:
        lab.record(run, "incorrect")
    call.nothing_to_do = True
    assert call.ends()[1:3] == [UP_TO_DATE, "4 runs: 0 ok, 4 not (4 incorrect)."]
    assert call.ends()[-1].endswith("./run report --again Pytorch Flash2")


def test_warnings_of_the_rendering_are_shown(lab: Lab) -> None:
    log = lab.root / "results" / "local" / "logs" / "report.log"
    log.parent.mkdir(parents=True)
    log.write_text("made\nwarning: the fonts lack U+1F600\n")
    lines = lab.report(lab.call(report=1))
    assert "warning: the fonts lack U+1F600" in lines and "made" not in lines


@pytest.mark.parametrize("there", [False, True])
def test_a_recorded_dataset_is_named_and_the_own_report_is_not_lost(
    planted: Planted, there: bool
) -> None:
    lab = planted("h200")
    own = lab.root / "results" / "local" / "lab5.pdf"
    if there:
        own.parent.mkdir(parents=True)
        own.touch()
    for run in RUNS:
        lab.record(run, "oom" if run is RUNS[0] else "ok")
    said = "\n".join(lab.report(lab.call(report=1)))
    assert "report/lab5.pdf (3 pages) shows the dataset h200." in said
    assert "4 runs: 3 ok, 1 not (1 oom)." in said and "N128" not in said
    assert ("is kept as results/local/lab5.pdf" in said) == there


def test_a_failed_job_is_named_with_the_end_of_its_log_and_the_old_report(lab: Lab) -> None:
    lab.report(lab.call(report=1))
    os.utime(lab.root / "report" / "lab5.pdf", (0, 0))
    log = lab.root / "tables.log"
    log.write_text("".join(f"line {i}\n" for i in range(99)) + "error: no space left\n")
    call = lab.call(tables=2)
    for number, title in enumerate(("Tabulating seq_len", "Tabulating causal")):
        call.starts(Job(number, "tables", title, logs=("tables.log",)))
        assert call.fails(Job(number, "tables")) == [f"{title}: failed"]
    lines = call.ends()
    assert lines[1:3] == ["2 jobs failed:", "  Tabulating seq_len"]
    assert lines.count("      | error: no space left") == 1
    assert "      | line 80" not in lines and "      | line 98" in lines
    assert any("report/lab5.pdf is still the old report, made on 1970-01-01" in x for x in lines)
    assert [*ADVICE] == lines[-len(ADVICE) :] and not any("all ok" in line for line in lines)


def test_an_interrupted_call_says_what_is_kept_in_one_line(lab: Lab) -> None:
    call = lab.call(measure=4)
    lab.measure(call, RUNS[0])
    call.starts(lab.job(RUNS[1]))
    call.interrupted = True
    assert call.fails(lab.job(RUNS[1])) == []
    assert call.activity() is None
    said = "Interrupted: 1 of 4 runs is measured and kept; the same call goes on from there."
    assert call.ends() == ["", said]


def test_an_error_outside_any_job_is_not_followed_by_a_success(lab: Lab) -> None:
    for run in RUNS:
        lab.record(run)
    lab.report(lab.call(report=1))
    call = lab.call(report=1)
    call.stopped = True
    said = "\n".join(call.ends())
    assert "old report" in said and "all ok" not in said


def test_a_dry_run_says_what_would_be_measured_and_made(lab: Lab) -> None:
    call = lab.call(dry_run=True, measure=3, tables=2)
    for job in (*map(lab.job, RUNS[:3]), Job(10, "tables"), Job(11, "tables")):
        assert call.starts(job) == []
    assert call.ends() == [
        "Would measure 3 runs: 1 Flash2, 2 Pytorch.",
        "Would make:",
        "  Tables (2)",
        "This was a dry run: nothing was measured or made.",
    ]


def test_every_rule_that_is_silent_has_a_title(root: Path) -> None:
    rules = "".join(path.read_text() for path in (root / "workflow" / "rules").glob("*.smk"))
    blocks = re.split(r"^ *(?:checkpoint|rule) (\w+):\n", rules, flags=re.MULTILINE)
    bodies = dict(zip(blocks[1::2], blocks[2::2], strict=True))
    assert {name for name in bodies if "> {log" in bodies[name]} - STAGES.keys() == {MEASURE}


def test_a_call_without_a_plan_loses_no_line(lab: Lab) -> None:
    lab.plan = UNPLANNED
    call = lab.call(measure=1)
    assert call.starts(lab.job(RUNS[0]))[1] == "Measuring 1 run."
    assert call.finishes(0)[0].endswith("its record is unreadable")


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (5400, "1.5 h")]
)
def test_duration(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("status", "summary"), [("ok", "all ok"), ("error", "3 ok, 1 not (1 error)")]
)
def test_each_process_is_a_line_and_a_run_is_ok_if_all_of_its_processes_are(
    planted: Planted, status: str, summary: str
) -> None:
    lab = planted("local", processes=2)
    call, lines = lab.call(measure=8), list[str]()
    for run in RUNS:
        lines += lab.measure(call, run)
        lines += lab.measure(call, run, status if run == RUNS[2] else "ok", process=1)
    assert lines[1] == "Measuring 8 processes of 4 runs on the CPU in float32."
    assert " Pytorch B16 N128  H32 E2048 full process 1 " in lines[5]
    assert " Pytorch B16 N128  H32 E2048 full process 2 " in lines[6]
    assert f"4 runs in 8 processes: {summary}." in call.ends()


def test_runs_are_columns_with_blanks_where_one_has_a_default() -> None:
    shared = attention_run("Flash2", Shape(1, 64, 32, 2048, True, 8), "float16", "cuda")
    assert list(aligned([RUNS[0], shared]).values()) == [
        "Pytorch B16 N128 H32       E2048 full  ",
        "Flash2  B1  N64  H32 H_kv8 E2048 causal",
    ]
    call = "./run check Flash2 --shape B1,N64,H32,H_kv8,E2048,causal --dtype float16"
    assert check_of(shared) == call
