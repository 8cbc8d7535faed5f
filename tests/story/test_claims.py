"""Sentences on published claims: the number that hold, and those that do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest

from flashlab.analysis.claims import COLUMNS
from flashlab.story.claims import claims
from flashlab.story.telling import tell

LEVEL = {"zh_TW": "時間平穩。", "en": "The time stays level."}


TERMS = ({"implementation": "Pytorch"}, {"implementation": "Flash2"})
METRICS = ("forward_time", "backward_time")


def claim(
    name: str, terms: Sequence[Any] = TERMS, metrics: Sequence[str] = METRICS, **more: Any
) -> dict[str, Any]:
    test = {"terms": terms, "metrics": metrics}
    return {"id": name, "says": LEVEL, "device": "RTX 3070", "test": test, **more}


def row(name: str, verdict: str, **more: Any) -> dict[str, Any]:
    return {"claim": name, "source": "report", "verdict": verdict, "compare": "times", **more}


def told(*rows: dict[str, Any], **more: Any) -> dict[str, str]:
    """The sentences on these rows of claims.csv, a line an observation, by language."""
    judged = pd.DataFrame(rows, columns=list(COLUMNS))
    names = dict.fromkeys(each["claim"] for each in rows)
    document = {"benchmark": "attention", "claims": [claim(name, **more) for name in names]}
    found = [*claims(judged, document)]
    return {
        language: "\n".join(tell(each, "attention", language) for each in found)
        for language in ("en", "zh_TW")
    }


RANGE = {"least": 0.8, "most": 1.25}
FAILS = row("b", "contradicted", holds="no", estimate=1.6, **RANGE)


def test_those_that_hold_are_counted_and_those_that_do_not_are_quoted() -> None:
    found = told(row("a", "confirmed"), FAILS, {**FAILS, "estimate": 1.3})
    assert found["en"].startswith(
        "One published document (RTX 3070) makes 2 claims. 1 holds here, 1 does not."
    )
    assert found["en"].endswith(
        "Those that do not:\n"
        "“The time stays level”: 1.30–1.60 here, not 0.8–1.25 (time, Pytorch over Flash2)."
    )
    assert "1 項在這裡成立、1 項不成立。" in found["zh_TW"]
    assert found["zh_TW"].endswith(
        "不成立的：\n「時間平穩」：這裡是 1.30–1.60，不是 0.8–1.25（時間比，Pytorch／Flash2）。"
    )


@pytest.mark.parametrize(
    ("ends", "en", "zh"),
    [
        ({"least": 0.8}, ": 1.60 here, not ≥ 0.8 (", "：這裡是 1.60，不是 ≥ 0.8（"),
        ({"most": 1.25}, ": 1.60 here, not ≤ 1.25 (", "：這裡是 1.60，不是 ≤ 1.25（"),
    ],
)
def test_a_range_with_one_end_is_told_by_it(ends: dict[str, float], en: str, zh: str) -> None:
    fails = {**FAILS, "least": None, "most": None, **ends}
    found = told(fails)
    assert en in found["en"] and zh in found["zh_TW"]
    assert "None is shown to hold here" in found["en"] and "沒有一項判定成立" in found["zh_TW"]


GROWTH = [{**term, "seq_len": n} for term in TERMS for n in (1024, 128)]


@pytest.mark.parametrize(
    ("terms", "metrics", "en", "zh"),
    [
        (
            [{"num_heads": 64}, {"num_heads": 8}],
            ["forward_rate"],
            "rate, H = 64 over H = 8",
            "速率比，H = 64／H = 8）",
        ),
        (
            [{"causal": True}, {"causal": False}],
            ["peak_memory"],
            "memory, causal over full",
            "記憶體比，因果／無遮罩）",
        ),
        (
            GROWTH,
            METRICS,
            "growth of time, Pytorch over Flash2",
            "時間成長比，Pytorch／Flash2）",
        ),
        (
            TERMS,
            ["forward_time", "peak_memory"],
            "time and memory, Pytorch",
            "時間與記憶體比，Pytorch",
        ),
    ],
)
def test_a_ratio_says_of_what_it_is(terms: Any, metrics: Any, en: str, zh: str) -> None:
    found = told(FAILS, terms=terms, metrics=metrics)
    assert f"({en}" in found["en"] and f"（{zh}" in found["zh_TW"]


def test_a_measured_figure_has_its_unit() -> None:
    found = told(FAILS, terms=TERMS[:1], published={"unit": "ms"})
    assert ": 1.60 ms here, not" in found["en"] and "：這裡是 1.60 ms，" in found["zh_TW"]


@pytest.mark.parametrize(
    ("compare", "en", "zh"),
    [
        (
            ("amounts", "times"),
            "1 of those that depend on the reading holds or fails",
            "有 1 項，「上升」",
        ),
        (("times", "whole_work"), "counted by half or in full", "有 1 項，遮罩"),
    ],
)  # fmt: skip
def test_what_depends_on_the_reading_is_counted_by_how(
    compare: tuple[str, str], en: str, zh: str
) -> None:
    rows = [row("a", "ambiguous", compare=way, estimate=2.0) for way in compare]
    found = told(*rows, row("b", "confirmed"))
    assert en in found["en"] and zh in found["zh_TW"]
    others = told(row("a", "confirmed"), row("b", "inconclusive"), row("c", "not_tested"))
    assert "reading" not in others["en"] and "怎麼讀" not in others["zh_TW"]
    assert "1 is undecided" in others["en"] and "1 項無法判定" in others["zh_TW"]


def test_of_another_device_none_is_judged() -> None:
    found = told(row("a", "other_device"), row("b", "other_device"))
    assert found["en"].endswith("2 claims, all about other devices, so none is judged here.")
    assert found["zh_TW"].endswith("都是別的裝置的說法，這裡不判定。")
    some = told(row("a", "other_device"), row("b", "confirmed"))
    assert "1 is a figure of another device and not judged" in some["en"]


def test_without_claims_nothing_is_said() -> None:
    assert not [*claims(pd.DataFrame([], columns=list(COLUMNS)), {"claims": []})]
