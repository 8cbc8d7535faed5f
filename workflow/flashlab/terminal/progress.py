"""One Snakemake call in words: a line for each run that ends, and a summary at the end.

A `CallProgress` takes the events of a call and returns the lines to print. It knows nothing about
Snakemake's events or terminals. Ratios are of medians, without intervals: the report decides.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from flashlab.analysis.verdict_changes import CHANGED
from flashlab.benchmarks.registry import BENCHMARKS, DEFAULT
from flashlab.checking.shapes import is_shape
from flashlab.files import read_json
from flashlab.numbers import measured, range_of
from flashlab.plan.datasets import dataset_folder
from flashlab.plan.identity import DIGITS
from flashlab.plan.make import DATA, LOCAL
from flashlab.plan.plan_files import planned_documents, process_files, results_of
from flashlab.plan.value import Plan
from flashlab.records import Record, RecordError, parse_record
from flashlab.runs import Run
from flashlab.telling.glyphs import cut

SO_FAR_SECONDS = 50.0
"""Seconds after which a call that is still measuring prints its first ratios."""

MEASURE = "measure"
MEASURING = {"ceilings", MEASURE, "measure_counters"}
"""The rules whose jobs wait for the device."""

STAGES = {
    "ceilings": "Peak rate and bandwidth of this machine",
    "measure_counters": "Counters",
    "import_record": "Import",
    "tables": "Tables",
    "figures": "Figures of the experiments",
    "observations": "Observations",
    "report": "Report",
    "page": "HTML page",
    "freeze": "Recorded dataset",
    "comparison": "Comparison",
    "grades": "Grades",
    # Copies: the line about the source is enough
    **dict.fromkeys(("publish", "publish_pdf", "publish_grades"), ""),
}
"""The output of each rule, in words. The jobs write to their logs, never to the terminal."""

RESULT_IN_LOG = ("freeze", "grades")
"""Rules whose log ends in a line with the result."""

WAITING = "Waiting: another measurement runs on the device."
UP_TO_DATE = "Nothing to do: all of it is up to date."
ADVICE = (
    *("", "Mend what the log names, then make the same call again: what is finished is kept."),
    "All that Snakemake itself had to say is in .snakemake/log/; --verbose prints it.",
)
MEASURED_WIDTH, TAIL_LINES = 11, 12
LONGEST_LINE = 300
"""Characters of a record's message that a line shows; the record has all of it."""

UNPLANNED = Plan(DEFAULT.name, DEFAULT.report, LOCAL, f"results/{LOCAL}", "cpu", "", {})
"""The plan of a call that has none, or none yet."""


class Job(NamedTuple):
    """A job of Snakemake: its rule, what it says of itself, and its files."""

    id: int
    rule: str
    title: str = ""
    outputs: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()


def legible_lines(text: str) -> list[str]:
    """The lines of untrusted text that are not blank, safe for a terminal."""
    lines = ("".join(c if c.isprintable() else " " for c in s) for s in text.splitlines())
    return [line.rstrip() for line in lines if line.strip()]


def reason(record: Record) -> str:
    """The first line of a record's message that is not blank, at most `LONGEST_LINE` of it."""
    lines = legible_lines(record.message or "")
    return cut(lines[0].strip() if lines else "", LONGEST_LINE)


def duration(seconds: float) -> str:
    """A duration, rounded for a reader: ``40 s``, ``12 min``, ``2.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def plural(count: int, noun: str, plural: str = "s") -> str:
    """``1 run``, ``2 runs``."""
    return f"{count} {noun}{'' if count == 1 else plural}"


def check_of(run: Run) -> str:
    """The call that checks an implementation at a run's shape, or at all where that is no shape."""
    shape = ",".join(run.words)
    at = f" --shape {shape} --dtype {run.dtype}" if is_shape(shape) else ""
    return f"./run check {run.implementation}{at}"


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
    return {
        run: " ".join(word.ljust(width) for word, width in zip(of, widths, strict=True) if width)
        for run, of in words.items()
    }


def read_outcome(path: Path) -> Record | None:
    """The record in a file; None where there is none that can be read."""
    try:
        return parse_record(read_json(path), str(path))
    except (OSError, ValueError, RecordError):
        return None


