"""Why a pass takes its time, as far as what was counted of the same run tells.

A cause is stated only of what was counted on that run; where nothing was counted, nothing is said.
Counters are samples of one pass, without an interval. So each rule has a dead zone between the
limit from which something holds and the one under which it does not (`Limits`); a value within it
decides nothing. `counted_passes` has the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from flashlab.analysis.counted_passes import CountedKernels, CountedOperators, CountedPass, spans_of
from flashlab.analysis.experiment import Experiment, Row
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import EXPERIMENTS, Given, Kind
from flashlab.analysis.series import Series, build_finding, each_series, quoted
from flashlab.analysis.settings import timed_metrics
from flashlab.telling.values import Listed, Statement, say


def _statements(series: Series, verdict: str, group: Sequence[CountedPass]) -> list[Statement]:
    """What the passes spend their time in; nothing where no rule holds clearly."""
    if verdict not in group[0].MESSAGES:
        return []
    values = quoted([series], values=Listed([each.value for each in group]))
    return [say(group[0].MESSAGES[verdict], **values, **spans_of(group))]


def causes(experiment: Experiment, given: Given) -> Iterator[Finding]:
    """What was counted of a sweep's runs tells of their times; a finding for each verdict.

    Of a GPU nothing is stated without its ceilings, or under those of another device.
    """
    names = {run["device_name"] for run in experiment.runs if run["status"] == "ok"}
    if {run["device"] for run in experiment.runs} == {"cpu"}:
        counted: Callable[[Series, Row], CountedPass | None] = partial(
            CountedOperators.of, estimates=given.estimates
        )
    elif given.ceilings and names == {given.ceilings.device_name}:
        copied = given.ceilings.copy.rate / 1e3
        counted = partial(CountedKernels.of, estimates=given.estimates, copy_bytes_per_ms=copied)
    else:
        return
    for series in each_series(experiment, timed_metrics(experiment.benchmark)):
        groups: dict[str, list[CountedPass]] = {}
        for row in series.measured_rows:
            if found := counted(series, row):
                groups.setdefault(found.verdict, []).append(found)
        for verdict, group in sorted(groups.items()):
            values = [counted.value for counted in group]
            yield build_finding(
                "cause",
                [series],
                verdict,
                statements=_statements(series, verdict, group),
                facts={"values": values},
                estimates=[counted.to_json() for counted in group],
                values=values,
                each_alone=True,
            )


CAUSE = Kind(
    label="kind.cause",
    verdicts=(*CountedKernels.MESSAGES, "elementwise", "products", "fused", "none"),
    of_experiment=[(EXPERIMENTS, causes)],
    told="in full",
)
