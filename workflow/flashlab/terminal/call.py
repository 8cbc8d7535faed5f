"""One Snakemake call in words: a line for each run that ends, and a summary at the end.

A `Call` is told what happens and returns the lines to print. It knows nothing about Snakemake's
events or terminals.
"""

from __future__ import annotations

import math
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from flashlab.analysis.verdict_changes import CHANGED
from flashlab.benchmarks.model import Benchmark, Parameter
from flashlab.benchmarks.registry import DEFAULT, find_benchmark
from flashlab.calls.selection import benchmark_of_file
from flashlab.plan.datasets import dataset_folder
from flashlab.plan.plan_files import results_of
from flashlab.plan.source import DATA
from flashlab.runs import Run
from flashlab.terminal.outcomes import (
    UNMEASURED,
    Outcome,
    aligned,
    planned_runs,
    read_outcome,
    read_outcomes,
    run_words,
    shown_dataset,
)
from flashlab.terminal.so_far import told_so_far

SO_FAR_SECONDS = 50.0
"""When a call that still measures tells what is known so far: nobody waits a minute for it."""

LOCAL = "local"
MEASURE = "measure"
VERIFY = "verify"

STAGES = {
    "ceilings": "Peak rate and bandwidth of this machine",
    "measure_counters": "Counters",
    "import_record": "Import",
    "tables": "Tables",
    "figures": "Figures of the experiments",
    "observations": "Observations",
    "overview": "Figures across the experiments",
    "report": "Report",
    "publish_pdf": "",  # a copy: the line about its source is enough
    "page": "HTML page",
    "publish_page": "",
    "freeze": "Recorded dataset",
    "freeze_counters": "Recorded counters",
    "comparison": "Comparison",
    "comparison_figures": "Figures of the comparison",
    "comparison_pdf": "Comparison as a PDF",
    "comparison_page": "Comparison as an HTML page",
    "publish_comparison": "",
    "grades": "Grades",
    "publish_grades": "",
    "grades_pdf": "Grades as a PDF",
    "publish_grades_pdf": "",
}
"""What each rule makes. The jobs write only to their logs, never to the terminal."""

RESULT_IN_LOG = ("freeze", "freeze_counters", "grades")
"""Rules whose log ends in a line with the result."""

MEASURED_WIDTH = 11

FAULTS = ("incorrect", "error")
"""Statuses that call for a repair; out of memory and unsupported are properties of the run."""

TAIL_LINES = 12


@dataclass(frozen=True)
class Job:
    """A job of Snakemake: its rule, the rule's message, and its files."""

    id: int
    rule: str
    message: str
    outputs: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    works: bool = True
    """False for a target, which only names what to make."""


def printable(text: str) -> str:
    """One line of untrusted text, safe for a terminal."""
    return "".join(c if c.isprintable() else " " for c in text).rstrip()


def first_line(message: str) -> str:
    """The first line of a message that is not blank."""
    return next((printable(line).strip() for line in message.splitlines() if line.strip()), "")


def quantity(value: float, unit: str) -> str:
    """A quantity to three digits, and at most as many decimals, of milliseconds four: 40.6 MiB."""
    decimals = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:.{min(4 if unit == 'ms' else 3, max(0, decimals))}f} {unit}"


def duration(seconds: float) -> str:
    """A duration, rounded for a reader: ``40 s``, ``12 min``, ``2.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def plural(count: int, noun: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def check_of(run: Run) -> str:
    """The call that checks an implementation at a run's shape, or at all where that is no shape."""
    from flashlab.checking.shapes import is_shape  # needed only where a run is wrong

    shape = ",".join(run.words)
    at = f" --shape {shape} --dtype {run.dtype}" if is_shape(shape) else ""
    return f"./run check {run.implementation}{at}"


def _pages(pdf: Path) -> str:
    import pikepdf  # needed only at the end, if there is a report

    try:
        with pikepdf.open(pdf) as opened:
            return plural(len(opened.pages), "page")
    except (OSError, pikepdf.PdfError):
        return "not readable as a PDF"


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [printable(line) for line in text.splitlines() if line.strip()]


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    """What to do next, each with its command."""
    width = max((len(what) for what, _ in rows), default=0)
    return [f"  {what + ':':<{width + 1}}  {command}" for what, command in rows]