def status_of(record: Record | None) -> str:
    """A record's status, or ``unmeasured``."""
    return record.status if record else "unmeasured"


def _outputs(jobs: Iterable[Job]) -> list[str]:
    return [path for job in jobs for path in job.outputs]


def _next_steps(rows: Mapping[str, str]) -> list[str]:
    width = max(map(len, rows), default=0) + 1
    return [f"  {what + ':':<{width}}  {command}" for what, command in rows.items()]


class CallProgress:
    """The state of one call in the pipeline's folder; `clock` gives seconds.

    `is_claimed` is True for a kind of device on which other processes measure.

    The caller sets `steps` (done, total), and the flags `interrupted` (by the user), `stopped` (by
    an error other than a failed job) and `nothing_to_do`. `failed` are the jobs that have.
    """

    def __init__(
        self,
        root: Path,
        is_claimed: Callable[[str], bool],
        dry_run: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root, self._is_claimed, self._dry_run, self._clock = root, is_claimed, dry_run, clock
        self._jobs, self._running = dict[int, Job](), dict[int, Job]()
        self._done, self.failed = list[Job](), list[Job]()
        self._measured_at, self._told_ratios = list[float](), False
        self.plans({"total": 0})
        self.begins("", None)
        self.began = self.interrupted = self.stopped = self.nothing_to_do = False

    # Events

    def begins(self, command: str, plan: Plan | None) -> None:
        """Note that Snakemake starts; `command` is its command line, `plan` the call's plan."""
        self.began, self._since, self._plan = True, self._clock(), plan or UNPLANNED
        self._is_local = self._plan.dataset == LOCAL
        self._benchmark = next(b for b in BENCHMARKS.values() if b.report == self._plan.report)
        self._metrics = [metric for metric in self._benchmark.compared if not metric.optional]
        self._report = f"report/{self._plan.report}.pdf"
        self._asks_report = self._report in command.split()
        name = "" if self._benchmark == DEFAULT else f" {self._benchmark.name}"
        self._report_call = f"./run report{name}"
        self._planned, self._names, processes = dict[str, Run](), dict[str, str](), Counter[Run]()
        for entry in planned_documents(self._plan.views):
            run = Run.of(self._benchmark, entry["run"])
            self._planned |= {file["path"]: run for file in process_files(entry)}
        names = aligned(self._planned.values())
        for path, run in self._planned.items():
            processes[run] += 1
            process = f" process {processes[run]}" if len(self._planned) > len(names) else ""
            self._names[path] = names[run] + process
        self._runs = len(names)

    def plans(self, counts: Mapping[str, int]) -> None:
        """Note the number of jobs of each rule, and of all as ``total``."""
        self._counts, self.steps = counts, (0, counts["total"])
        self._total = counts.get(MEASURE, 0)

    def starts(self, job: Job) -> list[str]:
        """The lines to print when a job starts, or would start."""
        before = {other.rule for other in self._jobs.values()}
        self._jobs[job.id] = self._running[job.id] = job
        if job.rule not in MEASURING or self._dry_run:
            return []
        waits = not before & MEASURING and self._is_claimed(self._plan.device)
        is_first = job.rule == MEASURE and MEASURE not in before
        return [*([WAITING] if waits else []), *(self._heading() if is_first else [])]

    def finishes(self, job_id: int) -> list[str]:
        """The lines to print when a job is done."""
        if (job := self._running.pop(job_id, None)) is None:
            return []
        self._done.append(job)
        if job.rule == MEASURE:
            self._measured_at.append(self._clock())
            return [self._run_line(job), *self._so_far()]
        total = self._counts.get(job.rule, 1)
        if sum(other.rule == job.rule for other in self._done) < total:
            return []
        title, done = STAGES.get(job.rule, job.title), "done" if total == 1 else f"{total} done"
        result = self._log(*job.logs)[-1:] if job.rule in RESULT_IN_LOG else []
        return [*([f"{title}: {done}"] if title else []), *result]

    def fails(self, job: Job) -> list[str]:
        """The lines to print when a job has failed; jobs that do not depend on it continue."""
        self._running.pop(job.id, None)
        self.failed.append(known := self._jobs.get(job.id, job))
        return [] if self.interrupted else [f"{known.title}: failed"]

    def activity(self) -> str | None:
        """The current job in a few words; None if a job itself writes to the terminal."""
        jobs, silent = [*self._running.values()], {*STAGES, MEASURE}
        if not jobs or self._dry_run or self.interrupted or {job.rule for job in jobs} - silent:
            return None
        if jobs[-1].rule != MEASURE:
            return jobs[-1].title
        left, words = self._left(), f"Measuring {' '.join(self._name(jobs[-1]).split())}"
        return words + (f", about {left} of measuring left" if left else "")

    # Runs

    def _heading(self) -> list[str]:
        """The lines that announce the measuring, and the head of the table of runs."""
        says = f"Measuring {self._counted(self._total)}"
        kinds = {(run.device, run.dtype) for run in self._planned.values()}
        for device, dtype in kinds if len(kinds) == 1 else ():
            says += f" on the {'GPU' if device == 'cuda' else 'CPU'} in {dtype}"
        there = sum(self._root.joinpath(path).exists() for path in self._planned)
        if (others := min(there, len(self._planned) - self._total)) > 0:
            says += f"; {others} of {len(self._planned)} are measured already"
        stated = self._benchmark.stated(self._planned.values())
        sizes = (p for p in stated if p.derive is None and not p.is_variant)
        symbols = ", ".join(f"{p.symbol} {p.labels['en']}" for p in sizes)
        headings = ((metric.part or metric.labels)["en"].lower() for metric in self._metrics)
        columns = " ".join(f"{heading:>{MEASURED_WIDTH}}" for heading in headings)
        name = " " * max(map(len, self._names.values()), default=0)
        head = f"{'run':>{2 * len(str(self._total)) + 1}} {'left':>6} {name} {columns}"
        return ["", f"{says}.", f"{symbols}.", "", head]

    def _counted(self, count: int) -> str:
        """So many of the planned records: ``34 runs``, or ``102 processes of 34 runs``."""
        if self._runs == len(self._planned):
            return plural(count, "run")
        return f"{plural(count, 'process', 'es')} of {plural(self._runs, 'run')}"

    def _left(self) -> str:
        """The remaining time of measuring; empty if there is none or it cannot be estimated.

        The first run is no guide: it imports torch for all.
        """
        done = len(self._measured_at)
        if done < 2 or done >= self._total:
            return ""
        pace = (self._measured_at[-1] - self._measured_at[0]) / (done - 1)
        return duration((self._total - done) * pace)

    def _name(self, job: Job) -> str:
        (path,) = job.outputs
        return self._names.get(path) or re.sub(rf"-[0-9a-f]{{{DIGITS}}}$", "", Path(path).stem)

    def _run_line(self, job: Job) -> str:
        done = f"{len(self._measured_at):>{len(str(self._total))}}/{self._total}"
        record, says = read_outcome(self._root / job.outputs[0]), "its record is unreadable"
        if record:
            there = [m for m in self._metrics if m.name in record.metrics]
            values = ((record.metrics[m.name].value, m.unit) for m in there)
            cells = " ".join(f"{measured(x)} {unit}".rjust(MEASURED_WIDTH) for x, unit in values)
            says = cells or f"{record.status}: {reason(record)}"
        return f"{done} {self._left():>6} {self._name(job)} {says}"

    def _outcomes(self) -> dict[Run, Record | None]:
        """The record of each planned run: of several processes', the first which is not ok."""
        outcomes: dict[Run, Record | None] = {}
        for path, run in self._planned.items():
            if run not in outcomes or status_of(outcomes[run]) == "ok":
                outcomes[run] = read_outcome(self._root / path)
        return outcomes

    def _so_far(self) -> list[str]:
        """The ratios so far, a line for each experiment that has any.

        Once, after `SO_FAR_SECONDS`, if runs are left to measure. Implementations are compared by a
        total where the benchmark has one.
        """
        is_late = self._clock() - self._since >= SO_FAR_SECONDS
        if self._told_ratios or not is_late or len(self._measured_at) >= self._total:
            return []
        self._told_ratios, lines = True, list[str]()
        sampled = [metric for metric in self._metrics if not metric.exact]
        metric = next(iter([*self._benchmark.totals, *sampled[-1:]]), None)
        devices = {run.device for run in self._planned.values()}
        if metric is None or devices & self._benchmark.simulated:
            return []
        names, speeds = metric.derived.of if metric.derived else (metric.name,), dict[Run, float]()
        for run, record in self._outcomes().items():
            if record and record.metrics.keys() >= {*names}:
                parts = [record.metrics[name].value for name in names]
                value = metric.derived.compute(run, *parts) if metric.derived else parts[0]
                speeds[run] = value if metric.higher_is_better else 1 / value
        by_path = {Path(name).parts[2:]: document for name, document in self._plan.views.items()}
        for plan in (of for path, of in by_path.items() if path[:2] == ("plan", "experiments")):
            (baseline, said), others = (plan["baseline"], []), plan["implementations"]
            bases = {Run.of(self._benchmark, row) for row in plan["runs"]}
            bases = {replace(run, implementation=baseline) for run in bases}
            for name in (entry["name"] for entry in others if plan["sweep"]):
                both = [(base, replace(base, implementation=name)) for base in bases]
                known = [speeds[own] / speeds[b] for b, own in both if {b, own} <= speeds.keys()]
                if known and name != baseline:
                    times = range_of(known, " to ")
                    said.append(f"{name} {times}× at {len(known)} of {len(bases)} settings")
            if said:
                title = by_path["plan", "titles.json"][plan["name"]]["en"]
                lines.append(f"  {title}: {'; '.join(said)}")
        of = f"{plan['baseline']}'s ({metric.labels['en']})" if lines else ""
        head = f"So far, from one process of each run, the speed as a multiple of {of}:"
        return lines and [head, *lines]

    def _log(self, *logs: str | Path) -> list[str]:
        """The lines of logs that are not blank."""
        files = filter(Path.is_file, map(self._root.joinpath, logs))
        texts = (file.read_text(encoding="utf-8", errors="replace") for file in files)
        return [line for text in texts for line in legible_lines(text)]

    # The end

    def ends(self) -> list[str]:
        """The summary, when the call is over."""
        if self.interrupted:
            return ["", self._interruption()]
        if not self.began or self._dry_run:
            return self._would_do() if self.began else []
        if self.failed or self.stopped:
            return self._failures() if self.failed else self._old_report()
        lines = [UP_TO_DATE] if self.nothing_to_do else []
        lines += self._statuses() if self._of_report() or self._measured_at else []
        written = (path for path in _outputs(self._done) if path.startswith("report/"))
        lines += [f"{path} is written." for path in written if path != self._report]
        lines += self._shown() if self._of_report() else []
        return lines and ["", *(lines if lines[-1] else lines[:-1])]

    def _of_report(self) -> bool:
        return self._asks_report or self._report in _outputs(self._jobs.values())

    def _interruption(self) -> str:
        kept, home = "kept; the same call goes on from there.", f"{self._plan.home}/"
        is_here = any(path.startswith(home) for path in _outputs(self._jobs.values()))
        if not self._planned or not is_here:
            return f"Interrupted. What is finished is {kept}"
        there = sum(read_outcome(self._root / path) is not None for path in self._planned)
        is_or_are, counted = "is" if there == 1 else "are", self._counted(len(self._planned))
        return f"Interrupted: {there} of {counted} {is_or_are} measured and {kept}"

    def _statuses(self) -> list[str]:
        """The counts of the planned runs by status; of local runs that are not ok, the names."""
        outcomes, processes = self._outcomes(), len(self._planned)
        bad = {run: record for run, record in outcomes.items() if status_of(record) != "ok"}
        total = plural(len(outcomes), "run")
        total += f" in {processes} processes" if processes > len(outcomes) else ""
        if not bad:
            return [f"{total}: all ok.", ""] if outcomes else []
        statuses = Counter(map(status_of, bad.values()))
        counts = ", ".join(f"{count} {status}" for status, count in statuses.items())
        lines = [f"{total}: {len(outcomes) - len(bad)} ok, {len(bad)} not ({counts})."]
        widest = max(map(len, statuses))
        for run, name in aligned(bad).items() if self._is_local else ():
            says = reason(record) if (record := bad[run]) else "there is no record"
            lines.append(f"  {name}  {status_of(record):<{widest}}  {says}")
        lines.append("The report shows them as what they are.")
        # Out of memory and unsupported are properties of the run.
        faulty = [run for run in bad if status_of(bad[run]) in ("incorrect", "error")]
        if faulty and self._is_local:
            first = {run.implementation: run for run in reversed(faulty)}
            names = [*dict.fromkeys(run.implementation for run in faulty)]
            slugs = ["-".join([run.implementation, *run.words]).lower() for run in faulty]
            again = " ".join(names if len(faulty) > 3 else slugs)
            lines += _next_steps(
                {"their logs": f"{self._plan.home}/logs/measure/"}
                | {f"look into {name}": check_of(first[name]) for name in names}
                | {"measure again": f"{self._report_call} --again {again}"}
            )
        return [*lines, ""]

    def _shown(self) -> list[str]:
        """The report's path, its dataset, its changed verdicts, and the next commands."""
        pdf = self._root / self._report
        if not pdf.is_file():
            return []
        import pikepdf  # needed only at the end, if there is a report

        with pikepdf.open(pdf) as opened:
            pages = plural(len(opened.pages), "page")
        published = [job for job in self._jobs.values() if self._report in job.outputs]
        said = self._log(*(log for job in published for log in job.logs))
        changed = [line.removeprefix(CHANGED) for line in said if line.startswith(CHANGED)]
        logged = self._log(Path(self._plan.home, "logs", "report.log"))
        of = "this machine's records" if self._is_local else f"the dataset {self._plan.dataset}"
        lines = [
            *(line for line in logged if line.startswith("warning: ")),
            *(f"  {line}" if number else line for number, line in enumerate(changed)),
            f"{self._report} ({pages}) shows {of}.",
        ]
        opener = "open" if sys.platform == "darwin" else "xdg-open"
        steps = {"open it": f"{opener} {self._report}"} if shutil.which(opener) else {}
        own = results_of(LOCAL, self._benchmark) / pdf.name
        if self._is_local and dataset_folder(DATA, "h200", self._benchmark).is_dir():
            steps["see an H200's report"] = f"{self._report_call} --config dataset=h200"
        elif not self._is_local and self._root.joinpath(own).is_file():
            lines.append(f"The report on this machine's records is kept as {own}.")
            steps["show that one again"] = self._report_call
        return lines + _next_steps(steps)

    def _failures(self) -> list[str]:
        """The failed jobs with the last lines of their logs, and the report that was left."""
        failed = [job for job in self.failed if job.rule != "verify"]  # it prints its own
        lines, shown = ["", f"{plural(len(failed), 'job')} failed:"], list[list[str]]()
        for job in failed:
            lines.append(f"  {job.title}")
            for log in job.logs:
                tail = self._log(log)[-TAIL_LINES:]
                state = "ends in the same lines" if tail in shown else "ends:"
                lines.append(f"    {log} {state if tail else 'is empty'}")
                lines += [f"      | {line}" for line in tail if tail not in shown]
                shown.append(tail)
        return [*lines, *self._old_report(), *ADVICE] if failed else []

    def _old_report(self) -> list[str]:
        pdf, is_new = self._root / self._report, self._report in _outputs(self._done)
        if not self._of_report() or is_new or not pdf.is_file():
            return []
        when = datetime.fromtimestamp(pdf.stat().st_mtime)
        return ["", f"{self._report} is still the old report, made on {when:%Y-%m-%d %H:%M}."]

    def _would_do(self) -> list[str]:
        """The runs and stages that a dry run would make."""
        if self.nothing_to_do:
            return [UP_TO_DATE]
        stages, lines = Counter(job.rule for job in self._jobs.values()), list[str]()
        if count := stages.pop(MEASURE, 0):
            runs = (self._name(job) for job in self._jobs.values() if job.rule == MEASURE)
            of = sorted(Counter(name.replace("-", " ").split()[0] for name in runs).items())
            named = ", ".join(f"{count} {name}" for name, count in of)
            lines.append(f"Would measure {self._counted(count)}: {named}.")
        lines += ["Would make:"] if stages else []
        for rule in [*STAGES, *(stages.keys() - STAGES)]:
            if stages[rule] and (title := STAGES.get(rule, rule)):
                lines.append(f"  {title}" + (f" ({stages[rule]})" if stages[rule] > 1 else ""))
        return [*lines, "This was a dry run: nothing was measured or made."]
