"""The ledger of published claims on a CPU; what it says of a GPU, golden texts tell."""

from __future__ import annotations

from typing import Any

from report.reading import en

from flashlab.files import write_json


def test_a_claim_that_is_decided_on_a_cpu_stays(results: Any) -> None:
    findings = results.findings()
    for finding in [f for f in findings if f["kind"] == "claim"][:2]:
        finding["verdict"] = "confirmed"
        told = {"figure": "2.00", "compared": "A ÷ B", "in_short": "2.00×", "records": []}
        finding["facts"] |= told
    write_json(results.local / "findings.json", findings)
    found = results.compose().ledger
    assert len(found.table.rows) == 2 and found.note is not None and found.others == []
    assert len(found.short.columns) == 4
    assert [row.cells[1] for row in found.short.rows] == ["A ÷ B"] * 2
    assert en(found.summary).startswith("All 2 claims come from one device, RTX 3070; 2 of 2 ")
    assert "data/published/claims.yaml" in en(found.summary)
