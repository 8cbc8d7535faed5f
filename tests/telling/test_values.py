"""Values as printed in each language, and as kept in JSON."""

from __future__ import annotations

import pytest

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.telling.teller import Teller
from flashlab.telling.values import (
    Heading,
    Label,
    Listed,
    Measured,
    MetricName,
    Number,
    ParameterName,
    Range,
    Run,
    Sentences,
    Setting,
    Short,
    Tellable,
    Within,
    clauses,
    in_turn,
    percent,
    setting,
    settings,
)

TELLERS = {language: Teller(language, ATTENTION) for language in ("zh_TW", "en")}
LABEL = Label({"zh_TW": "前向", "en": "forward"})


@pytest.mark.parametrize(
    ("value", "en", "zh_tw"),
    [
        # The zeros that a number was rounded to
        (Measured(4.0), "4.00", None),
        (Measured(0.5), "0.500", None),
        (Measured(0.00976), "0.00976", None),
        (Measured(12.5), "12.5", None),
        (Measured(1.051), "1.051", None),
        (Measured(1230.0), "1,230", None),
        (Measured(0.0), "0.00", None),
        (Measured(-0.5, 2), "-0.50", None),
        (Measured(2.0, 2), "2.00", None),
        # All digits, or at most some
        (Number(8.0), "8", None),
        (Number(0.125), "0.125", None),
        (Number(12345.678, 4), "12,350", None),
        (Number(-0.0), "0", None),
        (Number(None), "–", None),
        # In short
        (Short(1234.5), "1,200", None),
        (Short(12.4), "12", None),
        (Short(9.96), "10", None),
        (Short(3.14), "3.1", None),
        (Short(0.034), "0.034", None),
        (Short(0.0), "0", None),
        (percent(0.125), "12", None),
        # Ranges whose ends print alike are one number
        (Range(Measured(2.0), Measured(2.5)), "2.00–2.50", None),
        (Range(Measured(2.0), Measured(2.0)), "2.00", None),
        # Lists
        (Listed([1, "A", LABEL]), "1, A, forward", "1、A、前向"),
        (Listed([]), "none", "無"),
        (Listed(["a", "b"], ""), "ab", None),
        (Listed([], ""), "", None),
        (clauses(["a", "b"]), "a; b", "a；b"),
        (Sentences(["A.", "B."]), "A. B.", "A.B."),
        (in_turn(["A."]), "A.", None),
        # Names
        (Heading(LABEL), "Forward", "前向"),
        (Within(Heading(LABEL)), "forward", "前向"),
        (setting(ATTENTION.parameter("seq_len"), 128, 256), "N = 128 / 256", None),
        (Setting("causal", [False, True]), "full / causal", "無遮罩 / 因果"),
        (ParameterName("seq_len"), "sequence length N", "序列長度 N"),
        (MetricName("forward_time"), "forward time", "前向時間"),
        (MetricName("forward_time", part=True), "Forward", "前向"),
        (Run("A", [Setting("seq_len", [128]), Setting("causal", [True])]), "A [N = 128, causal]",
         "A [N = 128、因果]"),
        (Run("A", []), "A", None),
        (Run("", [Setting("seq_len", [128])]), "[N = 128]", None),
    ],
)  # fmt: skip
def test_a_value_is_printed_in_each_language(value: Tellable, en: str, zh_tw: str | None) -> None:
    assert TELLERS["en"].tell(value) == en
    assert TELLERS["zh_TW"].tell(value) == (en if zh_tw is None else zh_tw)


def test_the_settings_of_a_run_are_in_order_of_declaration_and_without_what_it_has_not() -> None:
    told = settings(ATTENTION, {"causal": True, "seq_len": [128, 256], "dtype": "half"})
    assert [(each.parameter, tuple(each.values)) for each in told] == [
        ("seq_len", (128, 256)),
        ("causal", (True,)),
    ]
