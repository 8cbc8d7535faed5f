"""The ledger of published claims: each claim, its figure and ours, and whether it holds here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from flashlab.analysis.finding import Finding
from flashlab.report.data import ReportData
from flashlab.report.document import Cell, Ledger, Row, Table, table_of
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
    claims = [finding for finding in data.findings if finding.kind == "claim"]
    if not claims:
        return None
    shown = [claim for claim in claims if "figure" in claim.facts or not data.on_cpu]
    count = len(claims) - len(shown)
    left_out = say("ledger.left_out", count=count)
    if not shown:
        return Ledger(left_out, None, None, None, [])
    sources = list(dict.fromkeys(claim.subject["source"] for claim in claims))
    ledger = _LedgerRenderer(data, sources).ledger(shown)
    return replace(ledger, summary=in_turn([ledger.summary, left_out])) if count else ledger


@dataclass(frozen=True)
class _LedgerRenderer:
    """Renders claims; `sources` are the documents that make them, which numbers name from 1."""

    data: ReportData
    sources: Sequence[str]

    def ledger(self, claims: Sequence[Finding]) -> Ledger:
        ordered = sorted(claims, key=lambda claim: ORDER.index(claim.verdict))
        shown = [claim for claim in ordered if "figure" in claim.facts]
        others = [claim for claim in ordered if "figure" not in claim.facts]
        decided = [claim for claim in shown if claim.verdict in DECIDED]
        keys = ("column.claim", "column.published", "column.ours", "column.verdict", "column.run")
        table = table_of(keys, [self._row(claim) for claim in shown])
        return Ledger(
            self._summary(shown, others),
            in_turn([say("ledger.note"), self._sources(claims)]),
            self._short(decided),
            table,
            self._others(others),
            self._sources(decided),
        )

    def _short(self, decided: Sequence[Finding]) -> Table | None:
        """The decided claims: claim, what is compared, our figure, sign."""
        rows = []
        for claim in decided:
            sign, tone = SIGNS.get(claim.verdict, UNDECIDED)
            told = [claim.facts[key] for key in ("compared", "in_short")]
            rows.append(Row([self._claim(claim), *told, sign], tone=tone))
        keys = ("column.claim", "column.compared", "column.ours", "column.verdict")
        return table_of(keys, rows)

    def _summary(self, tested: Sequence[Finding], others: Sequence[Finding]) -> Tellable:
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
            here = ", ".join(self.data.distinct("device_name"))
            told = [say("ledger.summary.device", device=devices.pop(), here=here, **values)]
        if elsewhere:
            told.append(say("ledger.other_device", count=elsewhere))
        if others:
            told.append(say("ledger.untested", count=len(others)))
        return in_turn(told)

    def _claim(self, claim: Finding) -> Tellable:
        """What is claimed, with the number of its source and the place in it."""
        number = self.sources.index(claim.subject["source"]) + 1
        facts = claim.facts
        return Listed([facts["says"], f" [{number}, ", facts["place"], "]"], "")

    def _row(self, claim: Finding) -> Row:
        sign, tone = SIGNS.get(claim.verdict, UNDECIDED)
        verdict = say(VERDICTS[claim.verdict])
        records = claim.facts["records"]
        runs = sorted(self.data.number_of({"record": record}) for record in records)
        return Row(
            [
                self._claim(claim),
                claim.facts["published"],
                claim.facts["figure"],
                Listed([f"{sign} ", verdict], ""),
                Cell(f"{runs[0]}{' …' * (len(runs) > 1)}", target=f"run-{runs[0]}")
                if runs
                else "–",
            ],
            id=f"claim-{claim.subject['claim']}",
            tone=tone,
        )

    def _others(self, claims: Sequence[Finding]) -> list[tuple[Tellable, list[Tellable]]]:
        """The claims without a figure of ours, grouped by the verdict and what it is for."""
        groups: dict[str, list[Finding]] = {}
        for claim in claims:
            groups.setdefault(f"{claim.verdict} {claim.reasons}", []).append(claim)
        found = []
        for members in groups.values():
            verdict, reasons = members[0].verdict, members[0].reasons
            heading: Tellable = say(VERDICTS[verdict])
            if reasons:
                why = in_turn(told_reasons(self.data.benchmark, reasons))
                heading = say("ledger.heading", verdict=heading, why=why)
            found.append((heading, [self._claim(claim) for claim in members]))
        return found

    def _sources(self, claims: Sequence[Finding]) -> Tellable:
        """The documents that make the claims, by the numbers that the claims name."""
        titles: dict[str, Tellable] = {}
        for claim in claims:
            titles.setdefault(claim.subject["source"], claim.facts["source"])
        named = [
            say("ledger.source", number=number, title=titles[source])
            for number, source in enumerate(self.sources, start=1)
            if source in titles
        ]
        return say("ledger.sources", sources=Listed(named))
