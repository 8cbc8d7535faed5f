"""The lines that a call prints: the events of Snakemake, by hand, in a folder of records."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pikepdf
import pytest
from planted.records import record_of
from snakemake.logging import DefaultFilter, DefaultFormatter
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.tests import MockOutputSettings, TestLogHandlerBase

import snakemake_logger_plugin_flashlab as plugin
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import implementations_of
from flashlab.checking.shapes import is_shape
from flashlab.plan import call as calls
from flashlab.plan.datasets import Entry
from flashlab.plan.experiments import Experiment
from flashlab.plan.plan_files import RECORDS
from flashlab.plan.runs import Planned
from flashlab.plan.views import views_of
from flashlab.records import Measurement, write_record
from flashlab.runs import Run
from flashlab.terminal import lines as words
from flashlab.terminal.lines import ADVICE, LONGEST_LINE, MEASURE, STAGES, UNPLANNED, UP_TO_DATE


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with nothing in it; the handling of interrupts is restored after a test."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestInterface(TestLogHandlerBase):
    __test__ = True

    def get_log_handler_cls(self) -> type[LogHandlerBase]:
        return plugin.LogHandler

    def get_log_handler_settings(self) -> Any:
        return None


def handler(**settings: Any) -> plugin.LogHandler:
    common = MockOutputSettings()
    vars(common).update(settings)
    made = plugin.LogHandler(common, None)
    made.addFilter(DefaultFilter(set(), False, common.verbose, False, False))
    made.setFormatter(DefaultFormatter(set(), False))
    assert made.writes_to_stream != settings.get("verbose", False)
    return made


def tell(to: plugin.LogHandler, message: str = "", **told: Any) -> None:
    record = logging.LogRecord(
        "snakemake", told.pop("level", logging.INFO), "", 0, message, (), None
    )
    vars(record).update(told)
    to.handle(record)


def job(number: int, rule: str, *output: str, title: str = "", log: str = "") -> dict[str, Any]:
    said = {"jobid": number, "rule_name": rule, "rule_msg": title or None, "shellcmd": None}
    return {**said, "event": LogEvent.JOB_INFO, "output": output, "log": [log] if log else []}


def run_of(implementation: str, seq_len: int) -> Run:
    return attention_run(implementation, Shape(16, seq_len, 32, 2048, False), "float32", "cpu")


RUNS = [run_of(name, n) for n in (128, 1024) for name in ("Pytorch", "Flash2")]


class Lab:
    """A folder with the plan of four runs, the lines of a call, and a clock wound by hand."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        dataset: str = "local",
        processes: int = 1,
    ) -> None:
        self.capsys, self.home = capsys, f"results/{dataset}"
        self.seconds, self.claimed = 0.0, False
        planned = [
            {
                **{"run": run.to_json(), "path": self.path(run)},
                "replicates": [{"path": self.path(run, i)} for i in range(1, processes)],
            }
            for run in RUNS
        ]
        records = {"experiments": {"summary": planned}}
        self.views: dict[str, Any] = {f"{self.home}/{RECORDS}": records}
        self.plan = replace(UNPLANNED, dataset=dataset, home=self.home, views=self.views)
        monkeypatch.setattr(words, "monotonic", lambda: self.seconds)
        monkeypatch.setattr(words, "is_claimed", lambda device: self.claimed and device == "cpu")
        self.begin_with = partial(monkeypatch.setattr, calls, "begun")

    def path(self, run: Run, process: int = 0) -> str:
        return f"{self.home}/records/{run.slug}-{process}123456789ab.json"

    def call(self, dry_run: bool = False, **counts: int) -> None:
        self.begin_with(self.plan)
        self.handler = handler(dryrun=dry_run)
        said = "snakemake --cores 1 report/lab5.pdf"
        self.said(event=LogEvent.WORKFLOW_STARTED, cmd=said)
        self.said(event=LogEvent.RUN_INFO, stats={**counts, "total": sum(counts.values())})

    def said(self, message: str = "", **told: Any) -> list[str]:
        """The lines about an event."""
        tell(self.handler, message, **told)
        return self.capsys.readouterr().err.splitlines()

    def done(self, number: int) -> list[str]:
        return self.said(event=LogEvent.JOB_FINISHED, job_id=number)

    def ends(self) -> list[str]:
        """The summary."""
        self.handler.close()
        return self.capsys.readouterr().err.splitlines()

    def job(self, run: Run, process: int = 0) -> dict[str, Any]:
        number, title = RUNS.index(run) + 50 * process, f"Measuring {run.slug}"
        return job(number, MEASURE, self.path(run, process), title=title)

    def record(self, run: Run, status: str = "ok", process: int = 0, **inner: Any) -> None:
        document = record_of(run, status, sources={"process": process}, **inner)
        write_record(Path(self.path(run, process)), document)

    def measure(self, run: Run, *told: str, process: int = 0, **inner: Any) -> list[str]:
        """The lines about a job that takes ten seconds."""
        begun = self.job(run, process)
        lines = self.said(**begun)
        self.seconds += 10
        self.record(run, *told, process=process, **inner)
        return [*lines, *self.done(begun["jobid"])]

    def report(self, pages: int = 3) -> list[str]:
        """The lines about the job that makes the PDF, and the summary."""
        Path("report").mkdir(exist_ok=True)
        with pikepdf.new() as pdf:
            for _ in range(pages):
                pdf.add_blank_page()
            pdf.save("report/lab5.pdf")
        self.said(**job(99, "report", "report/lab5.pdf", title="Rendering the report"))
        return [*self.done(99), *self.ends()]


