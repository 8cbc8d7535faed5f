"""One Snakemake call in words: a line for each run that ends, and a summary at the end.

A `CallProgress` takes the events of a call and returns the lines to print. It knows nothing about
Snakemake's events or terminals.
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
from flashlab.benchmarks.registry import BENCHMARKS, DEFAULT
from flashlab.calls.prepare import Prepared
from flashlab.checking.shapes import is_shape
from flashlab.plan.datasets import dataset_folder
from flashlab.plan.plan_files import planned_documents, process_files, results_of
from flashlab.plan.source import DATA, LOCAL
from flashlab.runs import Run
from flashlab.telling.glyphs import cut
from flashlab.terminal.outcomes import (
    UNMEASURED,
    Outcome,
    aligned,
    first_ratios,
    read_outcome,
    read_outcomes,
    run_words,
)

SO_FAR_SECONDS = 50.0
"""Seconds after which a call that is still measuring prints its first ratios."""

MEASURE = "measure"
MEASURING = ("ceilings", MEASURE, "measure_counters")
"""The rules whose jobs wait for the device."""

VERIFY = "verify"

STAGES = {
    "ceilings": "Peak rate and bandwidth of this machine",
    "measure_counters": "Counters",
    "import_record": "Import",
    "tables": "Tables",
    "layout": "Layout",
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
}
"""The output of each rule, in words. The jobs write to their logs, never to the terminal."""

RESULT_IN_LOG = ("freeze", "freeze_counters", "grades")
"""Rules whose log ends in a line with the result."""

FAULTS = ("incorrect", "error")
"""Statuses that call for a repair; out of memory and unsupported are properties of the run."""

WAITING = "Waiting: another measurement runs on the device."
UP_TO_DATE = "Nothing to do: all of it is up to date."
MEASURED_WIDTH = 11
TAIL_LINES = 12

UNPLANNED = Prepared(LOCAL, f"results/{LOCAL}", DEFAULT.report, "cpu", "", "", {}, {})
"""The preparation of a call that has no plan, or none yet."""


@dataclass(frozen=True)
class Job:
    """A job of Snakemake: its rule, the rule's message, and its files."""

    id: int
    rule: str
    message: str = ""
    outputs: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The rule's message, or its name if it has none."""
        return self.message or self.rule


def printable(text: str) -> str:
    """One line of untrusted text, safe for a terminal."""
    return "".join(c if c.isprintable() else " " for c in text).rstrip()


LONGEST_LINE = 300
"""Characters of a record's message that a line shows; the record has all of it."""


def first_line(message: str) -> str:
    """The first line of a message that is not blank, at most `LONGEST_LINE` of it."""
    lines = (printable(line).strip() for line in message.splitlines() if line.strip())
    return cut(next(lines, ""), LONGEST_LINE)


def quantity(value: float, unit: str) -> str:
    """A quantity to three digits, and at most as many decimals, of milliseconds four: 40.6 MiB."""
    decimals = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:.{min(4 if unit == 'ms' else 3, max(0, decimals))}f} {unit}"


def duration(seconds: float) -> str:
    """A duration, rounded for a reader: ``40 s``, ``12 min``, ``2.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def plural(count: int, noun: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def check_of(run: Run) -> str:
    """The call that checks an implementation at a run's shape, or at all where that is no shape."""
    shape = ",".join(run.words)
    at = f" --shape {shape} --dtype {run.dtype}" if is_shape(shape) else ""
    return f"./run check {run.implementation}{at}"


def _pages(pdf: Path) -> str:
    import pikepdf  # needed only at the end, if there is a report

    with pikepdf.open(pdf) as opened:
        return plural(len(opened.pages), "page")


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    """The lines that name next steps, each with its command."""
    width = max((len(what) for what, _ in rows), default=0)
    return [f"  {what + ':':<{width + 1}}  {command}" for what, command in rows]


