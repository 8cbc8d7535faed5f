"""The lines that a call prints: the events of Snakemake, by hand, in a folder of records."""

from __future__ import annotations

import logging
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pikepdf
import pytest
from planted.records import experiment_document, record_of
from snakemake.logging import DefaultFilter, DefaultFormatter
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.tests import MockOutputSettings

import snakemake_logger_plugin_flashlab as plugin
from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.plan import call as calls
from flashlab.plan.plan_files import EXPERIMENTS, RECORDS, TITLES
from flashlab.records import write_record
from flashlab.runs import Run
from flashlab.terminal import lines as words
from flashlab.terminal.lines import ADVICE, LONGEST_LINE, MEASURE, STAGES, UNPLANNED, UP_TO_DATE

RUNS = [
    attention_run(implementation, Shape(16, seq_len, 32, 2048, False), "float32", "cpu")
    for seq_len in (128, 1024)
    for implementation in ("Pytorch", "Flash2")
]
HOME = "results/local"


def failed(message: str) -> dict[str, Any]:
    return {"event": LogEvent.ERROR, "level": logging.ERROR, "message": message}


def job(number: int, rule: str, *output: str, title: str = "", log: str = "") -> dict[str, Any]:
    said = {"jobid": number, "rule_name": rule, "rule_msg": title or None, "shellcmd": None}
    return {**said, "event": LogEvent.JOB_INFO, "output": output, "log": [log] if log else []}


