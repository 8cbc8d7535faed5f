"""One Snakemake call in words: a line for each run that ends, and a summary at the end.

A `Call` is what has happened so far, of which functions make the lines to print; they know nothing
of Snakemake's events. Ratios are of medians, without intervals: the report decides.
"""

from __future__ import annotations

import math
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from flashlab.analysis.experiment import chosen_metrics
from flashlab.analysis.verdict_changes import CHANGED
from flashlab.benchmarks.registry import BENCHMARKS, DEFAULT
from flashlab.checking.shapes import is_shape
from flashlab.measuring.supervise import is_claimed
from flashlab.numbers import measured, range_of
from flashlab.plan.datasets import dataset_folder
from flashlab.plan.make import DATA, LOCAL
from flashlab.plan.plan_files import (
    EXPERIMENTS,
    RECORDS,
    TITLES,
    Plan,
    planned_records,
    process_files,
    results_of,
)
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

Outcome = tuple[str, str, Mapping[str, Measurement]]
"""A record's status, the first line of its message, and its values."""

UNMEASURED: Outcome = ("unmeasured", "there is no record", {})
UNPLANNED = Plan(DEFAULT.name, DEFAULT.report, LOCAL, f"results/{LOCAL}", "cpu", "", {})


class Job(NamedTuple):
    """A job of Snakemake: its rule, what it says of itself, and its files."""

    rule: str
    title: str
    outputs: tuple[str, ...]
    logs: tuple[str, ...]


@dataclass
class Call:
    """What has happened in a call; times are in seconds, paths relative to the pipeline's folder.

    `words` are those of the command, and `command` is what makes its report. `runs` are planned, by
    the files of their records, and `names` what lines call these. `counts` are the jobs of each
    rule; `jobs`, by number, `done` and `failed` those that have begun and ended. It may be
    `stopped` by an error that is none of a job; `withheld` are lines that only repeat a job's.
    """

    dry_run: bool = False
    began: float | None = None
    words: list[str] = field(default_factory=list)
    command: str = "./run report"
    plan: Plan = UNPLANNED
    runs: dict[str, Run] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    jobs: dict[int, Job] = field(default_factory=dict)
    done: list[Job] = field(default_factory=list)
    failed: list[Job] = field(default_factory=list)
    measured_at: list[float] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)
    interrupted: bool = False
    stopped: bool = False
    nothing_to_do: bool = False


def begin(call: Call, plan: Plan) -> None:
    """Note what a call plans."""
    call.plan, processes = plan, dict[str, str]()
    call.command += f" {plan.benchmark}" if plan.benchmark != DEFAULT.name else ""
    for entry in planned_records(plan.view(RECORDS)):
        files = [file["path"] for file in process_files(entry)]
        call.runs |= dict.fromkeys(files, Run.of(BENCHMARKS[plan.benchmark], entry["run"]))
        processes |= {path: f" process {n}" for n, path in enumerate(files, 1) if files[1:]}
    words = aligned(call.runs.values())
    call.names |= {path: words[run] + processes.get(path, "") for path, run in call.runs.items()}


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


def _counted(call: Call, count: int) -> str:
    """So many of the planned records: ``34 runs``, or ``102 processes of 34 runs``."""
    if (runs := len({*call.runs.values()})) == len(call.runs):
        return _plural(count, "run")
    return f"{_plural(count, 'process', 'es')} of {_plural(runs, 'run')}"


def _outputs(jobs: Iterable[Job]) -> list[str]:
    return [path for job in jobs for path in job.outputs]


def _legible(text: str) -> list[str]:
    """The lines of untrusted text that are not blank, safe for a terminal."""
    lines = ("".join(c if c.isprintable() else " " for c in s) for s in text.splitlines())
    return [line.rstrip() for line in lines if line.strip()]


def _logged(*logs: str | Path) -> list[str]:
    files = filter(Path.is_file, map(Path, logs))
    return _legible("\n".join(file.read_text("utf-8", errors="replace") for file in files))


def _outcome(path: str) -> Outcome:
    try:
        record = read_record(Path(path))
    except RecordError:
        return UNMEASURED
    lines = _legible(record.message or "") or [""]
    return record.status, cut(lines[0].strip(), LONGEST_LINE), record.metrics


