"""From which value of a sweep on a rate stays within the margin of its highest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import SWEEPS, Given, Kind
from flashlab.analysis.rates import rate_metrics, rates_of
from flashlab.analysis.ratios import Ratio, rounded, without_samples
from flashlab.analysis.series import Series, build_finding, each_series, quoted
from flashlab.telling.values import Measured, Statement, say

FEWEST_SIZES = 3


def _verdict(found: Mapping[int, Ratio], best: int) -> tuple[str, int | None]:
    """What the shares of the highest rate amount to, and from which value on it is reached."""
    values = list(found)
    reached = values[-1]
    for value in reversed(values):
        if found[value].verdict != "equal":
            break
        reached = value
    last, before = found[values[-1]], found[values[-2]]
    if last.verdict == "below":
        return "falls", None
    if last.verdict == "inconclusive":
        return "inconclusive", None
    if reached != values[-1]:
        blocked = values.index(reached) and found[values[values.index(reached) - 1]]
        if blocked and blocked.verdict == "inconclusive":
            return "inconclusive", None
        return "reached", reached
    if before.verdict == "inconclusive":
        return "inconclusive", None
    return ("rising" if best == values[-1] else "uneven"), None


def _statements(
    series: Series, verdict: str, reached: int | None, best: int, last: Ratio
) -> Iterator[Statement]:
    """Where the rate is at its highest, or where it falls; of the rest nothing is told."""
    if verdict == "reached" and reached is not None:
        yield say("saturation.reached", **quoted([series]), **{"from": reached})
    elif verdict == "falls":
        share = Measured(rounded(100 * last.ratio))
        yield say("saturation.falls", **quoted([series], best=best, last=last.value, share=share))


def saturations(sweep: Sweep, given: Given) -> Iterator[Finding]:
    """Where the rate of each series is at its highest."""
    for series in each_series(sweep, rate_metrics(sweep)):
        rates = rates_of(series, given.estimates)
        if len(rates.estimates) < FEWEST_SIZES:
            continue
        best = max(rates.estimates, key=rates.median)
        shares = {value: rates.over(value, best) for value in sorted(rates.estimates)}
        verdict, reached = _verdict(shares, best)
        first, *_, last = shares.values()
        yield build_finding(
            "saturation",
            [series],
            verdict,
            statements=list(_statements(series, verdict, reached, best, last)),
            facts={"first": first.value, "from": reached, "share": rounded(100 * last.ratio)},
            estimates=[share.to_json() for share in shares.values()],
            reasons=without_samples(share for value, share in shares.items() if value != best),
        )


def _strength(finding: Finding) -> float:
    """How far a rate falls; else whether it is at its highest from some value on."""
    if finding.verdict == "falls":
        return float(100 / finding.facts["share"])
    return float(finding.facts["from"] != finding.facts["first"])


SATURATION = Kind(
    label="kind.saturation",
    verdicts=("reached", "rising", "uneven", "falls", "inconclusive"),
    of_experiment=[(SWEEPS, saturations)],
    told="briefly",
    strength=_strength,
)