class Lab:
    """A folder with the plan of four runs, the lines of a call, and a clock wound by hand."""

    def __init__(self, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys, self.seconds, self.claimed = capsys, 0.0, False
        patch.setattr(sys, "excepthook", sys.excepthook)  # which a handler changes
        patch.setattr(words, "monotonic", lambda: self.seconds)
        patch.setattr(words, "is_claimed", lambda device: self.claimed and device == "cpu")
        patch.setattr(calls, "begun", None)
        self.plan()

    def plan(self, processes: int = 1, **views: Any) -> None:
        """Have calls plan the runs in so many processes, and these views."""
        files = {run: [{"path": self.of(run, i)[-1]} for i in range(processes)] for run in RUNS}
        planned = [
            {"run": run.to_json(), **first, "replicates": others}
            for run, (first, *others) in files.items()
        ]
        views |= {RECORDS: {"experiments": {"summary": planned}}}
        at_home = {f"{HOME}/{name}": view for name, view in views.items()}
        calls.begun = replace(UNPLANNED, home=HOME, views=at_home)

    def begin(self, **settings: Any) -> None:
        """Begin a call of Snakemake with these settings of its output."""
        common = MockOutputSettings()
        vars(common).update(settings)
        self.handler = plugin.LogHandler(common, None)
        self.handler.addFilter(DefaultFilter(set(), False, common.verbose, False, False))
        self.handler.setFormatter(DefaultFormatter(set(), False))
        assert self.handler.writes_to_stream != common.verbose

    def call(self, **counts: int) -> None:
        """Begin one that makes the report with so many jobs of each rule."""
        self.begin()
        self.said(event=LogEvent.WORKFLOW_STARTED, cmd="snakemake --cores 1 report/lab5.pdf")
        self.said(event=LogEvent.RUN_INFO, stats={**counts, "total": sum(counts.values())})

    def tell(self, message: str = "", level: int = logging.INFO, **told: Any) -> None:
        record = logging.LogRecord("snakemake", level, "", 0, message, (), None)
        vars(record).update(told)
        self.handler.handle(record)

    def said(self, message: str = "", **told: Any) -> list[str]:
        """The lines about an event."""
        self.tell(message, **told)
        return self.capsys.readouterr().err.splitlines()

    def does(self, *of: Any, **told: Any) -> list[str]:
        """The lines about a job, which takes ten seconds."""
        lines = self.said(**job(*of, **told))
        self.seconds += 10
        return [*lines, *self.said(event=LogEvent.JOB_FINISHED, job_id=of[0])]

    def ends(self) -> list[str]:
        """The summary."""
        self.handler.close()
        return self.capsys.readouterr().err.splitlines()

    def of(self, run: Run, process: int = 0) -> tuple[int, str, str]:
        """The job that measures a run, and writes its record."""
        record = f"{HOME}/records/{run.slug}-{process}123456789ab.json"
        return RUNS.index(run) + 50 * process, MEASURE, record

    def record(self, run: Run, status: str = "ok", process: int = 0, **inner: Any) -> None:
        record = record_of(run, status, sources={"process": process}, **inner)
        write_record(Path(self.of(run, process)[-1]), record)

    def measure(self, run: Run, *status: str, process: int = 0, **inner: Any) -> list[str]:
        """The lines about it, once it has written this record."""
        self.record(run, *status, process=process, **inner)
        return self.does(*self.of(run, process))

    def report(self) -> list[str]:
        """The lines about the job that makes the PDF, and the summary."""
        Path("report").mkdir(exist_ok=True)
        with pikepdf.new() as pdf:
            pdf.add_blank_page()
            pdf.save("report/lab5.pdf")
        return [*self.does(99, "report", "report/lab5.pdf"), *self.ends()]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Lab:
    monkeypatch.chdir(tmp_path)
    return Lab(monkeypatch, capsys)


def test_a_call_is_a_line_for_each_run_and_stage_and_a_summary(lab: Lab) -> None:
    lab.record(RUNS[3])
    Path("freeze.log").write_text("data/x now holds these records\n")
    Path("data/h200").mkdir(parents=True)
    lab.call(measure=3, tables=2, freeze=1, report=1)
    lines = lab.measure(RUNS[0])
    times = {"forward": (0.0071,) * 12, "backward": (0.0189,) * 12}
    lines += lab.measure(RUNS[1], **times, peak=1288.0) + lab.measure(RUNS[2])
    for number, rule in enumerate(("tables", "tables", "freeze"), 10):
        lines += lab.does(number, rule, "x", log="freeze.log")
    said = "\n".join([*lines, *lab.report()])
    assert said.startswith(
        """
Measuring 3 runs on the CPU in float32; 1 of 4 are measured already.
B batch size, N sequence length, H number of heads, E embedding dimension.

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
    assert said.endswith("./run report --config dataset=h200")


def test_after_a_minute_a_call_says_what_is_known_by_then(lab: Lab) -> None:
    """Flash2 takes half of Pytorch's time at N 128; of N 1024 one run is there."""
    view = experiment_document("attention", ("Pytorch", "Flash2"))
    view["runs"] = [run.to_json() for run in RUNS]
    of_all = {"seq_len": view, "summary": {**view, "name": "summary", "sweep": None}}
    lab.plan(3, **{EXPERIMENTS: of_all, TITLES: {"seq_len": {"en": "Sequence length"}}})
    lab.call(measure=4)
    said, fast = list[list[str]](), {"forward": (0.0005,) * 12, "backward": (0.00125,) * 12}
    for run in RUNS:
        said.append(lab.measure(run, **(fast if run.implementation == "Flash2" else {})))
        lab.seconds += 15
    assert said[2][-2:] == [
        "So far, from one process of each run, the speed as a multiple of Pytorch's (total time):",
        "  Sequence length: Flash2 2.00× at 1 of 2 settings",
    ]
    assert not any("So far" in line for i in (0, 1, 3) for line in said[i])


def test_a_call_that_waits_for_the_device_says_so_once(lab: Lab) -> None:
    lab.claimed, waiting = True, "Waiting: another measurement runs on the device."
    lab.call(ceilings=1, measure=2)
    assert lab.does(9, "ceilings", "x")[0] == waiting
    assert waiting not in lab.measure(RUNS[0])


def test_nothing_is_estimated_from_the_first_run_which_imports_torch(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal shows below the lines what is done."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(os, "environ", {"COLUMNS": "200", "TERM": "xterm"})

    def begun(*of: Any, title: str = "") -> str:
        return lab.said(**job(*of, title=title))[-1].removeprefix("\x1b[K")

    lab.call(measure=4, verify=1)
    lab.measure(RUNS[0])
    assert begun(*lab.of(RUNS[1])) == "1/5 steps Measuring Flash2 B16 N128 H32 E2048 full"
    lab.measure(RUNS[1])
    named = "2/5 steps Measuring Pytorch B16 N1024 H32 E2048 full"
    assert begun(*lab.of(RUNS[2])) == f"{named}, about 20 s of measuring left"
    assert begun(9, "verify", "x", title="Verifying") == ""  # it writes there itself
    lab.record(RUNS[2])  # which Snakemake knows nothing of
    lab.tell("Terminating processes on user request, this might take some time.")
    assert "Interrupted, with 2 of 4 runs measured and kept; " in "".join(lab.ends())


def test_each_run_that_is_not_ok_is_named_with_its_first_line_and_what_to_do(lab: Lab) -> None:
    lab.record(RUNS[0], "oom", message="\n no memory\x1b[2J for this\nmore")
    lab.record(RUNS[1])
    lab.record(RUNS[2], "unsupported", message="x" * 20_000)
    lab.call(measure=1, report=1)
    (*_, line) = lab.measure(RUNS[3], "error", message="RuntimeError: it broke")
    assert line.endswith(" full error: RuntimeError: it broke")
    assert "\n".join(lab.ends()) == (
        f"""
4 runs: 1 ok, 3 not (1 oom, 1 unsupported, 1 error).
  Pytorch B16 N128  H32 E2048 full  oom          no memory [2J for this
  Pytorch B16 N1024 H32 E2048 full  unsupported  {"x" * (LONGEST_LINE - 1)}…
  Flash2  B16 N1024 H32 E2048 full  error        RuntimeError: it broke
The report shows them as what they are.
  their logs:        results/local/logs/measure/
  look into Flash2:  ./run check Flash2 --shape B16,N1024,H32,E2048,full --dtype float32
  measure again:     the same call with --again flash2-b16-n1024-h32-e2048-full"""
    )
    for run in RUNS:
        lab.record(run, "incorrect")
    lab.call()
    lab.said(NOTHING)
    lines = lab.ends()
    assert lines[1:3] == [UP_TO_DATE, "4 runs: 0 ok, 4 not (4 incorrect)."]
    assert lines[-1].endswith("the same call with --again Pytorch Flash2")


def test_a_failed_job_is_named_with_the_end_of_its_log_and_the_old_report(lab: Lab) -> None:
    old = "report/lab5.pdf is still the old report, made on 1970-01-01 00:00."
    lab.call(report=1)
    lab.report()
    os.utime("report/lab5.pdf", (0, 0))
    lines = [f"line {i}" for i in range(99)]
    Path("tables.log").write_text("\n".join([*lines, "error: no space left"]))
    lab.call(tables=2)
    for number, title in enumerate(("Tabulating seq_len", "Tabulating causal")):
        told = job(number, "tables", "x", title=title, log="tables.log")
        lab.said(**told)
        assert lab.said(**{**told, "event": LogEvent.JOB_ERROR}) == [f"{title}: failed"]
    assert lab.ends() == [
        *("", "2 jobs failed:", "  Tabulating seq_len", "    tables.log ends:"),
        *(f"      | {line}" for line in [*lines[-11:], "error: no space left"]),
        *("  Tabulating causal", "    tables.log ends in the same lines", ""),
        *(old, *ADVICE),
    ]
    lab.call(report=1)
    lab.said(**job(99, "report", "report/lab5.pdf"))
    assert lab.said(**failed("no")) == ["no"], "an error outside any job"
    assert lab.ends() == ["", old]


def test_every_rule_that_is_silent_has_a_title(root: Path) -> None:
    rules = "".join(path.read_text() for path in (root / "workflow" / "rules").glob("*.smk"))
    blocks = re.split(r"^ *(?:checkpoint|rule) (\w+):\n", rules, flags=re.MULTILINE)
    bodies = dict(zip(blocks[1::2], blocks[2::2], strict=True))
    assert {name for name in bodies if "> {log" in bodies[name]} - STAGES.keys() == {MEASURE}


def test_runs_that_grading_measures_are_not_counted_among_the_plans(lab: Lab) -> None:
    lab.call(measure=2, grades=1)
    said = [*lab.measure(RUNS[0]), *lab.does(8, MEASURE, "x/flash2-b9-123.json"), *lab.ends()]
    assert said[1] == "Measuring 2 runs." and "flash2-b9-123 unmeasured" in said[-1]
    lab.call(measure=5, publish=1, grades=1)
    assert " Pytorch B16 N128  H32 E2048 " in lab.measure(RUNS[0])[-1]


def test_what_was_to_be_measured_again_goes_on_without_asking_so(lab: Lab) -> None:
    assert calls.begun
    calls.begun = replace(calls.begun, config={"again": "all"})
    lab.call(measure=4)
    lab.measure(RUNS[0])
    lab.said(ENDING)
    assert lab.ends()[-1].endswith("kept; the same call without --again goes on from there.")


def test_each_process_is_a_line_and_a_run_is_ok_if_all_of_its_processes_are(lab: Lab) -> None:
    lab.plan(processes=2)
    lab.call(measure=8)
    lines = list[str]()
    for run in RUNS:
        lines += lab.measure(run)
        lines += lab.measure(run, "error" if run == RUNS[2] else "ok", process=1)
    assert lines[1] == "Measuring 8 processes of 4 runs on the CPU in float32."
    assert " Pytorch B16 N128  H32 E2048 full process 2 " in lines[6]
    lines = lab.ends()
    assert "4 runs in 8 processes: 3 ok, 1 not (1 error)." in lines
    assert "The report shows them as what they are, or by their other processes." in lines


NOTHING = "Nothing to be done (all requested files are present and up to date)."
STARTED = {"event": LogEvent.WORKFLOW_STARTED, "cmd": "snakemake"}
WARNED = {"message": "A disk", "level": logging.WARNING}
ENDING = "Will exit after finishing currently running jobs (scheduler)."
KEPT = "Interrupted. What is finished is kept; the same call goes on from there."
DRY = {"dryrun": True, "stdout": True}
WOULD_MAKE = "Would make:\n  Tables\nThis was a dry run: nothing was measured or made."
REFUSAL = """WorkflowError in file "common.smk", line 47:
Not usable:
  bogus: unknown
  File "common.smk", line 47, in <module>
  File "x", line 1, in f"""
STOPPED = "WorkflowError:\nAt least one job did not complete successfully."


@pytest.mark.parametrize(
    ("events", "settings", "shown"),
    [
        (["Config file x.", failed(REFUSAL)], {}, "error: Not usable:\n  bogus: unknown"),
        ([STARTED, WARNED, failed("Half:\nof it")], {}, "A disk\nHalf:\nof it"),
        ([STARTED, ENDING, ENDING, failed(STOPPED)], {}, f"{ENDING}\n\n{KEPT}"),
        # A dry run goes where Snakemake writes it; what only names other files is no job.
        ([STARTED, job(0, "tables", "x"), job(1, "report_target")], DRY, WOULD_MAKE),
        (["Unlocked working directory."], {"verbose": True}, ""),
    ],
)
def test_what_snakemake_says_is_shown_once_and_nothing_that_matters_is_lost(
    lab: Lab, events: list[Any], settings: dict[str, Any], shown: str
) -> None:
    lab.begin(**settings)
    for told in events:
        lab.tell(**(told if isinstance(told, dict) else {"message": told}))
    lab.handler.close()
    said = lab.capsys.readouterr()
    assert (said.out if settings == DRY else said.err).rstrip("\n") == shown
    assert "" in said
