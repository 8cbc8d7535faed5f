"""One Snakemake call in words: a line for each run that ends, and a summary at the end.

Ratios are of medians, without intervals: the report decides.
"""

from __future__ import annotations

import logging
import math
import os
import re
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from snakemake_interface_logger_plugins.common import LogEvent

from flashlab.analysis.experiment import chosen_metrics
from flashlab.analysis.verdict_changes import CHANGED
from flashlab.benchmarks.registry import BENCHMARKS, DEFAULT
from flashlab.checking.shapes import is_shape
from flashlab.measuring.supervise import is_claimed
from flashlab.numbers import measured, range_of
from flashlab.plan import call, datasets, make, plan_files
from flashlab.records import Measurement, RecordError, read_record
from flashlab.runs import Run
from flashlab.telling.glyphs import cut

MEASURE = "measure"
STAGES = {
    **{"ceilings": "Peak rate and bandwidth of this machine", "measure_counters": "Counters"},
    **{"import_record": "Import", "tables": "Tables", "figures": "Figures of the experiments"},
    **{"observations": "Observations", "report": "Report", "page": "HTML page"},
    **{"freeze": "Recorded dataset", "comparison": "Comparison", "grades": "Grades"},
    **dict.fromkeys(("publish", "publish_grades"), ""),  # of the one before
}
"""The output of each rule, in words. The jobs write to their logs, never to the terminal."""

UP_TO_DATE = "Nothing to do: all of it is up to date."
ADVICE = (
    *("", "Mend what the log names, then make the same call again: what is finished is kept."),
    "All that Snakemake itself had to say is in .snakemake/log/; --verbose prints it.",
)
MEASURED_WIDTH, LONGEST_LINE, TAIL_LINES = 11, 300, 12
"""Characters of a value, and of a message, of which the record has all; lines of a log."""

BEFORE_WORK = ("Config file ", "Assuming unrestricted shared filesystem", "Building DAG of jobs")
"""Messages of Snakemake without an event that tell the reader nothing."""

ENDS_SOON = "Will exit after finishing currently running jobs"
"""Said, maybe twice, once SIGTERM has come."""
JOB_FAILED = re.compile(
    "Exiting because a job execution failed|WorkflowError:\nAt least one job did not"
    "|(.|\n)*CalledProcessError in file"
)
REFUSED = re.compile(r'WorkflowError in file ".*", line \d+:\n((?:.|\n)*?)(?:\n  File ".*)*\n?')
"""A message of ours, between the lines of ours that raise it."""

UNMEASURED: tuple[str, str, Mapping[str, Measurement]] = ("unmeasured", "no readable record", {})
UNPLANNED = plan_files.Plan(DEFAULT.name, DEFAULT.report, make.LOCAL, "", "cpu", "", {})


class Job(NamedTuple):
    """A job of Snakemake: its rule, what it says of itself, its files, and its log, if any."""

    rule: str
    title: str
    outputs: tuple[str, ...]
    log: str


def aligned(runs: Iterable[Run]) -> dict[Run, str]:
    """Each run's words without dtype and device, which a call's runs share: ``Flash2 B16 …``.

    They are padded so that they form columns; blank where a run has a default.
    """
    words: dict[Run, list[str]] = {}
    for run in runs:
        said = iter(run.words)
        stated = ("" if parameter in run.defaulted else next(said) for parameter in run)
        words[run] = [run.implementation, *stated]
    widths = [max(map(len, column)) for column in zip(*words.values(), strict=True)]
    return {run: " ".join(filter(None, map(str.ljust, of, widths))) for run, of in words.items()}


def duration(seconds: float) -> str:
    """A duration, rounded for a reader: ``40 s``, ``12 min``, ``2.5 h``."""
    units = ((90, 1, "{:.0f} s"), (5400, 60, "{:.0f} min"), (math.inf, 3600, "{:.1f} h"))
    return next(said.format(seconds / unit) for below, unit, said in units if seconds < below)


def _plural(count: int, noun: str, plural: str = "s") -> str:
    return f"{count} {noun}{'' if count == 1 else plural}"


def _outputs(jobs: Iterable[Job]) -> list[str]:
    return [path for job in jobs for path in job.outputs]