def _outcomes(call: Call) -> dict[Run, Outcome]:
    """That of each planned run: of several processes', the first which is not ok."""
    outcomes: dict[Run, Outcome] = {}
    for path, run in call.runs.items():
        if run not in outcomes or outcomes[run][0] == "ok":
            outcomes[run] = _outcome(path)
    return outcomes


def starting(call: Call, job: Job) -> list[str]:
    """The lines before a job that measures: that it waits, and the head of the table of runs."""
    measuring = {"ceilings", MEASURE, "measure_counters"}
    before = {other.rule for other in call.jobs.values() if other is not job} & measuring
    if job.rule not in measuring or call.dry_run:
        return []
    waits = not before and is_claimed(call.plan.device)
    lines = ["Waiting: another measurement runs on the device."] if waits else []
    if job.rule != MEASURE or MEASURE in before:
        return lines
    runs, benchmark, total = call.runs, BENCHMARKS[call.plan.benchmark], call.counts.get(MEASURE, 0)
    says = f"Measuring {_counted(call, total)}"
    kinds = {(run.device, run.dtype) for run in runs.values()}
    for device, dtype in kinds if len(kinds) == 1 else ():
        says += f" on the {'GPU' if device == 'cuda' else 'CPU'} in {dtype}"
    if (others := min(sum(Path(path).exists() for path in runs), len(runs) - total)) > 0:
        says += f"; {others} of {len(runs)} are measured already"
    sizes = (p for p in benchmark.stated(runs.values()) if p.derive is None and not p.is_variant)
    symbols = ", ".join(f"{p.symbol} {p.labels['en']}" for p in sizes)
    heads = ((m.part or m.labels)["en"].lower() for m in benchmark.compared if not m.optional)
    columns = " ".join(head.rjust(MEASURED_WIDTH) for head in heads)
    name = " " * max(map(len, call.names.values()), default=0)
    head = f"{'run':>{2 * len(str(total)) + 1}} {'left':>6} {name} {columns}"
    return [*lines, "", f"{says}.", f"{symbols}.", "", head]


def ending(call: Call, job: Job) -> list[str]:
    """The lines when a job is done: of a run its values or why it has none, or that it is done."""
    total = call.counts.get(job.rule, 1)
    if job.rule != MEASURE:
        if sum(other.rule == job.rule for other in call.done) < total:
            return []
        title = STAGES.get(job.rule, job.title)
        lines = [f"{title}: done" if total == 1 else f"{title}: {total} done"] if title else []
        return lines + (_logged(*job.logs)[-1:] if job.rule in ("freeze", "grades") else [])
    (path,), compared = job.outputs, BENCHMARKS[call.plan.benchmark].compared
    outcome = status, reason, metrics = _outcome(path)
    there = (m for m in compared if not m.optional and m.name in metrics)
    cells = (f"{measured(metrics[m.name].value)} {m.unit}".rjust(MEASURED_WIDTH) for m in there)
    says = " ".join(cells) or f"{status}: {reason}"
    says = says if outcome != UNMEASURED else "its record is unreadable"
    number = f"{len(call.measured_at):>{len(str(total))}}/{total}"
    line = f"{number} {_left(call):>6} {call.names.get(path, path)} {says}"
    late = sum(time - (call.began or 0.0) >= 50 for time in call.measured_at)  # seconds
    return [line, *(_so_far(call) if late == 1 and len(call.measured_at) < total else [])]


def _left(call: Call) -> str:
    """The remaining time of measuring; empty if there is none or it cannot be estimated.

    The first run is no guide: it imports torch for all.
    """
    times, total = call.measured_at, call.counts.get(MEASURE, 0)
    if not 2 <= len(times) < total:
        return ""
    return duration((total - len(times)) * (times[-1] - times[0]) / (len(times) - 1))


