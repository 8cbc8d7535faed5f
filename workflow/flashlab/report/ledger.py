"""The ledger of published claims: each claim, its figure and ours, and whether it holds here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from flashlab.analysis.finding import Finding
from flashlab.report.data import ReportData
from flashlab.report.document import Cell, Ledger, Row, table_of
from flashlab.report.statements import told_reasons
from flashlab.telling.codes import VERDICTS
from flashlab.telling.values import Listed, Tellable, in_turn, say

ORDER = ("confirmed", "contradicted", "ambiguous", "inconclusive", "other_device", "not_tested")
DECIDED = ("confirmed", "contradicted", "ambiguous")
SIGNS = {"confirmed": ("✓", "up"), "contradicted": ("×", "down"), "other_device": ("–", "")}
UNDECIDED = ("○", "")
"""The sign of a verdict, and the tone of its row; of all other verdicts."""


def render_ledger(data: ReportData) -> Ledger | None:
    """The ledger, the decided claims first; None where no claims were checked.

    On a CPU the claims without a figure of ours, which are about GPUs, are only counted.
    """
    every = data.of_kind("claim")
    if not every:
        return None
    claims = [claim for claim in every if "figure" in claim.facts or not data.on_cpu]
    claims.sort(key=lambda claim: ORDER.index(claim.verdict))
    count = len(every) - len(claims)
    left_out = [say("ledger.left_out", count=count)] if count else []
    if not claims:
        return Ledger(in_turn(left_out), None, None, None, [])
    tested = [claim for claim in claims if "figure" in claim.facts]
    others = [claim for claim in claims if "figure" not in claim.facts]
    decided = [claim for claim in tested if claim.verdict in DECIDED]
    # The documents that make the claims are named by numbers.
    documents = dict.fromkeys(claim.subject["source"] for claim in every)
    numbers = {source: number for number, source in enumerate(documents, start=1)}

    def told(claim: Finding) -> Tellable:
        """What is claimed, with the number of its source and the place in it."""
        number, facts = numbers[claim.subject["source"]], claim.facts
        return Listed([facts["says"], f" [{number}, ", facts["place"], "]"], "")

    def sources(claims: Sequence[Finding]) -> Tellable:
        titles = {numbers[claim.subject["source"]]: claim.facts["source"] for claim in claims}
        named = [
            say("ledger.source", number=number, title=title)
            for number, title in sorted(titles.items())
        ]
        return say("ledger.sources", sources=Listed(named))

    rows, short = [], []
    for claim in tested:
        sign, tone = SIGNS.get(claim.verdict, UNDECIDED)
        facts, verdict = claim.facts, Listed([f"{sign} ", say(VERDICTS[claim.verdict])], "")
        runs = sorted(data.number_of({"record": record}) for record in facts["records"])
        first = Cell(f"{runs[0]}{' …' * (len(runs) > 1)}", target=f"run-{runs[0]}") if runs else "–"
        cells = [told(claim), facts["published"], facts["figure"], verdict, first]
        rows.append(Row(cells, id=f"claim-{claim.subject['claim']}", tone=tone))
        if claim in decided:
            short.append(Row([told(claim), facts["compared"], facts["in_short"], sign], tone=tone))
    groups: dict[str, list[Finding]] = {}
    for claim in others:
        groups.setdefault(f"{claim.verdict} {claim.reasons}", []).append(claim)
    columns = ("column.claim", "column.published", "column.ours", "column.verdict", "column.run")
    short_columns = ("column.claim", "column.compared", "column.ours", "column.verdict")
    return Ledger(
        summary=in_turn([_summary(data, tested, others), *left_out]),
        note=in_turn([say("ledger.note"), sources(claims)]),
        short=table_of(short_columns, short),
        table=table_of(columns, rows),
        others=[(_heading(data, of[0]), [*map(told, of)]) for of in groups.values()],
        sources=sources(decided),
    )


def _summary(data: ReportData, tested: Sequence[Finding], others: Sequence[Finding]) -> Tellable:
    """How many claims could be compared with this dataset, and what came of it."""
    total = len(tested) + len(others)
    if all(claim.verdict == "other_device" for claim in tested):
        return say("ledger.summary.none", total=total)
    counts = Counter(claim.verdict for claim in tested)
    elsewhere = counts.pop("other_device", 0)
    outcome = [
        say(
            "ledger.outcome",
            sign=SIGNS.get(verdict, UNDECIDED)[0],
            verdict=say(VERDICTS[verdict]),
            count=count,
        )
        for verdict in ORDER
        if (count := counts[verdict])
    ]
    values: dict[str, Tellable] = {
        "total": total,
        "tested": counts.total(),
        "outcome": Listed(outcome),
    }
    told = [say("ledger.summary", **values)]
    devices = {claim.facts["device"] for claim in [*tested, *others]}
    if len(devices) == 1 and "" not in devices:
        here = ", ".join(data.distinct("device_name"))
        told = [say("ledger.summary.device", device=devices.pop(), here=here, **values)]
    if elsewhere:
        told.append(say("ledger.other_device", count=elsewhere))
    if others:
        told.append(say("ledger.untested", count=len(others)))
    return in_turn(told)


def _heading(data: ReportData, claim: Finding) -> Tellable:
    """What came of claims without a figure of ours, and why."""
    heading = say(VERDICTS[claim.verdict])
    if not claim.reasons:
        return heading
    why = in_turn(told_reasons(data.benchmark, claim.reasons))
    return say("ledger.heading", verdict=heading, why=why)