def _legible(text: str) -> list[str]:
    """The lines of untrusted text that are not blank, safe for a terminal."""
    lines = ("".join(c if c.isprintable() else " " for c in s) for s in text.splitlines())
    return [line.rstrip() for line in lines if line.strip()]


def _logged(log: str) -> list[str]:
    return _legible(Path(log).read_text("utf-8", errors="replace")) if Path(log).is_file() else []


def _outcome(*paths: str) -> tuple[str, str, Mapping[str, Measurement]]:
    """Status, first line of the message and values: of several processes', the first not ok."""
    try:
        for record in map(read_record, map(Path, paths)):
            if record.status != "ok":
                break
    except RecordError:
        return UNMEASURED
    lines = _legible(record.message or "") or [""]
    return record.status, cut(lines[0].strip(), LONGEST_LINE), record.metrics


def _next_steps(rows: Mapping[str, str]) -> list[str]:
    width = max(map(len, rows), default=0) + 1
    return [f"  {what + ':':<{width}}  {command}" for what, command in rows.items()]


class Call:
    """What has happened in a call, and the lines that say so.

    Times are in seconds, paths relative to the pipeline's folder. `words` are those of the command,
    and `command` is what makes its report. `runs` are planned, with their records' files, and
    `names` what lines call these. `counts` are the jobs of each rule; `jobs` those that have begun,
    `running`, by number, `done` or `failed`. It may be `stopped` by an error that is none of a job;
    `withheld` are lines that only repeat a job's.
    """

    def __init__(self, dry_run: bool, format: Callable[[logging.LogRecord], str]) -> None:
        self.dry_run, self.format, self.words = dry_run, format, list[str]()
        self.began: float | None = None
        self.runs, self.names = dict[Run, list[str]](), dict[str, str]()
        self.jobs, self.done, self.failed = list[Job](), list[Job](), list[Job]()
        self.running, self.counts = dict[int, Job](), Counter[str]()
        self.measured_at, self.withheld = list[float](), list[str]()
        self.interrupted = self.stopped = self.nothing_to_do = False
        self.begin(UNPLANNED)

    def begin(self, plan: plan_files.Plan) -> None:
        """Note what a call plans."""
        self.plan, self.benchmark = plan, BENCHMARKS[plan.benchmark]
        self.command = f"./run report {plan.benchmark}".removesuffix(f" {DEFAULT.name}")
        self.compared = [m for m in self.benchmark.compared if not m.optional]
        for entry in plan_files.planned_records(plan.view(plan_files.RECORDS)):
            files = [file["path"] for file in plan_files.process_files(entry)]
            self.runs[Run.of(self.benchmark, entry["run"])] = files
        for run, words in aligned(self.runs).items():
            for n, path in enumerate(self.runs[run], 1):
                self.names[path] = f"{words} process {n}" if self.runs[run][1:] else words

    def lines(self, record: logging.LogRecord) -> list[str]:
        """The lines for an event of Snakemake, or for a message outside these events."""
        told = vars(record)
        match told.get("event"):
            case LogEvent.WORKFLOW_STARTED:
                self.began, self.words = monotonic(), told["cmd"].split()
                self.begin(call.begun or UNPLANNED)
            case LogEvent.RUN_INFO:
                self.counts = Counter(told["stats"])
                if "grades" in self.counts and "publish" not in self.counts:  # runs of no plan
                    self.runs, self.names = {}, {}
            case LogEvent.JOB_INFO:
                rule, outputs = told["rule_name"], tuple(map(str, told["output"]))
                if told["shellcmd"] is not None or outputs:
                    job = Job(rule, told["rule_msg"] or rule, outputs, "".join(told["log"][:1]))
                    self.running[told["jobid"]] = job
                    return self._starting(job)
            case LogEvent.JOB_ERROR:
                self.failed.append(self.running[told["jobid"]])  # it may be tried again
                return [] if self.interrupted else [f"{self.failed[-1].title}: failed"]
            case LogEvent.JOB_FINISHED:
                if ended := self.running.pop(told["job_id"], None):
                    self.done.append(ended)
                    return self._measured(ended) if ended.rule == MEASURE else self._ended(ended)
            case LogEvent.PROGRESS | LogEvent.JOB_STARTED | LogEvent.RESOURCES_INFO:
                pass
            case event:
                return self._others(self.format(record), record.levelno, event)
        return []

    def _others(self, text: str, level: int, event: LogEvent | None) -> list[str]:
        lines = text.splitlines()
        if text.startswith("Nothing to be done"):
            self.nothing_to_do = True
        elif text.startswith(("Terminating processes on user request", ENDS_SOON)):
            is_told, self.interrupted = self.interrupted, True
            return lines if text.startswith(ENDS_SOON) and not is_told else []
        elif JOB_FAILED.match(text):
            self.withheld += lines
        elif level > logging.INFO:
            self.stopped |= event == LogEvent.ERROR
            refused = REFUSED.fullmatch(text)
            return f"error: {refused[1]}".splitlines() if refused else lines
        elif text != "None" if event else self.began is None and not text.startswith(BEFORE_WORK):
            return lines
        return []

    def _counted(self, count: int) -> str:
        """So many of the planned records: ``34 runs``, or ``102 processes of 34 runs``."""
        if len(self.runs) == len(self.names):
            return _plural(count, "run")
        return f"{_plural(count, 'process', 'es')} of {_plural(len(self.runs), 'run')}"

    def _starting(self, job: Job) -> list[str]:
        """The lines before a job that measures: that it waits, and the head of the runs' table."""
        measuring = {"ceilings", MEASURE, "measure_counters"}
        before = {other.rule for other in self.jobs} & measuring
        self.jobs.append(job)
        if job.rule not in measuring or self.dry_run:
            return []
        waits = not before and is_claimed(self.plan.device)
        lines = ["Waiting: another measurement runs on the device."] if waits else []
        if job.rule != MEASURE or MEASURE in before:
            return lines
        runs, total, files = self.runs, self.counts[MEASURE], self.names
        says = f"Measuring {self._counted(total)}"
        for device, dtype in {(run.device, run.dtype) for run in runs}:  # one, of all
            says += f" on the {'GPU' if device == 'cuda' else 'CPU'} in {dtype}"
        if (others := min(sum(map(os.path.exists, files)), len(files) - total)) > 0:
            says += f"; {others} of {len(files)} are measured already"
        sizes = (p for p in self.benchmark.stated(runs) if p.derive is None and not p.is_variant)
        symbols = ", ".join(f"{p.symbol} {p.labels['en']}" for p in sizes)
        heads = ((m.part or m.labels)["en"].lower().rjust(MEASURED_WIDTH) for m in self.compared)
        name = " " * max(map(len, files.values()), default=0)
        head = f"{'run':>{2 * len(str(total)) + 1}} {'left':>6} {name} {' '.join(heads)}"
        return [*lines, "", f"{says}.", f"{symbols}.", "", head]

    def _measured(self, job: Job) -> list[str]:
        """The lines when a run is done: its values or why it has none, and once what is known."""
        self.measured_at.append(monotonic())
        (path,), total, number = job.outputs, self.counts[MEASURE], len(self.measured_at)
        status, reason, metrics = _outcome(path)
        there = ((metrics[m.name].value, m.unit) for m in self.compared if m.name in metrics)
        cells = (f"{measured(value)} {unit}".rjust(MEASURED_WIDTH) for value, unit in there)
        says = " ".join(cells) or f"{status}: {reason}"
        name, count = self.names.get(path, Path(path).stem), f"{number:>{len(str(total))}}/{total}"
        late = sum(time - (self.began or 0.0) >= 50 for time in self.measured_at)  # seconds
        so_far = self._so_far() if late == 1 and number < total else []
        return [f"{count} {self._left():>6} {name} {says}", *so_far]

    def _ended(self, job: Job) -> list[str]:
        """The lines when a job that measures no run is done: the last of its rule says so."""
        total = self.counts.get(job.rule, 1)
        if sum(other.rule == job.rule for other in self.done) < total:
            return []
        title = STAGES.get(job.rule, job.title)
        lines = [f"{title}: done" if total == 1 else f"{title}: {total} done"] if title else []
        return lines + (_logged(job.log)[-1:] if job.rule in ("freeze", "grades") else [])

    def _left(self) -> str:
        """The time left to measure, if known: not from the first run, which imports torch."""
        times, total = self.measured_at, self.counts[MEASURE]
        if not 2 <= len(times) < total:
            return ""
        return duration((total - len(times)) * (times[-1] - times[0]) / (len(times) - 1))

    def _so_far(self) -> list[str]:
        """The ratios so far, of a total where there is one: a line an experiment that has any."""
        benchmark, lines, speeds = self.benchmark, list[str](), defaultdict[str, Any](dict)
        (*_, metric) = chosen_metrics(benchmark)
        names, sign = benchmark.measured_behind(metric.name), 1 if metric.higher_is_better else -1
        for run, files in self.runs.items():
            _, _, metrics = _outcome(files[0])
            if metrics.keys() >= {*names} and run.device not in benchmark.simulated:
                parts = [metrics[name].value for name in names]
                value = metric.derived.compute(run, *parts) if metric.derived else parts[0]
                speeds[run.implementation][run.parameters] = value**sign
        for plan in self.plan.view(plan_files.EXPERIMENTS).values():
            settings = {Run.of(benchmark, row).parameters for row in plan["runs"]}
            base, said = speeds[plan["baseline"]], list[str]()
            for name in (each["name"] for each in plan["implementations"] if plan["sweep"]):
                if name != plan["baseline"] and (both := settings & base.keys() & {*speeds[name]}):
                    ratios = range_of([speeds[name][each] / base[each] for each in both], " to ")
                    said.append(f"{name} {ratios}× at {len(both)} of {len(settings)} settings")
            if said:
                title = self.plan.view(plan_files.TITLES)[plan["name"]]["en"]
                lines.append(f"  {title}: {'; '.join(said)}")
        of = f"{plan['baseline']}'s ({metric.labels['en']})" if lines else ""
        head = f"So far, from one process of each run, the speed as a multiple of {of}:"
        return lines and [head, *lines]

    def activity(self) -> str:
        """How much is done, and the current job; nothing if a job itself writes to the terminal."""
        jobs = [job for job in self.running.values() if job not in self.failed]
        if not jobs or {job.rule for job in jobs} - {*STAGES, MEASURE} or self.interrupted:
            return ""
        words, path = jobs[-1].title, "".join(jobs[-1].outputs)
        if jobs[-1].rule == MEASURE:
            words = " ".join(["Measuring", *self.names.get(path, Path(path).stem).split()])
            words += f", about {left} of measuring left" if (left := self._left()) else ""
        return f"{len(self.done)}/{self.counts['total']} steps {words}"

    def summary(self) -> list[str]:
        """The lines when the call is over."""
        begun, report = _outputs(self.jobs), f"report/{self.plan.report}.pdf"
        is_asked, is_there = report in [*begun, *self.words], Path(report).is_file()
        if self.interrupted:
            is_new = self.plan.config.get("again", []) not in ([], "blocks", ["blocks"])
            kept = f"kept; the same call{' without --again' * is_new} goes on from there."
            if not self.runs or not any(path.startswith(f"{self.plan.home}/") for path in begun):
                return ["", f"Interrupted. What is finished is {kept}"]
            ended, of = self.names.keys() - _outputs(self.running.values()), len(self.names)
            there = sum(_outcome(path) != UNMEASURED for path in ended)
            return ["", f"Interrupted, with {there} of {self._counted(of)} measured and {kept}"]
        lines = [UP_TO_DATE] if self.nothing_to_do else []
        if self.began is None or (self.dry_run and lines):
            return lines or self.withheld
        if self.dry_run:
            stages = Counter(job.rule for job in self.jobs)
            if count := stages.pop(MEASURE, 0):
                files = _outputs(job for job in self.jobs if job.rule == MEASURE)
                by = Counter(re.split("[ -]", self.names.get(p, Path(p).stem))[0] for p in files)
                named = ", ".join(f"{by[name]} {name}" for name in sorted(by))
                lines.append(f"Would measure {self._counted(count)}: {named}.")
            lines += ["Would make:"] if stages else []
            for rule in [*STAGES, *(stages.keys() - STAGES)]:
                if stages[rule] and (title := STAGES.get(rule, rule)):
                    lines.append(f"  {title}" + (f" ({stages[rule]})" if stages[rule] > 1 else ""))
            return [*lines, "This was a dry run: nothing was measured or made."]
        if self.failed or self.stopped or self.withheld:
            failed = [job for job in self.failed if job.rule != "verify"]  # it prints its own
            lines = ["", f"{_plural(len(failed), 'job')} failed:"] if failed else []
            tails: list[list[str]] = [[]]
            for job in failed:
                tail = _logged(job.log)[-TAIL_LINES:]
                state = "ends in the same lines" if tail in tails else "ends:"
                lines += [f"  {job.title}", f"    {job.log} {state if tail else 'is empty'}"]
                lines += [f"      | {line}" for line in tail if tail not in tails]
                tails.append(tail)
            if is_asked and is_there and report not in _outputs(self.done):
                when = datetime.fromtimestamp(Path(report).stat().st_mtime)
                lines += ["", f"{report} is still the old report, made on {when:%Y-%m-%d %H:%M}."]
            return lines + ([*ADVICE] if failed else [] if self.failed else self.withheld)
        lines += self._statuses() if is_asked or self.measured_at else []
        written = (path for path in _outputs(self.done) if path.startswith("report/"))
        lines += [f"{path} is written." for path in written if path != report]
        lines += self._shown(report) if is_asked and is_there else []
        return lines and ["", *(lines if lines[-1] else lines[:-1])]

    def _statuses(self) -> list[str]:
        """The counts of the planned runs by status; of local runs that are not ok, the names."""
        runs, processes = self.runs, len(self.names)
        total = _plural(len(runs), "run") + f" in {processes} processes" * (processes > len(runs))
        bad = {run: of for run, files in runs.items() if (of := _outcome(*files))[0] != "ok"}
        if not bad:
            return [f"{total}: all ok.", ""] if runs else []
        statuses = [status for status, _, _ in bad.values()]
        counts = ", ".join(f"{count} {status}" for status, count in Counter(statuses).items())
        lines = [f"{total}: {len(runs) - len(bad)} ok, {len(bad)} not ({counts})."]
        steps, rest = {}, ", or by their other processes" * (processes > len(runs))
        bad, width = bad if self.plan.dataset == make.LOCAL else {}, max(map(len, statuses))
        lines += [f"  {s}  {bad[r][0]:<{width}}  {bad[r][1]}" for r, s in aligned(bad).items()]
        # Out of memory and unsupported are properties of the run.
        if faulty := [run for run in bad if bad[run][0] in ("incorrect", "error")]:
            steps["their logs"] = f"{self.plan.home}/logs/measure/"
            again = dict[str, None]()  # in this order
            for run in faulty:
                name, shape = run.implementation, ",".join(run.words)
                at = f" --shape {shape} --dtype {run.dtype}" if is_shape(shape) else ""
                steps.setdefault(f"look into {name}", f"./run check {name}{at}")
                again[name if len(faulty) > 3 else "-".join([name, *run.words]).lower()] = None
            steps["measure again"] = f"the same call with --again {' '.join(again)}"
        return [*lines, f"The report shows them as what they are{rest}.", *_next_steps(steps), ""]

    def _shown(self, pdf: str) -> list[str]:
        """The report's path, its dataset, its changed verdicts, and the next commands."""
        import pikepdf  # needed only at the end, if there is a report

        with pikepdf.open(pdf) as opened:
            pages = _plural(len(opened.pages), "page")
        logged = _logged(f"{self.plan.home}/logs/report.log")
        is_local, is_new = self.plan.dataset == make.LOCAL, "report" in {j.rule for j in self.jobs}
        changed = [s.removeprefix(CHANGED) for s in logged if is_new and s.startswith(CHANGED)]
        of = "this machine's records" if is_local else f"the dataset {self.plan.dataset}"
        lines = [line for line in logged if line.startswith("warning: ")]
        lines += [*"\n  ".join(changed).splitlines(), f"{pdf} ({pages}) shows {of}."]
        opener = "open" if sys.platform == "darwin" else "xdg-open"
        steps = {"open it": f"{opener} {pdf}"} if shutil.which(opener) else {}
        own = plan_files.results_of(make.LOCAL, self.benchmark) / Path(pdf).name
        if is_local and datasets.dataset_folder(make.DATA, "h200", self.benchmark).is_dir():
            steps["see an H200's report"] = f"{self.command} --config dataset=h200"
        elif not is_local and own.is_file():
            lines.append(f"The report on this machine's records is kept as {own}.")
            steps["show that one again"] = self.command
        return lines + _next_steps(steps)
