"""Findings in words: the form that each one's parameters and reasons call for."""

from __future__ import annotations

from typing import Any

import pytest

from flashlab.report.wording import MOST_NAMED, Words

WORDS = Words(["zh_TW", "en"])
SUBJECT = {
    **{"implementation": "Flash2", "baseline": "Pytorch"},
    **{"pass": "forward", "mask": "full"},
}


GROWTH = {"count": 4, "first": 128, "last": 1024}


def said(
    kind: str, verdict: str, reasons: list[str], *, quantity: str = "forward", **params: Any
) -> dict[str, str]:
    subject = SUBJECT | {"quantity": quantity}
    finding = {"kind": kind, "verdict": verdict, "subject": subject, "params": params}
    return WORDS.finding({**finding, "reasons": reasons}, "N")


def test_a_run_left_out_is_named_with_its_status_in_each_language() -> None:
    texts = said("speedup", "inconclusive", ["excluded: Pytorch full seq_len=512: oom"], count=0)
    assert "Pytorch (full) at N = 512 (out of memory)" in texts["en"]
    assert "Pytorch（完整）在 N = 512（記憶體不足）" in texts["zh_TW"]


def test_a_run_that_a_claim_lacks_is_named_by_its_shape() -> None:
    run = "Flash2 B16 N128 H32 E2048 full float16 cuda"
    texts = said("speedup", "inconclusive", [f"missing: {run}", f"excluded: {run}: oom"], count=0)
    named = "Flash2 [B = 16, N = 128, H = 32, E = 2048, full, float16, cuda]"
    assert f"Missing: {named}." in texts["en"]
    assert f"{named} (out of memory)" in texts["en"]
    assert "Flash2 [B = 16、N = 128、H = 32、E = 2048、完整、float16、cuda]" in texts["zh_TW"]


@pytest.mark.parametrize("kind", ["missing", "excluded"])
def test_of_many_runs_without_numbers_some_are_named_and_the_others_counted(kind: str) -> None:
    status = ": oom" if kind == "excluded" else ""
    reasons = [f"{kind}: Flash2 B{b} N128 H32 E2048 full float16 cuda{status}" for b in range(20)]
    text = said("speedup", "inconclusive", reasons, count=0)["en"]
    assert text.count("Flash2 [B") == MOST_NAMED
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


# Numbers


@pytest.mark.parametrize(
    ("name", "value", "printed"),
    [
        ("times", 4.0, "4.00"),
        ("times", 0.5, "0.500"),
        ("times", 0.00976, "0.00976"),
        ("times", 12.5, "12.5"),
        ("times", 1230.0, "1,230"),
        ("times", 0.0, "0.00"),
        ("exponent", 2.0, "2.00"),
        ("local", [0.1, 1.25], "0.10, 1.25"),
        ("times_size", 8.0, "8"),
        ("count", 4, "4"),
    ],
)
def test_a_number_keeps_the_zeros_that_it_was_rounded_to(
    name: str, value: Any, printed: str
) -> None:
    assert WORDS._printed_params({name: value})[name]["en"] == printed


@pytest.mark.parametrize(
    ("high", "expected"),
    [(0.502, "0.500 (N = 128) to 0.502 (N = 256) times it"), (0.5, "at 0.500 times it")],
)
def test_a_range_whose_ends_print_alike_is_one_number(high: float, expected: str) -> None:
    params = {"count": 2, "values": [128, 256], "low": 0.5, "low_at": 128}
    texts = said("memory_ratio", "less", [], **params, high=high, high_at=256)
    assert expected in texts["en"]
    assert texts["zh_TW"].count("0.500 倍") == 1


def test_percentages_of_a_range_have_their_sign_each() -> None:
    low_and_high = {"matrix_low": 10.0, "matrix_high": 20.0, "copy_low": 1.0, "copy_high": 1.0}
    at = {"count": 2, "values": [128, 256], "dtype": "float16", "undecided_at": []}
    texts = said("roofline", "neither", [], **at, **low_and_high)
    assert "reaches 10.0% to 20.0% of the measured" in texts["en"]
    assert "複製頻寬的 1.00%；" in texts["zh_TW"]