class Call:
    """The state of one call in the pipeline's folder; `clock` gives seconds.

    `began` is whether Snakemake has got as far as planning or running jobs, `step` how many are
    done, and of how many. Who tells the events sets whether the user has `interrupted` the call, an
    error other than a failed job has `stopped` it, and there was `nothing_to_do`.
    """

    def __init__(
        self, root: Path, dry_run: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._root = root
        self._dry_run = dry_run
        self._clock = clock
        self._command = ""
        self.began = False
        self._since = clock()
        self._told_so_far = False
        self.interrupted = False
        self.nothing_to_do = False
        self.stopped = False
        self._counts: dict[str, int] = {}
        self._jobs: dict[int, Job] = {}
        self._running: dict[int, Job] = {}
        self._finished: Counter[str] = Counter()
        self._failed: list[Job] = []
        self._written: list[str] = []
        self._home: str | None = None
        self._benchmark: Benchmark | None = None
        self._planned: dict[str, Run] = {}
        self._names: dict[str, str] = {}
        self._headed = False
        self._measured_at: list[float] = []
        self.step = (0, 0)

    # What happens

    def begins(self, command: str) -> None:
        """Snakemake starts working; `command` is its command line."""
        self.began = True
        self._since = self._clock()
        self._command = command

    def plans(self, counts: Mapping[str, int]) -> None:
        """The number of jobs of each rule is known."""
        self.began = True
        self._counts = {rule: count for rule, count in counts.items() if rule != "total"}
        self.step = (0, sum(self._counts.values()))

    def starts(self, job: Job) -> list[str]:
        """A job starts, or would start."""
        self._jobs[job.id] = self._running[job.id] = job
        self._learn_dataset(job)
        if job.rule != MEASURE or self._dry_run or self._headed:
            return []
        self._headed = True
        return self._heading()

    def finishes(self, job_id: int) -> list[str]:
        """A job is done."""
        job = self._running.pop(job_id, None)
        if job is None or not job.works:
            return []
        self._finished[job.rule] += 1
        self._written += [path for path in job.outputs if path.startswith("report/")]
        if job.rule == MEASURE:
            self._measured_at.append(self._clock())
            return [self._run_line(job), *self._so_far()]
        total = self._counts.get(job.rule, 1)
        if self._finished[job.rule] < total:
            return []
        result = self._result_in_log(job) if job.rule in RESULT_IN_LOG else []
        title = STAGES.get(job.rule, job.message or job.rule)
        done = "done" if total == 1 else f"{total} done"
        return [*([f"{title}: {done}"] if title else []), *result]

    def _so_far(self) -> list[str]:
        """Once, after `SO_FAR_SECONDS`, what is known by then, where much is left to measure."""
        left = self._counts.get(MEASURE, 0) - self._finished[MEASURE]
        is_late = self._clock() - self._since >= SO_FAR_SECONDS
        if self._told_so_far or not (is_late and left and self._benchmark and self._home):
            return []
        self._told_so_far = True
        return told_so_far(self._root, Path(self._home), self._benchmark, self._planned)

    def fails(self, job: Job) -> list[str]:
        """A job has failed; jobs that do not depend on it continue."""
        known = self._running.pop(job.id, None) or self._jobs.get(job.id) or job
        self._failed.append(known)
        return [] if self.interrupted else [f"{known.message or known.rule}: failed"]

    # What it looks like

    @property
    def reports_failures(self) -> bool:
        """Whether the summary explains why the call did not succeed."""
        return bool(self._failed) or self.interrupted

    def activity(self) -> str | None:
        """What is being done, in a few words; None if a job itself writes to the terminal."""
        jobs = list(self._running.values())
        if not jobs or self._dry_run or self.interrupted:
            return None
        if any(job.rule not in STAGES and job.rule != MEASURE for job in jobs):
            return None
        job = jobs[-1]
        if job.rule != MEASURE:
            return job.message
        left = self._left()
        words = f"Measuring {' '.join(self._name(job).split())}"
        return words if left is None else f"{words}, about {duration(left)} of measuring left"

    # Runs

    def _learn_dataset(self, job: Job) -> None:
        for path in () if self._home else job.outputs:
            found = re.match(r"results/(?!grading/)[^/]+", path)
            if found:
                self._read_plan(self._root, found[0])
                break
        for path in job.inputs if self._dry_run else ():
            # A dry run does not touch the folder: its plan is in a temporary one.
            found = re.match(r"(/.+)/(results/[^/]+)/plan/", path)
            if found and found[2] == self._home:
                self._read_plan(Path(found[1]), found[2])

    def _read_plan(self, root: Path, home: str) -> None:
        self._home = home
        self._benchmark, self._planned = planned_runs(root / home)
        names, self._names = aligned(self._planned.values()), {}
        several = len(self._planned) > len(names)
        processes: Counter[Run] = Counter()
        for path, run in self._planned.items():
            processes[run] += 1
            self._names[path] = names[run] + (f" process {processes[run]}" if several else "")

    def _name(self, job: Job) -> str:
        if job.outputs and job.outputs[0] in self._names:
            return self._names[job.outputs[0]]
        slug = Path(job.outputs[0]).stem if job.outputs else job.message
        return re.sub(r"-[0-9a-f]{12}$", "", slug)

    def _heading(self) -> list[str]:
        """What is measured, and the head of the table whose rows are the runs."""
        total = self._counts.get(MEASURE, 0)
        says = f"Measuring {self._counted(total)}"
        kinds = {(run.device, run.dtype) for run in self._planned.values()}
        if len(kinds) == 1:
            device, dtype = kinds.pop()
            says += f" on the {'GPU' if device == 'cuda' else 'CPU'} in {dtype}"
        there = sum(self._root.joinpath(path).exists() for path in self._planned)
        if (others := min(there, len(self._planned) - total)) > 0:
            says += f"; {others} of {len(self._planned)} are measured already"
        width = max((len(name) for name in self._names.values()), default=0)
        return [
            "",
            f"{says}.",
            ", ".join(f"{p.symbol} {p.labels['en']}" for p in self._sizes) + ".",
            "",
            f"{'run':>{self._count_width}} {'left':>6} {'':<{width}} "
            + " ".join(f"{heading:>{MEASURED_WIDTH}}" for heading in self._headings),
        ]

    def _counted(self, count: int) -> str:
        """So many of the planned records: ``34 runs``, or ``102 processes of 34 runs``."""
        runs = len(set(self._planned.values()))
        if runs == len(self._planned):
            return plural(count, "run")
        return f"{count} process{'' if count == 1 else 'es'} of {plural(runs, 'run')}"

    @property
    def _sizes(self) -> list[Parameter]:
        given = self._benchmark.given if self._benchmark else ()
        return [parameter for parameter in given if not parameter.is_variant]

    @property
    def _headings(self) -> list[str]:
        measured = self._benchmark.compared if self._benchmark else ()
        return [
            (metric.part or metric.labels)["en"].lower()
            for metric in measured
            if not metric.optional
        ]

    @property
    def _count_width(self) -> int:
        return 2 * len(str(self._counts.get(MEASURE, 0))) + 1

    def _left(self) -> float | None:
        """Remaining seconds of measuring, None if there are none or they cannot be estimated.

        The first run is no guide: it imports torch for all.
        """
        done = len(self._measured_at)
        remaining = self._counts.get(MEASURE, done) - done
        if done < 2 or remaining < 1:
            return None
        return remaining * (self._measured_at[-1] - self._measured_at[0]) / (done - 1)

    def _run_line(self, job: Job) -> str:
        done, total = self._finished[MEASURE], self._counts.get(MEASURE, 0)
        left = self._left()
        count = f"{done}/{total}".rjust(self._count_width)
        begin = f"{count} {'' if left is None else duration(left):>6}"
        run, outcome = read_outcome(self._root / job.outputs[0])
        if run is None:
            return f"{begin} {self._name(job)} its record is unreadable"
        name = self._names.get(job.outputs[0]) or " ".join(run_words(run))
        measured = (quantity(*each) for each in outcome.measured.values())
        said = " ".join(f"{each:>{MEASURED_WIDTH}}" for each in measured)
        said = said or f"{outcome.status}: {first_line(outcome.message)}"
        return f"{begin} {name} {said}"

    def _result_in_log(self, job: Job) -> list[str]:
        return [line for log in job.logs for line in _lines(self._root / log)[-1:]]

    # The end

    def ends(self) -> list[str]:
        """The summary, when the call is over."""
        if self.interrupted:
            return ["", self._interruption()]
        if not self.began:
            return []
        if self._dry_run:
            return self._would_do()
        if self._failed:
            return self._failures()
        if self.stopped:
            return self._old_report()
        lines = ["Nothing to do: all of it is up to date."] if self.nothing_to_do else []
        if self._concerns_report or self._finished[MEASURE]:
            lines += self._runs()
        lines += [f"{path} is written." for path in self._written if path != self._report_file]
        if self._concerns_report:
            lines += self._report()
        if lines and not lines[-1]:
            lines.pop()
        return lines and ["", *lines]

    @property
    def _report_of(self) -> Benchmark:
        """The benchmark whose report the call is about."""
        outputs = [path for job in self._jobs.values() for path in job.outputs]
        named = map(benchmark_of_file, [*self._command.split(), *outputs])
        return find_benchmark(next(filter(None, named), DEFAULT.name))

    @property
    def _report_file(self) -> str:
        return f"report/{self._report_of.report}.pdf"

    @property
    def _dataset(self) -> str | None:
        """The dataset whose results the call works on: a benchmark's folder carries its name."""
        if self._home is None:
            return None
        name = self._home.removeprefix("results/")
        return name if self._report_of == DEFAULT else name.removesuffix(f"-{self._report_of.name}")

    @property
    def _report_call(self) -> str:
        """How the report is asked for."""
        own = "" if self._report_of == DEFAULT else f" {self._report_of.name}"
        return f"./run report{own}"

    @property
    def _concerns_report(self) -> bool:
        outputs = {path for job in self._jobs.values() for path in job.outputs}
        return self._report_file in self._command.split() or self._report_file in outputs

    def _interruption(self) -> str:
        if not self._planned:
            return "Interrupted. What is finished is kept; the same call goes on from there."
        found = (read_outcome(self._root / path)[1] for path in self._planned)
        there = sum(outcome.status != UNMEASURED for outcome in found)
        return (
            f"Interrupted: {there} of {self._counted(len(self._planned))} "
            f"{'is' if there == 1 else 'are'} measured and kept; "
            "the same call goes on from there."
        )

    def _runs(self) -> list[str]:
        """How the planned runs ended, with the names of those measured here that are not ok."""
        shown = None if self._home else shown_dataset(self._root, self._report_of.report)
        if shown:  # no job has led to the plan
            self._read_plan(self._root, results_of(shown, self._report_of).as_posix())
        outcomes = read_outcomes(self._root, self._planned)
        if not outcomes:
            return []
        statuses = Counter(outcome.status for outcome in outcomes.values())
        ok = statuses.pop("ok", 0)
        total = plural(len(outcomes), "run")
        if len(self._planned) > len(outcomes):
            total += f" in {len(self._planned)} processes"
        if not statuses:
            return [f"{total}: all ok.", ""]
        counts = ", ".join(f"{count} {status}" for status, count in statuses.items())
        lines = [f"{total}: {ok} ok, {statuses.total()} not ({counts})."]
        bad = {run: outcome for run, outcome in outcomes.items() if outcome.status != "ok"}
        if self._dataset != LOCAL:
            return [*lines, "The report shows them as what they are.", ""]
        widest = max(len(outcome.status) for outcome in bad.values())
        names = aligned(bad)
        for run, outcome in bad.items():
            says = first_line(outcome.message) or "there is no record"
            lines.append(f"  {names[run]}  {outcome.status:<{widest}}  {says}")
        lines.append("The report shows them as what they are.")
        return [*lines, *self._repairs(bad), ""]

    def _repairs(self, bad: Mapping[Run, Outcome]) -> list[str]:
        faulty = [run for run, outcome in bad.items() if outcome.status in FAULTS]
        if not faulty:
            return []
        first = {run.implementation: run for run in reversed(faulty)}
        names = list(dict.fromkeys(run.implementation for run in faulty))
        again = names if len(faulty) > 3 else ["-".join(run_words(run)).lower() for run in faulty]
        return _table(
            [
                ("their logs", f"{self._home}/logs/measure/"),
                *((f"look into {name}", check_of(first[name])) for name in names),
                ("measure again", f"{self._report_call} --again {' '.join(again)}"),
            ]
        )

    def _report(self) -> list[str]:
        """Where the report is, what it shows, and what to do with it."""
        benchmark, report = self._report_of, self._report_file
        pdf = self._root / report
        if not pdf.is_file():
            return []
        dataset = shown_dataset(self._root, benchmark.report) or self._dataset or LOCAL
        log = self._root / results_of(dataset, benchmark) / "logs" / "report.log"
        warnings = [line for line in _lines(log) if line.startswith("warning: ")]
        of = "this machine's records" if dataset == LOCAL else f"the dataset {dataset}"
        lines = [*warnings, *self._changed_verdicts(), f"{report} ({_pages(pdf)}) shows {of}."]
        opener = "open" if sys.platform == "darwin" else "xdg-open"
        rows = [("open it", f"{opener} {report}")] if shutil.which(opener) else []
        own = str(results_of(LOCAL, benchmark) / f"{benchmark.report}.pdf")
        if dataset == LOCAL:
            if dataset_folder(DATA, "h200", benchmark).is_dir():
                rows.append(("see an H200's report", f"{self._report_call} --config dataset=h200"))
        elif self._root.joinpath(own).is_file():
            lines.append(f"The report on this machine's records is kept as {own}.")
            rows.append(("show that one again", self._report_call))
        return lines + _table(rows)

    def _changed_verdicts(self) -> list[str]:
        """The verdicts in which the report published by this call differs from the previous one."""
        published = [job for job in self._jobs.values() if self._report_file in job.outputs]
        lines = [line for job in published for log in job.logs for line in _lines(self._root / log)]
        changed = [line.removeprefix(CHANGED) for line in lines if line.startswith(CHANGED)]
        return [*changed[:1], *(f"  {line}" for line in changed[1:])]

    def _failures(self) -> list[str]:
        """Which jobs failed, how their logs end, and which report there is."""
        failed = [job for job in self._failed if job.rule != VERIFY]  # it prints its own
        if not failed:
            return []
        lines = ["", f"{plural(len(failed), 'job')} failed:"]
        shown: set[tuple[str, ...]] = set()
        for job in failed:
            lines.append(f"  {job.message or job.rule}")
            for log in job.logs:
                tail = tuple(_lines(self._root / log)[-TAIL_LINES:])
                if not tail:
                    lines.append(f"    {log} is empty")
                elif tail in shown:
                    lines.append(f"    {log} ends in the same lines")
                else:
                    lines += [f"    {log} ends:", *(f"      | {line}" for line in tail)]
                shown.add(tail)
        lines += [
            *self._old_report(),
            "",
            "Mend what the log names, then make the same call again: what is finished is kept.",
            "All that Snakemake itself had to say is in .snakemake/log/; --verbose prints it.",
        ]
        return lines

    def _old_report(self) -> list[str]:
        report = self._report_file
        pdf = self._root / report
        if not self._concerns_report or report in self._written or not pdf.is_file():
            return []
        made = datetime.fromtimestamp(pdf.stat().st_mtime)
        return ["", f"{report} is still the old report, made on {made:%Y-%m-%d %H:%M}."]

    def _would_do(self) -> list[str]:
        """What a dry run has planned."""
        if self.nothing_to_do:
            return ["Nothing to do: all of it is up to date."]
        jobs = [job for job in self._jobs.values() if job.works]
        runs = [job for job in jobs if job.rule == MEASURE]
        lines = []
        if runs:
            of = Counter(self._name(job).replace("-", " ").split()[0] for job in runs)
            named = ", ".join(f"{count} {name}" for name, count in sorted(of.items()))
            lines.append(f"Would measure {self._counted(len(runs))}: {named}.")
        stages = Counter(job.rule for job in jobs if job.rule != MEASURE)
        if stages:
            lines.append("Would make:")
            for rule in [*STAGES, *(set(stages) - set(STAGES))]:
                title = STAGES.get(rule, rule)
                if rule in stages and title:
                    count = stages[rule]
                    lines.append(f"  {title}" + (f" ({count})" if count > 1 else ""))
        return [*lines, "This was a dry run: nothing was measured or made."]