def _so_far(call: Call) -> list[str]:
    """The ratios so far, a line for each experiment that has any.

    Implementations are compared by a total where the benchmark has one.
    """
    benchmark, speeds, lines = BENCHMARKS[call.plan.benchmark], dict[tuple[str, Any], float](), []
    (*_, metric) = chosen_metrics(benchmark)
    names, sign = benchmark.measured_behind(metric.name), 1 if metric.higher_is_better else -1
    for run, (_, _, metrics) in _outcomes(call).items():
        if metrics.keys() >= {*names} and run.device not in benchmark.simulated:
            parts = [metrics[name].value for name in names]
            value = metric.derived.compute(run, *parts) if metric.derived else parts[0]
            speeds[run.implementation, run.parameters] = value**sign
    for plan in call.plan.view(EXPERIMENTS).values():
        said, baseline = list[str](), plan["baseline"]
        settings = {Run.of(benchmark, row).parameters for row in plan["runs"]}
        for name in (entry["name"] for entry in plan["implementations"] if plan["sweep"]):
            both = [((name, each), (baseline, each)) for each in settings]
            known = [speeds[own] / speeds[base] for own, base in both if {own, base} <= {*speeds}]
            if known and name != baseline:
                ratios = range_of(known, " to ")
                said.append(f"{name} {ratios}× at {len(known)} of {len(settings)} settings")
        if said:
            title = call.plan.view(TITLES)[plan["name"]]["en"]
            lines.append(f"  {title}: {'; '.join(said)}")
    of = f"{plan['baseline']}'s ({metric.labels['en']})" if lines else ""
    head = f"So far, from one process of each run, the speed as a multiple of {of}:"
    return lines and [head, *lines]


def activity(call: Call) -> str:
    """How much is done, and the current job; nothing if a job itself writes to the terminal."""
    ended = {*call.done, *call.failed}
    jobs = [job for job in call.jobs.values() if job not in ended]
    is_silent = {job.rule for job in jobs} <= {*STAGES, MEASURE}
    if not jobs or not is_silent or call.dry_run or call.interrupted:
        return ""
    words, path = jobs[-1].title, "".join(jobs[-1].outputs)
    if jobs[-1].rule == MEASURE:
        words = " ".join(["Measuring", *call.names.get(path, path).split()])
        words += f", about {left} of measuring left" if (left := _left(call)) else ""
    return f"{len(call.done)}/{call.counts.get('total', 0)} steps {words}"


def summary(call: Call) -> list[str]:
    """The lines when the call is over."""
    begun, plan = _outputs(call.jobs.values()), call.plan
    report = f"report/{plan.report}.pdf"
    is_asked, is_there = report in [*begun, *call.words], Path(report).is_file()
    if call.interrupted:
        kept = "kept; the same call goes on from there."
        if not call.runs or not any(path.startswith(f"{plan.home}/") for path in begun):
            return ["", f"Interrupted. What is finished is {kept}"]
        there, of = sum(_outcome(path) != UNMEASURED for path in call.runs), len(call.runs)
        is_or_are = "is" if there == 1 else "are"
        return ["", f"Interrupted: {there} of {_counted(call, of)} {is_or_are} measured and {kept}"]
    if call.began is None or call.dry_run:
        return call.withheld if call.began is None else _would_do(call)
    if call.failed or call.stopped:
        failed = [job for job in call.failed if job.rule != "verify"]  # it prints its own
        lines = ["", f"{_plural(len(failed), 'job')} failed:"] if failed else []
        tails: list[list[str]] = []
        for job in failed:
            lines.append(f"  {job.title}")
            for log in job.logs:
                tail = _logged(log)[-TAIL_LINES:]
                state = "ends in the same lines" if tail in tails else "ends:"
                lines.append(f"    {log} {state if tail else 'is empty'}")
                lines += [f"      | {line}" for line in tail if tail not in tails]
                tails.append(tail)
        if is_asked and is_there and report not in _outputs(call.done):
            when = datetime.fromtimestamp(Path(report).stat().st_mtime)
            lines += ["", f"{report} is still the old report, made on {when:%Y-%m-%d %H:%M}."]
        return lines + ([*ADVICE] if failed else [] if call.failed else call.withheld)
    lines = [UP_TO_DATE] if call.nothing_to_do else []
    lines += _statuses(call) if is_asked or call.measured_at else []
    written = (path for path in _outputs(call.done) if path.startswith("report/"))
    lines += [f"{path} is written." for path in written if path != report]
    lines += _shown(call, Path(report)) if is_asked and is_there else []
    return lines and ["", *(lines if lines[-1] else lines[:-1])]