# Forms


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [(1.0, "is proportional to N from 128 to 1024"), (2.0, "scales as N to the power 2.00")],
)
def test_what_grows_by_the_first_power_is_proportional(exponent: float, expected: str) -> None:
    interval = dict.fromkeys(("exponent", "exponent_low", "exponent_high"), exponent)
    assert expected in said("scaling", "power_law", [], **GROWTH, **interval, times=8.0)["en"]


def test_what_is_the_same_at_both_ends_changes_by_no_factor() -> None:
    text = said("scaling", "flat", [], **GROWTH, times=1.0)["en"]
    assert text.endswith("the same at both ends to three significant digits.")


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [("forward", "falls by more than 5% as N"), ("memory", "1024, to three significant digits.")],
)
def test_what_is_exact_goes_one_way_without_a_margin(quantity: str, expected: str) -> None:
    text = said("monotonicity", "monotone", [], quantity=quantity, **GROWTH, direction="rises")
    assert expected in text["en"]


@pytest.mark.parametrize(
    ("checks", "expected"),
    [(4, "None of the 4 passes"), (5, "Of 5 passes checked for stability, 4")],
)
def test_where_every_check_found_nothing_none_is_counted(checks: int, expected: str) -> None:
    counted = {"params": {"checks": checks, "clean": 4}, "subject": {"check": "unstable"}}
    found = {"kind": "anomaly", "verdict": "none", "reasons": [], **counted}
    assert WORDS.finding(found, "N")["en"].startswith(expected)


@pytest.mark.parametrize(
    ("held", "expected"),
    [(0, "none wholly in the range"), (1, "of which 1 lie"), (2, "all in the range")],
)
def test_of_several_comparisons_it_is_said_how_many_hold(held: int, expected: str) -> None:
    figure = claim(count=2, ours_lowest=0.9, ours_highest=2.0, held_count=held)["en"]
    assert "0.900 to 2.00 (2 comparisons, " in figure
    assert expected in figure


def test_of_several_metrics_each_has_its_own_figure() -> None:
    figures = [
        {"metric": "forward_time", "count": 1, "ours": 1.74, "ours_low": 1.7, "ours_high": 1.8},
        {"metric": "memory", "count": 1, "ours": 2.0, "ours_low": 2.0, "ours_high": 2.0},
    ]
    figure = claim(count=2, by_metric=figures)
    assert "forward time 1.74 (95% interval 1.70 to 1.80); peak memory 2.00" in figure["en"]
    assert "前向時間 1.74" in figure["zh_TW"]


def test_a_claim_about_each_of_two_implementations_divides_neither_by_the_other() -> None:
    texts = claim(each_of=["Flash2", "Pytorch"], terms=[term("", 256), term("", 128)])
    assert "[N = 256] ÷ [N = 128] for each of Flash2, Pytorch (" in texts["en"]
    assert "Flash2、Pytorch 各自的 [N = 256] ÷ [N = 128]（" in texts["zh_TW"]


def test_a_claim_about_amounts_subtracts() -> None:
    terms = [term(name, n) for name in ("A", "B") for n in (256, 128)]
    text = claim(compare="amounts", terms=terms)["en"]
    assert "(A [N = 256] − A [N = 128]) ÷ (B [N = 256] − B [N = 128])" in text


def term(name: str, size: int) -> dict[str, Any]:
    return {"name": name, "sizes": [f"N = {size}"], "masks": []}


def claim(**params: Any) -> dict[str, str]:
    """A confirmed claim with one comparison, unless the parameters say otherwise."""
    text = dict.fromkeys(WORDS.languages, "it is so")
    usual: dict[str, Any] = {
        **{"says": text, "source_title": text, "metrics": ["memory"], "compare": "times"},
        **{"terms": [term("A", 128)], "each_of": [], "at": [{"sizes": ["B = 2"], "masks": []}]},
        **{"count": 1, "ours": 2.0, "ours_low": 2.0, "ours_high": 2.0},
        **{"wanted_least": 1.06, "wanted_most": None},
    }
    return said("claim", "confirmed", [], **usual | params)
