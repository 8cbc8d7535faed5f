"""The first lines of page one: implementations with wrong results or impossible times.

The correctness gate finds the first before the measuring; the tables find the others, by the
device's measured ceilings (`flashlab.analysis.ceilings.is_implausible`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flashlab.analysis.experiment import IMPLAUSIBLE
from flashlab.analysis.experiment import Row as RunRow
from flashlab.analysis.ratios import rounded
from flashlab.report.data import ReportData, stretches
from flashlab.report.document import Link, PrintedStatement
from flashlab.telling.values import (
    Label,
    Listed,
    Measured,
    MetricName,
    Run,
    Tellable,
    Within,
    in_turn,
    percent,
    say,
    settings,
)

MOST_NAMED = 8
"""Most runs that are named; links lead to all of them."""


def _worst(run: RunRow) -> tuple[float, str, float] | None:
    """The largest error of a run, with the tensor it is of, and the tolerance.

    None where the gate found no error, or one that is not finite.
    """
    errors = (run["gate"] or {}).get("errors", {})
    if not errors or None in errors.values():
        return None
    name = min(errors, key=lambda name: (-float(errors[name]), name))
    return float(errors[name]), name, float(run["gate"]["tolerance"])


def _wrong(data: ReportData, name: str, mine: Sequence[RunRow]) -> Tellable:
    """An implementation with wrong results: the number of settings, and the largest error."""
    wrong = [run for run in mine if run["status"] == "incorrect"]
    checked = sum(run["status"] in ("ok", "incorrect") for run in mine)
    counts: dict[str, Tellable] = {"implementation": name, "count": len(wrong), "checked": checked}
    failing = _failing(data, name, wrong)
    errors = [worst for run in wrong if (worst := _worst(run))]
    if len(errors) < len(wrong):
        return in_turn([say("correctness.wrong.unmeasured", **counts), failing])
    error, compared, tolerance = max(errors)
    # A text by language where the benchmark has words for what its gate compares.
    labels = data.benchmark.gated.get(compared)
    said = say(
        "correctness.wrong",
        **counts,
        compared=Label(labels) if labels else compared,
        error=Measured(rounded(error)),
        tolerance=f"{tolerance:g}",
    )
    return in_turn([said, failing])


def _implausible(data: ReportData, name: str, mine: Sequence[RunRow]) -> Tellable:
    """An implementation with rates beyond the device's: their number, and the highest."""
    beyond = [run for run in mine if run["status"] == IMPLAUSIBLE]
    run, warning = max(
        (
            (run, warning)
            for run in beyond
            for warning in run["warnings"]
            if warning["code"] == IMPLAUSIBLE
        ),
        key=lambda found: float(found[1]["share"]),
    )
    return say(
        "correctness.implausible",
        implementation=name,
        count=len(beyond),
        measured=sum(run["status"] in ("ok", IMPLAUSIBLE) for run in mine),
        share=percent(warning["share"]),
        part=Within(MetricName(warning["metric"], part=True)),
        where=Listed(settings(data.benchmark, data.benchmark.all_parameters(run))),
    )


def _failing(data: ReportData, name: str, runs: Sequence[RunRow]) -> Tellable:
    """The runs with wrong results, by implementation."""
    benchmark = data.benchmark
    given = [benchmark.all_parameters(run) for run in runs[:MOST_NAMED]]
    named = Listed([Run(name, settings(benchmark, each)) for each in given])
    if len(runs) > MOST_NAMED:
        return say("correctness.failing.many", runs=named, more=len(runs) - MOST_NAMED)
    return say("correctness.failing", runs=named)


def run_links(data: ReportData, runs: Sequence[RunRow]) -> list[Link]:
    """Links to runs in the appendix, one for each stretch of numbers: 3–6, 11.

    The first says what they are.
    """
    by_first = stretches(map(data.number_of, runs)).items()
    return [
        Link(f"run-{first}", text if position else say("link.runs", runs=text))
        for position, (first, text) in enumerate(by_first)
    ]


def render_wrong(data: ReportData) -> Iterator[PrintedStatement]:
    """A statement for each implementation that was wrong, then for each that was implausible."""
    for status, tell in (("incorrect", _wrong), (IMPLAUSIBLE, _implausible)):
        for name in sorted({r["implementation"] for r in data.runs if r["status"] == status}):
            mine = [run for run in data.runs if run["implementation"] == name]
            links = run_links(data, [run for run in mine if run["status"] == status])
            yield PrintedStatement(tell(data, name, mine), links, [name])