def _would_do(call: Call) -> list[str]:
    if call.nothing_to_do:
        return [UP_TO_DATE]
    stages, lines = Counter(job.rule for job in call.jobs.values()), list[str]()
    if count := stages.pop(MEASURE, 0):
        files = _outputs(job for job in call.jobs.values() if job.rule == MEASURE)
        of = sorted(Counter(call.names.get(file, file).split()[0] for file in files).items())
        named = ", ".join(f"{count} {name}" for name, count in of)
        lines.append(f"Would measure {_counted(call, count)}: {named}.")
    lines += ["Would make:"] if stages else []
    for rule in [*STAGES, *(stages.keys() - STAGES)]:
        if stages[rule] and (title := STAGES.get(rule, rule)):
            lines.append(f"  {title}" + (f" ({stages[rule]})" if stages[rule] > 1 else ""))
    return [*lines, "This was a dry run: nothing was measured or made."]


def check_of(run: Run) -> str:
    """The call that checks an implementation at a run's shape, or at all where that is no shape."""
    shape = ",".join(run.words)
    at = f" --shape {shape} --dtype {run.dtype}" if is_shape(shape) else ""
    return f"./run check {run.implementation}{at}"


def _next_steps(rows: Mapping[str, str]) -> list[str]:
    width = max(map(len, rows), default=0) + 1
    return [f"  {what + ':':<{width}}  {command}" for what, command in rows.items()]


def _statuses(call: Call) -> list[str]:
    """The counts of the planned runs by status; of local runs that are not ok, the names."""
    outcomes, processes = _outcomes(call), len(call.runs)
    bad = {run: outcome for run, outcome in outcomes.items() if outcome[0] != "ok"}
    total = _plural(len(outcomes), "run")
    total += f" in {processes} processes" if processes > len(outcomes) else ""
    if not bad:
        return [f"{total}: all ok.", ""] if outcomes else []
    statuses = Counter(status for status, _, _ in bad.values())
    counts = ", ".join(f"{count} {status}" for status, count in statuses.items())
    lines = [f"{total}: {len(outcomes) - len(bad)} ok, {len(bad)} not ({counts})."]
    # Out of memory and unsupported are properties of the run.
    faulty = [run for run, (status, _, _) in bad.items() if status in ("incorrect", "error")]
    told, steps, width = "The report shows them as what they are.", {}, max(map(len, statuses))
    if call.plan.dataset != LOCAL:
        return [*lines, told, ""]
    for run, name in aligned(bad).items():
        lines.append(f"  {name}  {bad[run][0]:<{width}}  {bad[run][1]}")
    if faulty:
        first = {run.implementation: run for run in reversed(faulty)}
        names = [*dict.fromkeys(run.implementation for run in faulty)]
        slugs = ["-".join([run.implementation, *run.words]).lower() for run in faulty]
        steps = {"their logs": f"{call.plan.home}/logs/measure/"}
        steps |= {f"look into {name}": check_of(first[name]) for name in names}
        again = " ".join(names if len(faulty) > 3 else slugs)
        steps["measure again"] = f"{call.command} --again {again}"
    return [*lines, told, *_next_steps(steps), ""]


def _shown(call: Call, pdf: Path) -> list[str]:
    """The report's path, its dataset, its changed verdicts, and the next commands."""
    import pikepdf  # needed only at the end, if there is a report

    with pikepdf.open(pdf) as opened:
        pages = _plural(len(opened.pages), "page")
    logs = (log for job in call.jobs.values() if job.rule == "report" for log in job.logs)
    changed = [line.removeprefix(CHANGED) for line in _logged(*logs) if line.startswith(CHANGED)]
    logged = _logged(Path(call.plan.home, "logs", "report.log"))
    dataset, benchmark = call.plan.dataset, BENCHMARKS[call.plan.benchmark]
    of = "this machine's records" if dataset == LOCAL else f"the dataset {dataset}"
    lines = [
        *(line for line in logged if line.startswith("warning: ")),
        *(f"  {line}" if number else line for number, line in enumerate(changed)),
        f"{pdf} ({pages}) shows {of}.",
    ]
    opener = "open" if sys.platform == "darwin" else "xdg-open"
    steps = {"open it": f"{opener} {pdf}"} if shutil.which(opener) else {}
    own = results_of(LOCAL, benchmark) / pdf.name
    if dataset == LOCAL and dataset_folder(DATA, "h200", benchmark).is_dir():
        steps["see an H200's report"] = f"{call.command} --config dataset=h200"
    elif dataset != LOCAL and own.is_file():
        lines.append(f"The report on this machine's records is kept as {own}.")
        steps["show that one again"] = call.command
    return lines + _next_steps(steps)
