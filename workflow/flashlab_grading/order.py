"""The order of a call: what it grades, and what it measures again (check 8, reproduction).

Submissions and their files may have any names, so Snakemake never sees them: each call writes one
order, which the rules have as input, and which its jobs read that read the rules again. The order
includes its own time, so every call grades afresh.

A sample of the declared runs is measured here with the ``lab5`` protocol. On the device that a
submission names, times must agree within `TOLERANCE`; those of other devices are not compared.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.config import ConfigError
from flashlab.files import read_json, write_json
from flashlab.lab5.assigning import Option, stated
from flashlab.lab5.checks import Line, Verdict
from flashlab.lab5.results import Result
from flashlab.lab5.words import described
from flashlab.plan.experiments import protocol_of
from flashlab.plan.make import planned_device
from flashlab.plan.runs import Namer
from flashlab.records import Record, read_record
from flashlab.runs import Run
from flashlab_grading.checks import LAUNCH_SECONDS, PASSES, GradingError, kind_of_device

ORDER, RECORDS = Path("results/grading/order.json"), Path("results/local/records")
LOCAL = "local"
TOLERANCE = 0.25
DISTURBANCES = {"cpu_load", "shared_device"}
"""Warnings in a record that mean that other processes were using the machine."""

Measured = tuple[Option, Record]
"""A run that was measured here, and its record."""


def _refusals(config: Mapping[str, Any]) -> Iterator[str]:
    """The reasons why what is to be graded does not exist or cannot be measured here."""
    submissions, pdf = config.get("submissions"), config.get("pdf")
    if submissions is not None and not Path(submissions).is_dir():
        yield f"submissions: there is no folder {submissions}"
    if pdf is not None and not Path(pdf).is_file():
        yield f"pdf: there is no file {pdf}"
    if submissions is not None and pdf is not None:
        yield "give either submissions=DIR or pdf=PATH"
    if "reproduce" in config and submissions is None:
        yield "reproduce: there is nothing to measure again; give submissions=DIR, or leave it out"
    if "reproduce" in config and (config["dataset"] != LOCAL or "import" in config):
        yield "reproduce: it measures on this machine; leave out dataset= and import="


def _declared(results: Iterable[Result], here: str) -> list[tuple[Option, Result]]:
    """The results declared to be of the device `here`, by a row, a record, or their names."""
    runs, kind = ((stated(r.told), r) for r in results), kind_of_device(here)
    return [(run, r) for run, r in runs if run and kind_of_device(r.said.get("device")) == kind]


def choose(
    results: Iterable[tuple[bool, Result]], here: str, count: int, seed: int
) -> list[Option]:
    """A sample of `count` runs declared to be of the device `here`, alike for a seed and class.

    Each result comes with whether its submission is accused: those runs come first, and the seed
    decides within both. Runs that are mostly launches and kernels that are not here are left out.
    """
    known, runs = find_implementations(), dict[Option, bool]()
    for is_accused, result in results:
        for run, _ in _declared([result], here):
            if run[0] in known and max(map(result.seconds.__getitem__, PASSES)) >= LAUNCH_SECONDS:
                runs[run] = is_accused or runs.get(run, False)
    chosen = sorted(runs)
    random.Random(seed).shuffle(chosen)
    return sorted(chosen, key=lambda run: not runs[run])[:count]


def _sample(config: Mapping[str, Any], here: str) -> list[Option]:
    """The runs to measure again, of results whose numbers are consistent; ConfigError for none."""
    # What reads submissions takes long to import, and few calls need it.
    from flashlab_grading.copies import published_times
    from flashlab_grading.submissions import check_apart, find_submissions, grade_checked

    folder, results = config["submissions"], list[tuple[bool, Result]]()
    try:
        checked = check_apart(folder, find_submissions(folder)[0], config["grading"].get("device"))
        for own in grade_checked(checked, published_times()):
            sound = {x.file for x in own.lines if (x.check, x.verdict) == ("arithmetic", "pass")}
            accusing = {x.check for x in own.lines if x.verdict == "fail"} - {"form", "coverage"}
            results += [(bool(accusing), result) for result in own.results if result.name in sound]
    except GradingError as error:
        raise ConfigError(f"--config: submissions: {error}") from error
    if chosen := choose(results, here, config["reproduce"], config["grading"]["seed"]):
        return chosen
    raise ConfigError(
        "--config: reproduce: no submission has a declared run of 0.3 ms or more on this machine's "
        f"device, {here}. Leave out reproduce=, or run this where the results are from; runs.csv, "
        "or grading: {device: …} for a whole class, names their device"
    )


def order_grading(config: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Write the order for ``submissions=DIR`` or ``pdf=PATH`` below `root`, with what it measures.

    Returns it. Its `kind` says which of the two is graded; `orders` are the orders to measure by
    the record's path, `measured` each run and that path. How many runs will be measured is printed.

    ConfigError if the folder or file does not exist or cannot be read, or if ``reproduce`` is given
    without submissions, with a recorded dataset, or for results of other devices than this.
    """
    for reason in _refusals(config):
        raise ConfigError(f"--config: {reason}")
    kind = "submissions" if "submissions" in config else "pdf"
    device, here = planned_device(config)
    dtype = ATTENTION.dtypes[device] if config["dtype"] == "auto" else config["dtype"]
    # The course's own protocol, because its results are what is compared.
    protocol = protocol_of({"measure": {**config["measure"], "protocol": "lab5"}}, device)
    chosen = _sample(config, here) if "reproduce" in config else []
    namer = Namer(ATTENTION, find_implementations(), RECORDS, here)
    entries = [namer.entry(attention_run(*option, dtype, device), protocol) for option in chosen]
    if entries:
        missing = sum(not entry.path.exists() for entry in entries)
        said = f"reproduce: {len(entries)} runs, {missing} of them still to be measured"
        print(said, file=sys.stderr)
    document = {
        **{"called_ns": time.time_ns(), "kind": kind, kind: config[kind], "here": here},
        **{"device": config["grading"].get("device"), "seed": config["grading"]["seed"]},
        "languages": config["languages"],
        "orders": {entry.path.as_posix(): namer.order(entry) for entry in entries},
        "measured": [{"run": e.run.to_json(), "path": e.path.as_posix()} for e in entries],
    }
    write_json(root / ORDER, document)
    return document