Planted = Callable[..., Lab]


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Planted:
    return partial(Lab, monkeypatch, capsys)


@pytest.fixture
def lab(planted: Planted) -> Lab:
    return planted()


def test_a_call_is_a_line_for_each_run_and_stage_and_a_summary(lab: Lab) -> None:
    lab.record(RUNS[3])
    Path("freeze.log").write_text("data/x now holds these records\n")
    Path("data/h200").mkdir(parents=True)
    lab.call(measure=3, tables=2, freeze=1, report=1)
    lines = lab.measure(RUNS[0])
    times = {"forward": (0.0071,) * 12, "backward": (0.0189,) * 12}
    lines += lab.measure(RUNS[1], **times, peak=1288.0)
    lines += lab.measure(RUNS[2])
    for number, rule in enumerate(("tables", "tables", "freeze"), 10):
        lines += lab.said(**job(number, rule, "x", log="freeze.log"))
        lines += lab.done(number)
    said = "\n".join([*lines, *lab.report(pages=1)])
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
    assert said.endswith("./run report --config dataset=h200")


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
    lab.views |= views_of(ATTENTION, kernels, config, home, experiments, planned)
    said = list[list[str]]()
    lab.call(measure=4)
    for run, factor in zip(RUNS, (1.0, 0.5, 1.0, 0.5), strict=True):
        times = {"forward_time": factor, "backward_time": 2 * factor, "peak_memory": 1.0}
        metrics = {name: Measurement(value, stopped="count") for name, value in times.items()}
        said.append(lab.measure(run, metrics=metrics))
        lab.seconds += 15
    assert said[2][-2:] == [
        "So far, from one process of each run, the speed as a multiple of Pytorch's (total time):",
        "  Sequence length: Flash2 2.00× at 1 of 2 settings",
    ]
    assert not any("So far" in line for i in (0, 1, 3) for line in said[i])


@pytest.mark.parametrize(
    ("status", "message", "end"),
    [
        ("oom", "\n no memory\x1b[2J for this\nmore", "no memory [2J for this"),
        ("error", "x" * 20_000, "x" * (LONGEST_LINE - 1) + "…"),
    ],
)
def test_a_run_that_failed_says_why_in_the_first_line_of_its_message(
    lab: Lab, status: str, message: str, end: str
) -> None:
    lab.call(measure=1)
    assert lab.measure(RUNS[0], status, message=message)[-1].endswith(f"full {status}: {end}")


