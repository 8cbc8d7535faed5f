"""Findings and numbers in words: special and generic sentences, reasons, claims, the margin."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from flashlab.report.claim_words import word_wanted
from flashlab.report.finding_words import MOST_NAMED, FindingWords
from flashlab.report.wording import Words

from flashlab import statistics
from flashlab.analysis.finding import Evidence, Finding, Reason
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.model import Benchmark, Metric, Parameter, Quantity
from flashlab.telling.catalogs import messages

LANGUAGES = ("zh_TW", "en")
WORDS = Words(LANGUAGES)

SERVING = Benchmark(
    name="serving",
    report="serving",
    parameters=(
        Parameter("clients", "c", {"zh_TW": "連線數", "en": "number of clients"}),
        Parameter("cached", "cached", {"zh_TW": "快取", "en": "caching"}, kind=bool),
    ),
    metrics=(
        Metric(
            "throughput",
            Quantity("throughput", "1/s", "higher", exact=False, labels={}),
            {"zh_TW": "吞吐量", "en": "throughput"},
        ),
    ),
    measure="never measured",
)
"""A benchmark without special sentences."""

SPAN = {"count": 2, "first": 128, "last": 1024}


def finding(*sentences: str, reasons: tuple[Reason, ...] = (), **changes: Any) -> Finding:
    """A finding told by these sentences, about the forward time of Flash2 with full attention."""
    subject = {"implementation": "Flash2", "baseline": "Pytorch", "metric": "forward_time"}
    kind, verdict, *_ = (*"".join(sentences[:1]).split("."), "")
    usual = Finding(
        kind=kind,
        experiment="seq_len",
        device="",
        subject={**subject, "variant": {"causal": False}},
        verdict=verdict,
        sentences=sentences,
        params={},
        evidence=Evidence("", {}, "", 0),
        reasons=reasons,
    )
    return replace(usual, **changes)


def tell(found: Finding, benchmark: Benchmark = ATTENTION, symbol: str = "N") -> dict[str, str]:
    return FindingWords(WORDS, benchmark).tell(found, symbol)


def tell_growth(sentence: str, metric: str = "forward_time", **params: Any) -> str:
    subject = {"implementation": "Flash2", "metric": metric, "variant": {"causal": True}}
    return tell(finding(sentence, subject=subject, params={**SPAN, **params}))["en"]


# Special and generic sentences


RATIOS = {**SPAN, "low": 1.5, "low_at": 128, "high": 2.0, "high_at": 1024}
AT = {"better_at": [1024], "worse_at": [], "equal_at": [128], "undecided_at": []}


def test_a_time_is_compared_in_the_words_for_times() -> None:
    texts = tell(finding("comparison.better", params=RATIOS))
    assert texts["en"].startswith("Forward (full): over N from 128 to 1024, Flash2 is faster than")
    assert "at 1.50 (N = 128) to 2.00 (N = 1024) times its speed" in texts["en"]
    assert texts["zh_TW"].startswith("前向（完整）：N 由 128 到 1024，Flash2 都比 Pytorch 快")


SERVED = {"implementation": "New", "baseline": "Old", "metric": "throughput", "variant": {}}


def test_another_metric_is_compared_in_words_that_fit_any() -> None:
    found = finding("comparison.better", subject=SERVED, params=RATIOS)
    texts = tell(found, SERVING, "c")
    assert texts["en"] == (
        "Over c from 128 to 1024, the throughput of New is better than that of Old throughout, "
        "1.50 (c = 128) to 2.00 (c = 1024) times as good."
    )
    assert texts["zh_TW"] == (
        "c 由 128 到 1024，New 的吞吐量都優於 Old，"
        "表現是它的 1.50 倍（c = 128）到 2.00 倍（c = 1024）。"
    )


@pytest.mark.parametrize(
    ("metric", "benchmark", "expected"),
    [
        ("forward_time", ATTENTION, "is faster at N = 1024; within 5% at N = 128. The speed"),
        ("throughput", SERVING, "is better at N = 1024; within 5% at N = 128. The ratio"),
    ],
)
def test_a_mixed_comparison_tells_where_it_is_what(
    metric: str, benchmark: Benchmark, expected: str
) -> None:
    subject = {"implementation": "New", "baseline": "Old", "metric": metric, "variant": {}}
    found = finding("comparison.mixed", subject=subject, params=RATIOS | AT)
    assert expected in tell(found, benchmark)["en"]


def test_a_switched_parameter_is_named() -> None:
    subject = {"implementation": "Flash2", "metric": "forward_time", "switched": "causal"}
    key = "variant_effect.better"
    texts = tell(finding(key, subject={**subject, "variant": {}}, params=RATIOS))
    assert texts["en"] == (
        "Forward: over N from 128 to 1024, Flash2 is faster with causal masking throughout, at "
        "1.50 to 2.00 times its speed without."
    )
    served = {"implementation": "New", "metric": "throughput", "switched": "cached", "variant": {}}
    texts = tell(finding(key, subject=served, params=RATIOS), SERVING, "c")
    assert "caching improves the throughput of New throughout, by a factor of" in texts["en"]


def test_a_special_message_is_looked_up_before_the_generic_one() -> None:
    def key(key: str, *names: str, benchmark: Benchmark = ATTENTION) -> str:
        return WORDS.most_special(key, benchmark, names)

    assert key("clause.better", "causal", "time") == "time.clause.better"
    assert key("clause.better", "causal", "memory") == "clause.better"
    assert key("method.gate") == "attention.method.gate"
    assert key("method.gate", benchmark=SERVING) == "method.gate"


def test_what_varies_along_is_named_with_its_symbol() -> None:
    texts = tell(finding("covaried", kind="scaling", params={"covaried": ["batch_size"]}))
    assert texts["en"] == "Varied along with N: batch size B."
    assert texts["zh_TW"] == "與 N 一同變動的有：批次大小 B。"


def test_the_largest_that_fits_is_the_largest_that_was_tested() -> None:
    params = {"failed": [32768], "largest": 16384}
    texts = tell(finding("out_of_memory.limit_found", params=params))
    assert texts["en"].endswith("the largest value tested that fits is N = 16384.")
    assert "測過的值中" in texts["zh_TW"]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("model_agrees_at", "At N = 128, both values equal those of the exact model, the sum of"),
        ("model_differs_at", "At N = 128, at least one value differs from that of the exact model"),
    ],
)
def test_exact_values_are_compared_with_the_model(key: str, expected: str) -> None:
    found = finding(f"exact_comparison.{key}", params={key: [128]})
    assert tell(found)["en"].startswith(expected)


# Reasons


RUN = {"batch_size": 16, "seq_len": 128, "num_heads": 32, "emb_dim": 2048, "causal": False}


def reason(code: str, status: str | None = None, **changes: Any) -> Reason:
    run = {"implementation": "Flash2", **RUN, "dtype": "float16", "device": "cuda", **changes}
    return Reason(code, run, status)


def reasons(*found: Reason) -> dict[str, str]:
    return tell(finding("covaried", params={"covaried": ["batch_size"]}, reasons=found))


def test_a_run_without_numbers_is_named_by_what_tells_it_apart_with_its_status() -> None:
    run = {"implementation": "Pytorch", "causal": False, "seq_len": 512}
    texts = reasons(Reason("excluded", run, "oom"))
    assert texts["en"].endswith("Pytorch [N = 512, full] (out of memory).")
    assert texts["zh_TW"].endswith("Pytorch [N = 512、完整]（記憶體不足）。")


def test_a_missing_run_is_named_by_all_that_it_has() -> None:
    texts = reasons(reason("missing"))
    named = "Flash2 [B = 16, N = 128, H = 32, E = 2048, full, float16, cuda]"
    assert texts["en"].endswith(f"There is no record of {named}.")
    assert "Flash2 [B = 16、N = 128、H = 32、E = 2048、完整、float16、cuda]" in texts["zh_TW"]


@pytest.mark.parametrize(("code", "status"), [("missing", None), ("excluded", "oom")])
def test_of_many_runs_without_numbers_some_are_named_and_the_others_counted(
    code: str, status: str | None
) -> None:
    text = reasons(*(reason(code, status, batch_size=b) for b in range(20)))["en"]
    assert text.count("Flash2 [B") == MOST_NAMED
    assert text.endswith(f"and {20 - MOST_NAMED} more.")


def test_what_else_a_verdict_is_based_on_comes_after_it() -> None:
    text = reasons(Reason("no_samples"))["en"]
    assert text.endswith("The records hold means without samples, so there is no interval.")


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
    assert WORDS.printed({name: value})[name]["en"] == printed


def test_a_mixed_conclusion_counts_only_the_verdicts_that_there_are() -> None:
    counts = {"better_count": 5, "worse_count": 0, "equivalent_count": 0, "inconclusive_count": 2}
    params = {"count": 7, "low": 0.616, "high": 2.28, **counts}
    texts = tell(finding("conclusion.front.pair.mixed", params=params))
    assert texts["en"] == (
        "Compared with Pytorch at 7 settings, Flash2 is faster at 5, undecided at 2; "
        "its speed is 0.616–2.28 times that of Pytorch."
    )
    assert "相比：5 組較快、2 組無法判定；速度為" in texts["zh_TW"]


@pytest.mark.parametrize(
    ("high", "expected"),
    [(0.502, "the ratio is 0.500 (N = 128) to 0.502 (N = 256)."), (0.5, "the ratio is 0.500.")],
)
def test_a_range_whose_ends_print_alike_is_one_number(high: float, expected: str) -> None:
    params = {"values": [128, 256], "low": 0.5, "low_at": 128, "high": high, "high_at": 256}
    texts = tell(finding("exact_comparison.less", params=params))
    assert texts["en"].endswith(expected)
    assert texts["zh_TW"].count("0.500 倍") == 1


UNTHROTTLED = {
    **{"values": [128], "dtype": "half", "ceiling_state": "unthrottled", "vendors_rate": 989.4},
    "ceiling_rates": [
        {"state": "unthrottled", "rate": 762.0},
        {"state": "sustained", "rate": 705.0},
    ],
}


def test_percentages_of_a_range_have_their_sign_each() -> None:
    shares = {"matrix_low": 10.0, "matrix_high": 20.0, "copy_low": 1.0, "copy_high": 1.0}
    params = {**UNTHROTTLED, **shares}
    texts = tell(finding("roofline.neither", params=params))
    assert "reaches 10.0% to 20.0% of the measured unthrottled half matrix" in texts["en"]
    assert "rate (762 TFLOP/s; data sheet 989.4)" in texts["en"]
    assert "複製頻寬的 1.00%；" in texts["zh_TW"]


def test_a_small_share_of_the_bandwidth_does_not_say_that_memory_binds_nothing() -> None:
    shares = {"matrix_low": 10.0, "matrix_high": 20.0, "copy_low": 1.0, "copy_high": 1.0}
    params = {**UNTHROTTLED, "ceiling_state": "measured", "vendors_rate": None, **shares}
    text = tell(finding("roofline.neither", params=params))["en"]
    assert text.endswith("was not measured, so what binds it is not known.")
    assert "bound by neither" not in text


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("power_law.proportional", "time of Flash2 (causal) is proportional to N from 128 to 1024"),
        ("power_law.exact", "scales as N to the power 2.00"),
        ("flat.same", "is the same at both ends to three significant digits."),
    ],
)
def test_growth_is_told_in_the_form_that_the_finding_names(sentence: str, expected: str) -> None:
    assert expected in tell_growth(f"scaling.{sentence}", exponent=2.0, times=8.0)


# Published claims


@pytest.mark.parametrize(
    ("held", "expected"),
    [(0, "none wholly in the range"), (1, "of which 1 lie"), (2, "all in the range")],
)
def test_of_several_comparisons_it_is_told_how_many_hold(held: int, expected: str) -> None:
    figure = claim(count=2, interval_count=2, ours_lowest=0.9, ours_highest=2.0, held_count=held)[
        "en"
    ]
    assert "0.900 to 2.00 (2 comparisons, " in figure
    assert expected in figure


def test_a_range_of_means_says_that_it_has_no_intervals() -> None:
    means = {"count": 2, "interval_count": 0, "held_count": 0}
    figure = claim(**means, ours_lowest=0.9, ours_highest=2.0)["en"]
    assert "0.900 to 2.00 (2 comparisons of means, without intervals)" in figure


def test_of_several_metrics_each_has_its_own_figure() -> None:
    figures = [
        {"metric": "forward_time", "count": 1, "ours": 1.74, "ours_low": 1.7, "ours_high": 1.8},
        {"metric": "peak_memory", "count": 1, "ours": 2.0, "ours_low": 2.0, "ours_high": 2.0},
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


def test_readings_that_disagree_are_both_told_with_how_they_compare() -> None:
    terms = [term(name, n) for name in ("A", "B") for n in (256, 128)]
    figure = {"count": 1, "ours_low": 2.0, "ours_high": 2.0}
    readings = [
        {**figure, "compare": way, "protocol": protocol, "leans": leans, "ours": ours}
        for protocol in ("sampled", "lab5")
        for way, leans, ours in (
            ("amounts", "confirmed", 3.46),
            ("times", "contradicted", 0.935),
        )
    ]
    texts = claim("claim.ambiguous", terms=terms, readings=readings)
    assert "By increments: 3.46. By factors: 0.935. The claim requires" in texts["en"]
    assert "以增加量比較：3.46。以倍數比較：0.935。" in texts["zh_TW"]


def test_a_figure_by_the_documents_own_protocol_is_named_as_such() -> None:
    readings = [
        {"count": 1, "compare": "times", "protocol": name, "leans": leans, "ours": ours}
        | {"ours_low": low, "ours_high": low}
        for name, leans, ours, low in (
            ("lab5", "contradicted", 9.1, None),
            ("sampled", "confirmed", 9.9, 9.9),
        )
    ]
    text = claim("claim.ambiguous", readings=readings)["en"]
    assert "Back-to-back calls: 9.10. Single calls: 9.90." in text


def test_a_claim_names_its_places_by_the_declared_symbols_and_variants() -> None:
    at = [{"seq_len": [128, 256], "causal": [False, True]}, {"head_dim": [64]}]
    text = claim(at=at)["en"]
    assert "(peak memory; N = 128 / 256, full / causal; d = 64)" in text


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [(1.06, None, "at least 1.06"), (None, 0.9, "at most 0.9"), (1.0, 2.0, "1 to 2")],
)
def test_a_claim_states_the_range_that_it_requires(
    least: float | None, most: float | None, expected: str
) -> None:
    found = finding(params={"wanted_least": least, "wanted_most": most})
    assert word_wanted(WORDS, found)["en"] == expected


def test_a_claim_without_a_figure_of_ours_is_told_as_such() -> None:
    params = {"count": 0, "published_device": "RTX 3070"}
    text = claim("claim.other_device.missing", **params)["en"]
    assert text.endswith("which holds no measurements with CUDA.")


def term(name: str, size: int) -> dict[str, Any]:
    return {"name": name, "given": {"seq_len": [size]}}


def claim(sentence: str = "claim.confirmed", **params: Any) -> dict[str, str]:
    """A confirmed claim with one comparison, unless the parameters say otherwise."""
    text = dict.fromkeys(LANGUAGES, "it is so")
    usual: dict[str, Any] = {
        **{"says": text, "source_title": text, "metrics": ["peak_memory"], "compare": "times"},
        **{"terms": [term("A", 128)], "each_of": [], "at": [{"batch_size": [2]}]},
        **{"count": 1, "ours": 2.0, "ours_low": 2.0, "ours_high": 2.0},
        **{"wanted_least": 1.06, "wanted_most": None, "published": None},
    }
    found = {**usual, **params}
    reading = {"compare": found["compare"], "protocol": "sampled", "leans": "", **found}
    found = {"readings": [reading] if found["count"] else [], **found}
    return tell(finding(sentence, subject={"claim": "a", "source": "b"}, params=found))


# The margin


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_states_the_margin_that_there_is(
    monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    monkeypatch.setattr(statistics, "MARGIN", 0.07)

    for key, pattern in messages(language, "report").items():
        names = set(re.findall(r"\{(\w+)\}", pattern))
        text = WORDS.each(key, **dict.fromkeys(names - {"margin"}, "…"))[language]
        assert not re.search(r"(?<!\d)5%", text), key
        assert ("7%" in text) == ("margin" in names), key


def test_the_margin_is_in_the_verdicts_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MARGIN", 0.07)
    assert WORDS.each("verdict.equivalent") == {"zh_TW": "相差 7% 以內", "en": "within 7%"}
    assert "falls by more than 7% as N" in tell_growth("monotonicity.monotone.rises")


@pytest.mark.parametrize(("implementations", "told"), [(["Pytorch", "Flash2"], 1), (["Mine"], 0)])
def test_the_notice_on_a_cpu_names_only_what_was_measured(
    implementations: list[str], told: int
) -> None:
    for text in WORDS.each(WORDS.most_special("no_gpu", ATTENTION, implementations)).values():
        assert text.count("FlashAttention-2") == told
        assert "lab" in text or "實驗課" in text
