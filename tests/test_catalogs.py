from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from babel.messages import pofile
from babel.messages.catalog import Catalog

from flashlab.benchmarks.registry import BENCHMARKS
from flashlab.catalogs import LOCALES, MissingMessageError, message, messages
from flashlab.records import STATUSES
from flashlab.report.finding_words import CLAUSES

LANGUAGES = ("zh_TW", "en")
FILES = sorted(LOCALES.glob("*/LC_MESSAGES/*.po"))
DOMAINS = sorted({path.stem for path in FILES})


def read(path: Path) -> Catalog:
    with path.open("rb") as file:
        return pofile.read_po(file, abort_invalid=True)


def catalogs(domain: str) -> dict[str, Catalog]:
    return {
        language: read(LOCALES / language / "LC_MESSAGES" / f"{domain}.po")
        for language in LANGUAGES
    }


def test_figures_and_report_have_catalogs_in_two_languages() -> None:
    assert {"figures", "report"} <= set(DOMAINS)
    assert {path.parts[-3] for path in FILES} == set(LANGUAGES)


@pytest.mark.parametrize("domain", DOMAINS)
def test_both_languages_have_the_same_messages(domain: str) -> None:
    zh, en = ({entry.id for entry in catalog} for catalog in catalogs(domain).values())
    assert zh == en
    assert len(en) > 1


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_no_message_is_empty_fuzzy_obsolete_or_given_twice(path: Path) -> None:
    catalog = read(path)
    assert [entry.id for entry in catalog if entry.id and not str(entry.string).strip()] == []
    assert [entry.id for entry in catalog if entry.id and entry.fuzzy] == []
    assert list(catalog.obsolete) == []
    keys = re.findall(r'^msgid "(.+)"$', path.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(keys) == sorted(set(keys))


def placeholders(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))


@pytest.mark.parametrize("domain", DOMAINS)
def test_both_languages_are_told_the_same_numbers(domain: str) -> None:
    zh, en = catalogs(domain).values()
    differing = [
        entry.id
        for entry in en
        if entry.id and placeholders(str(entry.string)) != placeholders(str(zh[entry.id].string))
    ]
    assert differing == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_every_placeholder_can_be_filled(path: Path) -> None:
    for entry in read(path):
        text = str(entry.string)
        if entry.id and placeholders(text):
            filled = text.format_map(dict.fromkeys(placeholders(text), "7"))
            assert "7" in filled and "{" not in filled, entry.id


def test_a_figure_can_name_every_status_but_ok() -> None:
    for language in LANGUAGES:
        assert set(STATUSES) - {"ok"} <= messages(language, "figures").keys()


def test_a_message_that_a_catalog_lacks_is_an_error_that_names_the_catalog() -> None:
    with pytest.raises(MissingMessageError, match=r"en/LC_MESSAGES/figures\.po .* 'colour'"):
        message("en", "figures", "colour")


# Findings

SCHEMA = LOCALES.parents[1] / "workflow" / "schemas" / "finding.schema.json"

