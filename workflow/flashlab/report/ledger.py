"""The ledger of published claims: each claim, its figure and ours, and whether it holds here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flashlab.records import Run
from flashlab.report.document import Cell, Ledger, Row, Table
from flashlab.report.material import Finding, Material
from flashlab.report.wording import Texts, sentences

ORDER = ("confirmed", "contradicted", "inconclusive", "other_device", "not_tested")
SIGNS = {"confirmed": ("✓", "up"), "contradicted": ("×", "down")}


class LedgerPage:
    """Writes the ledger."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self.words = material.words
        self.claims = [f for f in material.findings if f["kind"] == "claim"]
        self.sources = list(dict.fromkeys(f["subject"]["source"] for f in self.claims))

    def _published(self, params: Mapping[str, Any]) -> Texts:
        """The published figure with its unit; what the claim calls for where it gives none."""
        if params["published"] is None:
            return self.words.each("ledger.wanted", wanted=self._wanted(params))
        figure = self.material.number(params["published"], 4)
        return self.words.each(
            "ledger.published",
            figure=self.words.each(f"ledger.unit.{params['unit']}", figure=figure),
            device=params["published_device"] or self.words.each("unknown"),
        )

    def _wanted(self, params: Mapping[str, Any]) -> Texts:
        return self.words.claim_wanted({"params": params})

    def _run_numbers(self, finding: Finding) -> list[int]:
        names = set(finding["evidence"]["rows"].get("runs", ()))
        return [
            self.material.number_of(row)
            for row in self.material.runs
            if str(Run.from_json(row)) in names
        ]

    def _claim(self, finding: Finding) -> Texts:
        """What is claimed, with the number of its source and the place in it."""
        params = finding["params"]
        number = self.sources.index(finding["subject"]["source"]) + 1
        place = self.words.chosen(params["place"])
        return {
            language: f"{said} [{number}, {place[language]}]"
            for language, said in self.words.chosen(params["says"]).items()
        }

    def _row(self, finding: Finding) -> Row:
        words = self.words
        sign, tone = SIGNS.get(finding["verdict"], ("○", ""))
        verdict = words.each(f"verdict.{finding['verdict']}")
        runs = self._run_numbers(finding)
        return Row(
            [
                self._claim(finding),
                self._published(finding["params"]),
                words.claim_figure(finding),
                {language: f"{sign} {word}" for language, word in verdict.items()},
                Cell(str(runs[0]) + (" …" if len(runs) > 1 else ""), target=f"run-{runs[0]}")
                if runs
                else Cell("–"),
            ],
            id=f"claim-{finding['subject']['claim']}",
            tone=tone,
        )

    def _others(self, findings: Sequence[Finding]) -> list[tuple[Texts, list[Texts]]]:
        """The claims without a figure of ours, grouped by the verdict and what it is for."""
        words = self.words
        groups: dict[tuple[str, ...], list[Finding]] = {}
        for finding in findings:
            key = (finding["verdict"], *finding["reasons"])
            groups.setdefault(key, []).append(finding)
        found = []
        for (verdict, *reasons), members in groups.items():
            heading = words.each(f"verdict.{verdict}")
            if reasons:
                why = sentences(words.reasons(reasons))
                heading = words.each("ledger.heading", verdict=heading, why=why)
            found.append((heading, [self._claim(finding) for finding in members]))
        return found

    def _sources(self) -> Texts:
        """The documents that make the claims, by the numbers that the claims name."""
        titles: dict[str, dict[str, Any]] = {}
        for finding in self.claims:
            titles.setdefault(finding["subject"]["source"], finding["params"]["source_title"])
        return self.words.listed(
            [
                self.words.each(
                    "ledger.source",
                    number=number,
                    title=self.words.chosen(titles[source]),
                )
                for number, source in enumerate(self.sources, start=1)
            ]
        )

    def ledger(self) -> Ledger | None:
        """The ledger, the decided claims first; None where no claims were checked.

        On a CPU the claims without a figure of ours, which are about GPUs, are only counted.
        """
        if not self.claims:
            return None
        if not self.material.on_cpu:
            return self._of(self.claims)
        shown = [finding for finding in self.claims if finding["params"]["count"]]
        count = len(self.claims) - len(shown)
        left_out = self.words.each("ledger.left_out", count=count)
        if not shown:
            return Ledger(left_out, None, None, [])
        ledger = self._of(shown)
        if not count:
            return ledger
        return replace(ledger, summary=sentences([ledger.summary, left_out]))

    def _of(self, claims: Sequence[Finding]) -> Ledger:
        words = self.words
        counts = Counter(finding["verdict"] for finding in claims)
        outcome = [
            words.each("check.verdict", verdict=words.each(f"verdict.{verdict}"), count=count)
            for verdict in ORDER
            if (count := counts[verdict])
        ]
        summary = words.each("ledger.summary", total=len(claims), outcome=words.listed(outcome))
        ordered = sorted(claims, key=lambda finding: ORDER.index(finding["verdict"]))
        shown = [finding for finding in ordered if finding["params"]["count"]]
        others = [finding for finding in ordered if not finding["params"]["count"]]
        headings = ("claim", "published", "ours", "verdict", "run")
        columns = [words.each(f"column.{key}") for key in headings]
        table = Table(columns, [self._row(finding) for finding in shown]) if shown else None
        sources = words.each("ledger.sources", sources=self._sources())
        return Ledger(
            summary, sentences([words.each("ledger.note"), sources]), table, self._others(others)
        )