def test_a_call_that_waits_for_the_device_says_so_once(lab: Lab) -> None:
    lab.claimed, waiting = True, ["Waiting: another measurement runs on the device."]
    lab.call(ceilings=1, measure=2)
    assert lab.said(**job(9, "ceilings", "x")) == waiting
    lab.done(9)
    assert waiting[0] not in lab.measure(RUNS[0])
    lab.claimed = False
    lab.call(ceilings=1)
    assert lab.said(**job(9, "ceilings", "x")) == []


def test_nothing_is_estimated_from_the_first_run_which_imports_torch(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal shows below the lines what is done."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")

    def begun(**told: Any) -> str:
        return lab.said(**told)[-1].removeprefix("\x1b[K")

    lab.call(measure=4, verify=1)
    lab.measure(RUNS[0])
    assert begun(**lab.job(RUNS[1])) == "1/5 steps Measuring Flash2 B16 N128 H32 E2048 full"
    lab.measure(RUNS[1])
    named = "2/5 steps Measuring Pytorch B16 N1024 H32 E2048 full"
    assert begun(**lab.job(RUNS[2])) == f"{named}, about 20 s of measuring left"
    assert begun(**job(9, "verify", "x", title="Verifying")) == ""  # it writes there itself


def test_the_summary_names_each_run_that_is_not_ok_and_what_to_do(lab: Lab) -> None:
    lab.record(RUNS[0], "oom", message="out of memory")
    lab.record(RUNS[1])
    lab.record(RUNS[2], "unsupported", message="no such size")
    lab.call(measure=1, report=1)
    lab.measure(RUNS[3], "error", message="RuntimeError: it broke")
    assert "\n".join(lab.ends()) == (
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
    lab.call()
    lab.said("Nothing to be done (all requested files are present and up to date).")
    lines = lab.ends()
    assert lines[1:3] == [UP_TO_DATE, "4 runs: 0 ok, 4 not (4 incorrect)."]
    assert lines[-1].endswith("./run report --again Pytorch Flash2")


def test_a_failed_job_is_named_with_the_end_of_its_log_and_the_old_report(lab: Lab) -> None:
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
    said = lab.ends()
    assert said[:4] == ["", "2 jobs failed:", "  Tabulating seq_len", "    tables.log ends:"]
    assert said[4:16] == [f"      | {line}" for line in [*lines[-11:], "error: no space left"]]
    assert said[16:20] == [
        *("  Tabulating causal", "    tables.log ends in the same lines", ""),
        "report/lab5.pdf is still the old report, made on 1970-01-01 00:00.",
    ]
    assert said[20:] == [*ADVICE]


def test_an_interrupted_call_says_what_is_kept_in_one_line(lab: Lab) -> None:
    lab.call(measure=4)
    lab.measure(RUNS[0])
    begun = lab.job(RUNS[1])
    lab.said(**begun)
    lab.said("Terminating processes on user request, this might take some time.")
    assert lab.said(**{**begun, "event": LogEvent.JOB_ERROR}) == []
    said = "Interrupted: 1 of 4 runs is measured and kept; the same call goes on from there."
    assert lab.ends() == ["", said]


def test_an_error_outside_any_job_is_not_followed_by_a_success(lab: Lab) -> None:
    for run in RUNS:
        lab.record(run)
    lab.call(report=1)
    assert "4 runs: all ok." in lab.report()
    lab.call(report=1)
    lab.said(**job(99, "report", "report/lab5.pdf"))
    assert lab.said("no", level=logging.ERROR, **ERROR) == ["no"]
    said = "\n".join(lab.ends())
    assert "old report" in said and "all ok" not in said


def test_every_rule_that_is_silent_has_a_title(root: Path) -> None:
    rules = "".join(path.read_text() for path in (root / "workflow" / "rules").glob("*.smk"))
    blocks = re.split(r"^ *(?:checkpoint|rule) (\w+):\n", rules, flags=re.MULTILINE)
    bodies = dict(zip(blocks[1::2], blocks[2::2], strict=True))
    assert {name for name in bodies if "> {log" in bodies[name]} - STAGES.keys() == {MEASURE}


@pytest.mark.parametrize(
    ("status", "summary"), [("ok", "all ok"), ("error", "3 ok, 1 not (1 error)")]
)
def test_each_process_is_a_line_and_a_run_is_ok_if_all_of_its_processes_are(
    planted: Planted, status: str, summary: str
) -> None:
    lab, lines = planted(processes=2), list[str]()
    lab.call(measure=8)
    for run in RUNS:
        lines += lab.measure(run)
        lines += lab.measure(run, status if run == RUNS[2] else "ok", process=1)
    assert lines[1] == "Measuring 8 processes of 4 runs on the CPU in float32."
    assert " Pytorch B16 N128  H32 E2048 full process 1 " in lines[5]
    assert " Pytorch B16 N128  H32 E2048 full process 2 " in lines[6]
    assert f"4 runs in 8 processes: {summary}." in lab.ends()


def test_runs_are_columns_with_blanks_where_one_has_a_default() -> None:
    shared = attention_run("Flash2", Shape(1, 64, 32, 2048, True, 8), "float16", "cuda")
    assert list(words.aligned([RUNS[0], shared]).values()) == [
        "Pytorch B16 N128 H32       E2048 full  ",
        "Flash2  B1  N64  H32 H_kv8 E2048 causal",
    ]
    assert is_shape(",".join(shared.words)), "so that ./run check can be told it"


Told = tuple[str, dict[str, Any]]
ERROR = {"event": LogEvent.ERROR, "exception": "X"}
STARTED: Told = ("", {"event": LogEvent.WORKFLOW_STARTED, "cmd": "snakemake"})
NOTHING: Told = ("Nothing to be done (all requested files are present and up to date).", {})
TERMINATED: Told = ("Will exit after finishing currently running jobs (scheduler).", {})
KEPT = "\nInterrupted. What is finished is kept; the same call goes on from there.\n"
NOT_MADE = "This was a dry run: nothing was measured or made.\n"


def failed(text: str) -> Told:
    return text, {"level": logging.ERROR, **ERROR}


@pytest.mark.parametrize(
    ("events", "settings", "out", "err"),
    [
        (
            [
                ("Config file config/config.yaml is extended by additional config.", {}),
                failed(
                    'WorkflowError in file "common.smk", line 47:\nNot usable:\n  bogus: unknown\n'
                    '  File "common.smk", line 47, in <module>\n  File "x", line 1, in f'
                ),
            ],
            *({}, "", "error: Not usable:\n  bogus: unknown\n"),
        ),
        (
            [STARTED, ("Waiting for a disk", {"level": logging.WARNING}), failed("Half:\nof it")],
            *({}, "", "Waiting for a disk\nHalf:\nof it\n"),
        ),
        (
            [STARTED, TERMINATED, TERMINATED, failed("WorkflowError:\nAt least one job did not")],
            *({}, "", f"{TERMINATED[0]}\n{KEPT}"),
        ),
        # A dry run goes where Snakemake writes it; what only names other files is no job.
        ([STARTED, NOTHING], {"dryrun": True, "stdout": True}, f"{UP_TO_DATE}\n", ""),
        (
            [STARTED, ("", job(0, "tables", "runs.csv")), ("", job(1, "report_target"))],
            *({"dryrun": True, "stdout": True}, f"Would make:\n  Tables\n{NOT_MADE}", ""),
        ),
        ([("Unlocked working directory.", {})], {"verbose": True}, "", ""),
    ],
)
def test_what_snakemake_says_is_shown_once_and_nothing_that_matters_is_lost(
    capsys: pytest.CaptureFixture[str],
    events: list[Told],
    settings: dict[str, Any],
    out: str,
    err: str,
) -> None:
    to = handler(**settings)
    for message, told in events:
        tell(to, message, **told)
    to.close()
    assert capsys.readouterr() == (out, err)