SENTENCES = {
    "comparison": """better better.one worse worse.one equivalent equivalent.one inconclusive
        inconclusive.one inconclusive.missing mixed trend.widens trend.narrows trend.peaks
        trend.dips""",
    "variant_effect": """better better.one worse worse.one equivalent equivalent.one inconclusive
        inconclusive.one inconclusive.missing mixed""",
    "crossover": """crosses none_in_range.leads none_in_range.level inconclusive
        inconclusive.missing""",
    "exact_comparison": """less less.one more more.one equal equal.one withheld.missing
        model_agrees_at model_differs_at""",
    "out_of_memory": "none none.nothing limit_found limit_found.nothing",
    "scaling": """power_law power_law.exact power_law.proportional curved flat flat.same imprecise
        covaried too_few_sizes too_few_sizes.one too_few_sizes.missing""",
    "monotonicity": """monotone.rises monotone.falls monotone.level monotone.rises.exact
        monotone.falls.exact monotone.level.exact broken inconclusive inconclusive.missing""",
    "roofline": """memory_bound memory_bound.counted compute_bound compute_bound.counted neither
        neither.counted model_error model_error.counted elsewhere bytes_known undecided""",
    "cause": """memory_bound matrix_bound launch_bound occupancy unfused none
        launch_bound.operators fused.operators products.operators unfused.operators
        elementwise.operators none.operators""",
    "anomaly": """unstable.drift unstable.spread outlier none.unstable none.unstable.all
        none.outlier none.outlier.all""",
    "choice": """one_best one_suffices changes inconclusive inconclusive.missing overall
        overall.wrong""",
    "correctness": "wrong wrong.unmeasured none",
    "balance": "as_operations above below mixed inconclusive inconclusive.missing",
    "variant_gain": "as_operations above below mixed inconclusive",
    "derived_size": "better worse equivalent mixed inconclusive",
    "exact_account": "explained full full.others differs unexplained",
    "launch_bound": "level none inconclusive",
    "saturation": "reached rising uneven falls inconclusive",
    "jump": "rises falls none",
    "curve": "within differs withheld",
    "worse_than_naive": "worse worse.everywhere none inconclusive",
    "step": """helps helps.one hurts hurts.one no_difference no_difference.one inconclusive
        inconclusive.one inconclusive.missing mixed counter""",
    "claim": """confirmed contradicted ambiguous inconclusive other_device other_device.missing
        not_tested""",
    "conclusion": """alternatives.best alternatives.best.level alternatives.naive
        alternatives.ceiling alternatives.least alternatives.effect.all alternatives.effect.some
        alternatives.effect.none alternatives.effect.each alternatives.break_even
        alternatives.curve.within alternatives.curve.differs front.pair.better
        front.pair.better.exact front.pair.everywhere front.pair.worse
        front.pair.equivalent front.pair.inconclusive front.pair.mixed front.pair.where_not
        front.no_numbers front.alone cause.unfused cause.memory_bound cause.matrix_bound
        cause.launch_bound cause.occupancy cause.operators cause.operators.fused
        cause.operators.launch_bound no_numbers alone pair.missing pair.better.none
        pair.better.one pair.better.widens pair.better.narrows pair.better.peaks
        pair.better.dips pair.worse pair.equivalent pair.inconclusive pair.mixed parts
        exact.less exact.more exact.equal exact.varies account out_of_memory equal_work
        saturation checked variant variant.inconclusive variant.effects
        variant.effects.ideal variant.most variant.most.ideal variant.leads variant.choice
        variant.exact_same choice.missing choice.one_best
        choice.one_best.times choice.one_suffices choice.changes
        choice.inconclusive choice.part choice.exact map front.choice.always
        front.choice.most front.choice.by_size front.choice.varies front.choice.leads
        front.wrong front.wrong.balance front.naive front.naive.figures front.naive.limit
        front.limit front.limit.vendor front.limit.matrix front.avoid front.avoid.everywhere
        front.avoid.figures front.avoid.others
        front.climb front.climb.steps front.steps front.steps.hurts front.steps.no_difference
        front.steps.mixed front.steps.inconclusive front.steps.in_part
        front.steps.inconclusive.few front.steps.in_part.few
        front.steps.counter front.steps.uncounted
        front.top front.top.peak front.top.busiest front.start front.simulated steps""",
}
"""What follows the kind in the keys of the sentences that a finding may have."""

KEYS = {f"{kind}.{rest}" for kind, keys in SENTENCES.items() for rest in keys.split()} | {
    "covaried"
}
OTHERS = re.compile(
    r"claim\.(figure|reading|wanted|each_of|place)\b.*|anomaly\.sign\..*"
    r"|conclusion\.(each|stretch|absent|outcome|or|more|map\.rare|alternatives\.outcome)\b.*"
    r"|clause\.separator|crossover\.where|roofline\.label|choice\.(at|tally|count)"
)
"""Messages of other places that begin like a sentence."""


def declared_verdicts() -> dict[str, list[str]]:
    """Every kind of finding with its verdicts, as the schema has them."""
    rules = json.loads(SCHEMA.read_text(encoding="utf-8"))["items"]["allOf"]
    return {
        rule["if"]["properties"]["kind"]["const"]: rule["then"]["properties"]["verdict"]["enum"]
        for rule in rules
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_sentence_of_a_finding_is_there_in_general_words(language: str) -> None:
    assert KEYS - messages(language, "report").keys() == set()


def test_no_sentence_is_left_over() -> None:
    """Each is one of those, or special: about something declared, in the place of one of those."""
    told = KEYS | {f"clause.{name}" for name in CLAUSES}
    declared = {
        name
        for benchmark in BENCHMARKS.values()
        for name in (benchmark.name, *benchmark.quantities, *(p.name for p in benchmark.parameters))
    }
    for key in messages("en", "report"):
        generic = key
        while generic.partition(".")[0] in declared:
            generic = generic.partition(".")[2]
        if generic.partition(".")[0] in {*SENTENCES, "clause"} and not OTHERS.fullmatch(generic):
            assert generic in told, key


def test_every_kind_and_verdict_has_its_sentence_and_its_name() -> None:
    for kind, verdicts in declared_verdicts().items():
        assert {f"kind.{kind}", *(f"verdict.{v}" for v in verdicts)} <= messages(
            "en", "report"
        ).keys()
        for verdict in verdicts if kind in SENTENCES and kind != "conclusion" else ():
            assert any(re.match(rf"{kind}\.{verdict}\b", key) for key in KEYS)


@pytest.mark.parametrize("status", STATUSES)
def test_the_report_can_name_every_status(status: str) -> None:
    for language in LANGUAGES:
        assert message(language, "report", f"status.{status}")
