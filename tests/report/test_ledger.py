"""The ledger of published claims: all of them on a GPU, the decided ones on a CPU."""

from __future__ import annotations

from typing import Any

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
        finding["params"] |= {"count": 1, "ours": 2.0, "ours_low": None, "ours_high": None}
        finding["params"] |= {"ours_lowest": 2.0, "ours_highest": 2.0, "held_count": 1}
        reading = {"compare": "times", "protocol": "sampled", "leans": "confirmed"}
        finding["params"]["readings"] = [reading | finding["params"]]
    write_json(results.local / "findings.json", findings)


def test_on_a_cpu_the_claims_are_counted_and_not_listed(results: Any) -> None:
    claims = [finding for finding in results.findings() if finding["kind"] == "claim"]
    found = ledger(results)
    assert (found.table, found.note, found.others) == (None, None, [])
    for language in ("zh_TW", "en"):
        assert str(len(claims)) in found.summary[language]
        assert "data/published/claims.yaml" in found.summary[language]
        assert "dataset=h200" in found.summary[language]


def test_a_claim_that_is_decided_on_a_cpu_stays(results: Any) -> None:
    decide(results, count=2)
    found = ledger(results)
    assert found.table is not None and len(found.table.rows) == 2
    assert found.note is not None and found.others == []
    assert found.short is not None and len(found.short.rows) == 2
    assert len(found.short.columns) == 4
    assert all(row.cells[1]["en"] for row in found.short.rows)  # what is compared
    assert found.summary["en"].startswith("2 of 2 published claims")
    assert "data/published/claims.yaml" in found.summary["en"]


def test_claims_about_another_device_do_not_count_as_checked(results: Any) -> None:
    results.change_all_runs({"device": "cuda"})
    decide(results, count=3)
    findings = results.findings()
    next(f for f in findings if f["kind"] == "claim")["verdict"] = "other_device"
    write_json(results.local / "findings.json", findings)
    found = ledger(results)
    assert found.summary["en"].startswith("2 of ")
    assert found.summary["en"].endswith("1 more are about another device and are not judged.")


def test_on_a_gpu_every_claim_is_listed(results: Any) -> None:
    results.change_all_runs({"device": "cuda"})
    found = ledger(results)
    assert found.table is None
    claims = [finding for finding in results.findings() if finding["kind"] == "claim"]
    assert found.summary["en"].startswith(f"None of the {len(claims)} published claims could be")
    assert sum(len(members) for _, members in found.others) == len(claims)
