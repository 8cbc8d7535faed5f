"""Findings in words: the form that each one's parameters and reasons call for."""

from __future__ import annotations

from typing import Any

import pytest

from flashlab.report.wording import MOST_NAMED, Words

WORDS = Words(["zh_TW", "en"])
SUBJECT = {"implementation": "Flash2", "baseline": "Pytorch", "pass": "forward", "mask": "full"}


def said(kind: str, verdict: str, reasons: list[str], **params: Any) -> dict[str, str]:
    finding = {"kind": kind, "verdict": verdict, "subject": SUBJECT, "params": params}
    return WORDS.finding({**finding, "reasons": reasons}, "N")


def test_a_run_left_out_is_named_with_its_status_in_each_language() -> None:
    texts = said("speedup", "inconclusive", ["excluded: Pytorch full seq_len=512: oom"], count=0)
    assert "Pytorch (full) at N = 512 (out of memory)" in texts["en"]
    assert "Pytorch（完整）的 N = 512（記憶體不足）" in texts["zh_TW"]


def test_a_run_that_a_claim_lacks_is_named_by_its_shape() -> None:
    run = "Flash2 B16 N128 H32 E2048 full float16 cuda"
    texts = said("speedup", "inconclusive", [f"missing: {run}", f"excluded: {run}: oom"], count=0)
    assert f"Missing: {run}." in texts["en"]
    assert f"{run} (out of memory)" in texts["en"]


@pytest.mark.parametrize("kind", ["missing", "excluded"])
def test_of_many_runs_without_numbers_some_are_named_and_the_others_counted(kind: str) -> None:
    status = ": oom" if kind == "excluded" else ""
    reasons = [f"{kind}: Flash2 B{b} N128 H32 E2048 full float16 cuda{status}" for b in range(20)]
    text = said("speedup", "inconclusive", reasons, count=0)["en"]
    assert text.count("Flash2 B") == MOST_NAMED
    assert text.endswith(f"and {20 - MOST_NAMED} more.")


def test_what_else_a_verdict_rests_on_is_said_after_it() -> None:
    text = said("speedup", "inconclusive", ["no_samples"], count=0)["en"]
    assert text.endswith("The records hold means without samples, so there is no interval.")


@pytest.mark.parametrize(
    ("agrees", "differs", "expected"),
    [
        ([128], [], "At N = 128 both peaks are what the exact model gives."),
        ([], [128], "At N = 128 the peaks are not what the exact model gives."),
    ],
)
def test_memory_is_held_against_the_model(
    agrees: list[int], differs: list[int], expected: str
) -> None:
    params = {"count": 1, "first": 128, "low": 0.5}
    at = {"model_agrees_at": agrees, "model_differs_at": differs}
    assert said("memory_ratio", "less", [], **params, **at)["en"].endswith(expected)
