"""Which implementations gave wrong results, or times in which nothing could give right ones.

The correctness gate finds the first before the measuring; the tables find the others, by the
device's measured ceilings (`flashlab.analysis.ceilings.is_implausible`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flashlab.analysis.experiment import IMPLAUSIBLE, Experiment, Row
from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.kind import EVERY, Given, Kind
from flashlab.analysis.ratios import EVIDENCE_DIGITS, rounded
from flashlab.analysis.settings import distinct_runs, given_parameters
from flashlab.benchmarks.model import Benchmark
from flashlab.telling.values import (
    Label,
    Listed,
    Measured,
    MetricName,
    Tellable,
    Within,
    percent,
    say,
    settings,
)


def _worst(row: Row) -> tuple[str, float] | None:
    """What was wrong by most, and its error; None where the gate found no error that is a number.

    An error that is not finite is none either.
    """
    errors = (row["gate"] or {}).get("errors", {})
    known = {name: error for name, error in errors.items() if error is not None}
    if not known or None in errors.values():
        return None
    name = min(known, key=lambda name: (-float(known[name]), name))
    return name, float(known[name])


def _wrong(benchmark: Benchmark, name: str, mine: Sequence[tuple[Experiment, Row]]) -> Finding:
    wrong = [(experiment, row) for experiment, row in mine if row["status"] == "incorrect"]
    reasons, estimates, errors = [], [], []
    for experiment, row in wrong:
        given = benchmark.all_parameters(given_parameters(experiment, row))
        reasons.append(Reason("incorrect", {"implementation": name, **given}))
        estimate: dict[str, Any] = {"run": given, "message": row["message"]}
        if (worst := _worst(row)) is not None:
            tolerance = float(row["gate"]["tolerance"])
            estimate |= {
                "compared": worst[0],
                "estimate": rounded(worst[1], EVIDENCE_DIGITS),
                "tolerance": tolerance,
            }
            errors.append((worst[1], worst[0], tolerance))
        estimates.append(estimate)
    checked = sum(row["status"] in ("ok", "incorrect") for _, row in mine)
    counts: dict[str, Tellable] = {"implementation": name, "count": len(wrong), "checked": checked}
    told = say("correctness.wrong.unmeasured", **counts)
    if len(errors) == len(wrong):
        error, compared, tolerance = max(errors)
        # A text by language where the benchmark has words for what its gate compares.
        labels = benchmark.gated.get(compared)
        told = say(
            "correctness.wrong",
            **counts,
            compared=Label(labels) if labels else compared,
            error=Measured(rounded(error)),
            tolerance=f"{tolerance:g}",
        )
    about = {"implementation": name}
    return Finding(
        "correctness", None, about, "wrong", [told], estimates=estimates, reasons=reasons
    )


def _implausible(
    benchmark: Benchmark, name: str, mine: Sequence[tuple[Experiment, Row]]
) -> Finding:
    beyond = [(experiment, row) for experiment, row in mine if row["status"] == IMPLAUSIBLE]
    reasons, estimates = [], []
    for experiment, row in beyond:
        given = benchmark.all_parameters(given_parameters(experiment, row))
        reasons.append(Reason(IMPLAUSIBLE, {"implementation": name, **given}))
        warnings = (w for w in row["warnings"] if w["code"] == IMPLAUSIBLE)
        highest = max(warnings, key=lambda warning: float(warning["share"]))
        estimates.append({"run": given, "metric": highest["metric"], "estimate": highest["share"]})
    most = max(estimates, key=lambda each: float(each["estimate"]))
    told = say(
        "correctness.implausible",
        implementation=name,
        count=len(beyond),
        measured=sum(row["status"] in ("ok", IMPLAUSIBLE) for _, row in mine),
        share=percent(most["estimate"]),
        part=Within(MetricName(most["metric"], part=True)),
        where=Listed(settings(benchmark, most["run"])),
    )
    about = {"implementation": name}
    return Finding(
        "correctness", None, about, IMPLAUSIBLE, [told], estimates=estimates, reasons=reasons
    )


def correctness(experiments: Sequence[Experiment], _: Given) -> Iterator[Finding]:
    """A finding for each implementation that was wrong, or implausible; one on the other runs."""
    runs = distinct_runs(experiments)
    for status, find in (("incorrect", _wrong), (IMPLAUSIBLE, _implausible)):
        for name in sorted({row["implementation"] for _, row in runs if row["status"] == status}):
            mine = [pair for pair in runs if pair[1]["implementation"] == name]
            yield find(experiments[0].benchmark, name, mine)
    if right := sum(row["status"] == "ok" for _, row in runs):
        yield Finding("correctness", None, {}, "none", facts={"checked": right})


CORRECTNESS = Kind(
    label="kind.correctness",
    verdicts=("wrong", IMPLAUSIBLE, "none"),
    of_dataset=[(EVERY, correctness)],
)
