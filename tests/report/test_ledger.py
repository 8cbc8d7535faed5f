"""The ledger of published claims: all of them on a GPU, the decided ones on a CPU."""

from __future__ import annotations

from typing import Any

from report.reading import en

from flashlab.files import write_json
from flashlab.report.document import Ledger


def ledger(results: Any) -> Ledger:
    found: Ledger = results.compose().ledger
    return found


def decide(results: Any, count: int) -> None:
    """Give the first claims of the findings a figure and a verdict."""
    findings = results.findings()
    for finding in [f for f in findings if f["kind"] == "claim"][:count]:
        finding["verdict"] = "confirmed"
        finding["facts"] |= {"figure": "2.00", "compared": "A ÷ B", "in_short": "2.00×"}
        finding["facts"]["records"] = []
    write_json(results.local / "findings.json", findings)


def test_a_claim_that_is_decided_on_a_cpu_stays(results: Any) -> None:
    decide(results, count=2)
    found = ledger(results)
    assert found.table is not None and len(found.table.rows) == 2
    assert found.note is not None and found.others == []
    assert found.short is not None and len(found.short.rows) == 2
    assert len(found.short.columns) == 4
    assert all(row.cells[1] == "A ÷ B" for row in found.short.rows)
    assert en(found.summary).startswith("All 2 claims come from one device, RTX 3070; 2 of 2 ")
    assert "data/published/claims.yaml" in en(found.summary)


def test_claims_about_another_device_do_not_count_as_checked(results: Any) -> None:
    results.change_all_runs({"device": "cuda"})
    decide(results, count=3)
    findings = results.findings()
    next(f for f in findings if f["kind"] == "claim")["verdict"] = "other_device"
    write_json(results.local / "findings.json", findings)
    found = ledger(results)
    assert en(found.summary).startswith("All 35 claims come from one device, RTX 3070; 2 of 35")
    assert en(found.summary).endswith("which are not judged: 1. Not tested: 32.")