class CallProgress:
    """The state of one call in the pipeline's folder; `clock` gives seconds.

    `is_claimed` is True for a kind of device on which other processes measure.

    The caller sets `steps` (done, total), and the flags `interrupted` (by the user), `stopped` (by
    an error other than a failed job) and `nothing_to_do`.
    """

    def __init__(
        self,
        root: Path,
        is_claimed: Callable[[str], bool],
        dry_run: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root, self._dry_run, self._clock = root, dry_run, clock
        self._is_claimed = is_claimed
        self._since = clock()
        self.plans({"total": 0})
        self.began = self.interrupted = self.stopped = self.nothing_to_do = False
        self.failed: list[Job] = []
        self._jobs: dict[int, Job] = {}
        self._running: dict[int, Job] = {}
        self._finished: Counter[str] = Counter()
        self._written: list[str] = []
        self._measured_at: list[float] = []
        self._headed = self._first_ratios = self._asks_for_report = False
        self._learn(UNPLANNED)

    # Events

    def begins(self, command: str, prepared: Prepared | None) -> None:
        """Note that Snakemake starts; `command` is its command line, `prepared` the call's plan."""
        self.began, self._since = True, self._clock()
        self._learn(prepared or UNPLANNED)
        self._asks_for_report = self._report in command.split()

    def plans(self, counts: Mapping[str, int]) -> None:
        """Note the number of jobs of each rule, and of all as ``total``."""
        self._counts, self.steps = counts, (0, counts["total"])
        self._total = counts.get(MEASURE, 0)

    def _learn(self, prepared: Prepared) -> None:
        self._dataset, self._home = prepared.dataset, Path(prepared.home)
        self._device = prepared.device
        self._documents = prepared.documents
        self._benchmark = next(b for b in BENCHMARKS.values() if b.report == prepared.report)
        self._report = f"report/{prepared.report}.pdf"
        name = "" if self._benchmark == DEFAULT else f" {self._benchmark.name}"
        self._report_call = f"./run report{name}"
        self._planned = {
            file["path"]: Run.of(self._benchmark, entry["run"])
            for entry in planned_documents(prepared.documents)
            for file in process_files(entry)
        }
        names, processes = aligned(self._planned.values()), Counter[Run]()
        self._names = {}
        for path, run in self._planned.items():
            processes[run] += 1
            process = f" process {processes[run]}" if len(self._planned) > len(names) else ""
            self._names[path] = names[run] + process

    def starts(self, job: Job) -> list[str]:
        """The lines to print when a job starts, or would start."""
        is_first = not any(other.rule in MEASURING for other in self._jobs.values())
        self._jobs[job.id] = self._running[job.id] = job
        if job.rule not in MEASURING or self._dry_run:
            return []
        lines = [WAITING] if is_first and self._is_claimed(self._device) else []
        if job.rule == MEASURE and not self._headed:
            self._headed = True
            lines += self._heading()
        return lines

    def finishes(self, job_id: int) -> list[str]:
        """The lines to print when a job is done."""
        job = self._running.pop(job_id, None)
        if job is None:
            return []
        if job.rule == MEASURE:
            self._measured_at.append(self._clock())
            return [self._run_line(job), *self._so_far()]
        self._finished[job.rule] += 1
        self._written += [path for path in job.outputs if path.startswith("report/")]
        total = self._counts.get(job.rule, 1)
        if self._finished[job.rule] < total:
            return []
        result = self._log(*job.logs)[-1:] if job.rule in RESULT_IN_LOG else []
        title = STAGES.get(job.rule, job.title)
        done = "done" if total == 1 else f"{total} done"
        return [*([f"{title}: {done}"] if title else []), *result]

    def fails(self, job: Job) -> list[str]:
        """The lines to print when a job has failed; jobs that do not depend on it continue."""
        self._running.pop(job.id, None)
        known = self._jobs.get(job.id, job)
        self.failed.append(known)
        return [] if self.interrupted else [f"{known.title}: failed"]

    # The line of progress

    def activity(self) -> str | None:
        """The current job in a few words; None if a job itself writes to the terminal."""
        jobs = list(self._running.values())
        if not jobs or self._dry_run or self.interrupted:
            return None
        if any(job.rule not in STAGES and job.rule != MEASURE for job in jobs):
            return None
        if jobs[-1].rule != MEASURE:
            return jobs[-1].message
        left = self._left()
        words = f"Measuring {' '.join(self._name(jobs[-1]).split())}"
        return words if left is None else f"{words}, about {duration(left)} of measuring left"

    # Runs

    def _heading(self) -> list[str]:
        """The lines that announce the measuring, and the head of the table of runs."""
        says = f"Measuring {self._counted(self._total)}"
        kinds = {(run.device, run.dtype) for run in self._planned.values()}
        if len(kinds) == 1:
            device, dtype = kinds.pop()
            says += f" on the {'GPU' if device == 'cuda' else 'CPU'} in {dtype}"
        there = sum(self._root.joinpath(path).exists() for path in self._planned)
        if (others := min(there, len(self._planned) - self._total)) > 0:
            says += f"; {others} of {len(self._planned)} are measured already"
        stated = self._benchmark.stated(self._planned.values())
        sizes = (p for p in stated if p.derive is None and not p.is_variant)
        metrics = (metric for metric in self._benchmark.compared if not metric.optional)
        headings = ((metric.part or metric.labels)["en"].lower() for metric in metrics)
        width = max((len(name) for name in self._names.values()), default=0)
        return [
            "",
            f"{says}.",
            ", ".join(f"{p.symbol} {p.labels['en']}" for p in sizes) + ".",
            "",
            f"{'run':>{2 * len(str(self._total)) + 1}} {'left':>6} {'':<{width}} "
            + " ".join(f"{heading:>{MEASURED_WIDTH}}" for heading in headings),
        ]

    def _counted(self, count: int) -> str:
        """So many of the planned records: ``34 runs``, or ``102 processes of 34 runs``."""
        runs = len(set(self._planned.values()))
        if runs == len(self._planned):
            return plural(count, "run")
        return f"{count} process{'' if count == 1 else 'es'} of {plural(runs, 'run')}"

    def _left(self) -> float | None:
        """Remaining seconds of measuring, None if there are none or they cannot be estimated.

        The first run is no guide: it imports torch for all.
        """
        done = len(self._measured_at)
        remaining = self._total - done
        if done < 2 or remaining < 1:
            return None
        return remaining * (self._measured_at[-1] - self._measured_at[0]) / (done - 1)

    def _name(self, job: Job) -> str:
        path = job.outputs[0] if job.outputs else job.message
        return self._names.get(path) or re.sub(r"-[0-9a-f]{12}$", "", Path(path).stem)

    def _run_line(self, job: Job) -> str:
        left, width = self._left(), len(str(self._total))
        time_left = "" if left is None else duration(left)
        done = f"{len(self._measured_at):>{width}}/{self._total}"
        begin = f"{done} {time_left:>6} {self._name(job)}"
        run, outcome = read_outcome(self._root / job.outputs[0])
        if run is None:
            return f"{begin} its record is unreadable"
        measured = (f"{quantity(*pair):>{MEASURED_WIDTH}}" for pair in outcome.measured.values())
        return f"{begin} {' '.join(measured) or f'{outcome.status}: {first_line(outcome.message)}'}"

    def _so_far(self) -> list[str]:
        """The ratios so far: once, after `SO_FAR_SECONDS`, if runs are left to measure."""
        is_late = self._clock() - self._since >= SO_FAR_SECONDS
        if self._first_ratios or not is_late or len(self._measured_at) >= self._total:
            return []
        self._first_ratios = True
        return first_ratios(self._root, self._documents, self._benchmark, self._planned)

    def _log(self, *logs: str | Path) -> list[str]:
        """The lines of logs that are not blank."""
        files = filter(Path.is_file, map(self._root.joinpath, logs))
        texts = (file.read_text(encoding="utf-8", errors="replace") for file in files)
        return [printable(line) for text in texts for line in text.splitlines() if line.strip()]

    # The end

    def ends(self) -> list[str]:
        """The summary, when the call is over."""
        if self.interrupted:
            return ["", self._interruption()]
        if not self.began:
            return []
        if self._dry_run:
            return self._would_do()
        if self.failed:
            return self._failures()
        if self.stopped:
            return self._old_report()
        lines = [UP_TO_DATE] if self.nothing_to_do else []
        if self._concerns_report or self._measured_at:
            lines += self._runs()
        lines += [f"{path} is written." for path in self._written if path != self._report]
        if self._concerns_report:
            lines += self._shown()
        if lines and not lines[-1]:
            lines.pop()
        return lines and ["", *lines]

    @property
    def _concerns_report(self) -> bool:
        made = (path for job in self._jobs.values() for path in job.outputs)
        return self._asks_for_report or self._report in made

    def _interruption(self) -> str:
        kept = "the same call goes on from there."
        outputs = (Path(path) for job in self._jobs.values() for path in job.outputs)
        if not self._planned or not any(self._home in path.parents for path in outputs):
            return f"Interrupted. What is finished is kept; {kept}"
        outcomes = (read_outcome(self._root / path)[1] for path in self._planned)
        there = sum(outcome.status != UNMEASURED for outcome in outcomes)
        are = "is" if there == 1 else "are"
        counted = self._counted(len(self._planned))
        return f"Interrupted: {there} of {counted} {are} measured and kept; {kept}"

    def _runs(self) -> list[str]:
        """The counts of the planned runs by status; of local runs that are not ok, the names."""
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
        if self._dataset == LOCAL:
            widest, names = max(map(len, statuses)), aligned(bad)
            for run, outcome in bad.items():
                says = first_line(outcome.message) or "there is no record"
                lines.append(f"  {names[run]}  {outcome.status:<{widest}}  {says}")
        lines.append("The report shows them as what they are.")
        return [*lines, *(self._repairs(bad) if self._dataset == LOCAL else ()), ""]

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

    def _shown(self) -> list[str]:
        """The report's path, its dataset, its changed verdicts, and the next commands."""
        pdf = self._root / self._report
        if not pdf.is_file():
            return []
        logged = self._log(self._home / "logs" / "layout.log")
        of = "this machine's records" if self._dataset == LOCAL else f"the dataset {self._dataset}"
        lines = [
            *(line for line in logged if line.startswith("warning: ")),
            *self._changed_verdicts(),
            f"{self._report} ({_pages(pdf)}) shows {of}.",
        ]
        opener = "open" if sys.platform == "darwin" else "xdg-open"
        rows = [("open it", f"{opener} {self._report}")] if shutil.which(opener) else []
        own = results_of(LOCAL, self._benchmark) / Path(self._report).name
        if self._dataset == LOCAL:
            if dataset_folder(DATA, "h200", self._benchmark).is_dir():
                rows.append(("see an H200's report", f"{self._report_call} --config dataset=h200"))
        elif self._root.joinpath(own).is_file():
            lines.append(f"The report on this machine's records is kept as {own}.")
            rows.append(("show that one again", self._report_call))
        return lines + _table(rows)

    def _changed_verdicts(self) -> list[str]:
        """The verdicts in which the report published by this call differs from the previous one."""
        published = [job for job in self._jobs.values() if self._report in job.outputs]
        said = self._log(*(log for job in published for log in job.logs))
        changed = [line.removeprefix(CHANGED) for line in said if line.startswith(CHANGED)]
        return [*changed[:1], *(f"  {line}" for line in changed[1:])]

    def _failures(self) -> list[str]:
        """The failed jobs with the last lines of their logs, and the report that was left."""
        failed = [job for job in self.failed if job.rule != VERIFY]  # it prints its own
        if not failed:
            return []
        lines = ["", f"{plural(len(failed), 'job')} failed:"]
        shown: list[list[str]] = []
        for job in failed:
            lines.append(f"  {job.title}")
            for log in job.logs:
                tail = self._log(log)[-TAIL_LINES:]
                if not tail:
                    lines.append(f"    {log} is empty")
                elif tail in shown:
                    lines.append(f"    {log} ends in the same lines")
                else:
                    lines += [f"    {log} ends:", *(f"      | {line}" for line in tail)]
                shown.append(tail)
        return [
            *lines,
            *self._old_report(),
            "",
            "Mend what the log names, then make the same call again: what is finished is kept.",
            "All that Snakemake itself had to say is in .snakemake/log/; --verbose prints it.",
        ]

    def _old_report(self) -> list[str]:
        pdf = self._root / self._report
        if not self._concerns_report or self._report in self._written or not pdf.is_file():
            return []
        made = datetime.fromtimestamp(pdf.stat().st_mtime)
        return ["", f"{self._report} is still the old report, made on {made:%Y-%m-%d %H:%M}."]

    def _would_do(self) -> list[str]:
        """The runs and stages that a dry run would make."""
        if self.nothing_to_do:
            return [UP_TO_DATE]
        runs = [job for job in self._jobs.values() if job.rule == MEASURE]
        lines = []
        if runs:
            of = Counter(self._name(job).replace("-", " ").split()[0] for job in runs)
            named = ", ".join(f"{count} {name}" for name, count in sorted(of.items()))
            lines.append(f"Would measure {self._counted(len(runs))}: {named}.")
        stages = Counter(job.rule for job in self._jobs.values() if job.rule != MEASURE)
        if stages:
            lines.append("Would make:")
        for rule in [*STAGES, *(stages.keys() - STAGES)]:
            if stages[rule] and (title := STAGES.get(rule, rule)):
                lines.append(f"  {title}" + (f" ({stages[rule]})" if stages[rule] > 1 else ""))
        return [*lines, "This was a dry run: nothing was measured or made."]
