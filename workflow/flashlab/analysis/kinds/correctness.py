"""Which implementations gave wrong results, by the correctness gate before the measuring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flashlab.analysis.experiment import Experiment, Row
from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.kind import EVERY, Given, Kind
from flashlab.analysis.ratios import EVIDENCE_DIGITS, rounded
from flashlab.analysis.settings import distinct_runs, given_parameters
from flashlab.benchmarks.model import Benchmark
from flashlab.telling.values import Label, Measured, Tellable, say


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


def correctness(experiments: Sequence[Experiment], _: Given) -> Iterator[Finding]:
    """A finding for each implementation that was wrong, and one on the runs that were not."""
    runs = distinct_runs(experiments)
    names = sorted({row["implementation"] for _, row in runs if row["status"] == "incorrect"})
    for name in names:
        mine = [pair for pair in runs if pair[1]["implementation"] == name]
        yield _wrong(experiments[0].benchmark, name, mine)
    if right := sum(row["status"] == "ok" for _, row in runs):
        yield Finding("correctness", None, {}, "none", facts={"checked": right})


CORRECTNESS = Kind(
    label="kind.correctness",
    verdicts=("wrong", "none"),
    of_dataset=[(EVERY, correctness)],
)