def kept_order() -> dict[str, Any]:
    """The order of the call that this job belongs to."""
    return dict(read_json(ORDER))


def measured_of(order: Mapping[str, Any]) -> list[Measured]:
    """The measurements made for an order; RecordError if one is missing or of another run."""
    runs = [(Run.of(ATTENTION, each["run"]), Path(each["path"])) for each in order["measured"]]
    return [((run.implementation, Shape.of(run)), read_record(path, run)) for run, path in runs]


def _compared(result: Result, record: Record) -> Line:
    """A line for a file, whose run was measured on the same device, by its passes that are long."""
    code = "too_short" if record.status == "ok" else "not_measured"
    params, texts, most = {"run": described(result.told), "status": record.status}, ("", ""), -1.0
    for name in PASSES if record.status == "ok" else ():
        mine, theirs = record.metrics[f"{name}_time"].value / 1e3, result.seconds[name]
        if max(mine, theirs) >= LAUNCH_SECONDS and (off := abs(theirs / mine - 1)) > most:
            is_disturbed = any(warning["code"] in DISTURBANCES for warning in record.warnings)
            code = "pass" if off <= TOLERANCE else "disturbed" if is_disturbed else "fail"
            params |= {"tolerance": f"{TOLERANCE:.0%}", "pass": name}
            most, texts = off, (f"{mine * 1e3:.4g} ms", f"{theirs * 1e3:.4g} ms")
    verdict: Verdict = "pass" if code == "pass" else "fail" if code == "fail" else "not_checked"
    return Line(verdict, f"reproduction.{code}", result.name, params, *texts)


def check_reproduction(
    results: Iterable[Result], measured: Sequence[Measured], here: str
) -> list[Line]:
    """Lines that compare a submission's files with the runs measured on the device `here`."""
    records, declared = dict(measured), _declared(results, here) if measured else []
    lines = [_compared(result, records[run]) for run, result in declared if run in records]
    code = "reproduction.none_sampled" if measured else "reproduction.not_asked"
    return lines or [Line("not_checked", code)]
