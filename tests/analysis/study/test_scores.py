"""How often the findings are right, on datasets whose truth is planted (docs/findings.md)."""

from __future__ import annotations

import json
import re
from collections import Counter

import jsonschema
import numpy as np
import pytest
from findings import planted
from findings.judging import Judge
from findings.scores import Scores, score
from flashlab.report.finding_words import FindingWords
from flashlab.report.wording import Words

from flashlab.analysis.derive import SCHEMA
from flashlab.analysis.finding import Evidence, Finding
from flashlab.benchmarks.attention.declaration import ATTENTION

MISSABLE_TIMED = (
    *("comparison", "variant_effect", "crossover", "scaling", "monotonicity", "roofline"),
    *("claim", "choice", "worse_than_naive", "variant_gain", "saturation"),
)
TIMED = (*MISSABLE_TIMED, "balance")
MISSABLE = (
    *(*MISSABLE_TIMED, "exact_comparison", "out_of_memory", "launch_bound"),
    *("anomaly: unstable", "anomaly: outlier"),
)
KINDS = (*MISSABLE, "balance", "jump", "exact_account")
UNDECIDED_KINDS = {"correctness"}
"""Kinds that state nothing here: no planted run is incorrect."""

SEEN = 60
"""Datasets whose findings are also validated and told."""


@pytest.fixture(scope="module")
def derived() -> list[list[Finding]]:
    """The findings of each planted dataset, in order; filled while they are scored."""
    return []


@pytest.fixture(scope="module")
def scores(derived: list[list[Finding]], tmp_path_factory: pytest.TempPathFactory) -> Scores:
    found = score(300, 1, tmp_path_factory.mktemp("planted"), derived.append)
    print(f"\n{found.text()}")
    return found


def test_three_hundred_datasets_are_planted_and_every_kind_is_scored(scores: Scores) -> None:
    assert sum(scores.datasets.values()) >= 300
    assert scores.kinds.keys() == set(KINDS) | UNDECIDED_KINDS
    assert all(scores.kinds[kind].decided >= 20 for kind in KINDS)
    assert not any(scores.kinds[kind].false for kind in UNDECIDED_KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_at_most_two_verdicts_of_a_hundred_are_false(scores: Scores, kind: str) -> None:
    assert scores.kinds[kind].false_share <= 0.02


@pytest.mark.parametrize("kind", TIMED)
def test_intervals_hold_the_truth(scores: Scores, kind: str) -> None:
    assert scores.kinds[kind].intervals >= 500
    assert scores.kinds[kind].held_share >= 0.93


@pytest.mark.parametrize("kind", MISSABLE)
def test_at_most_a_tenth_of_what_is_plain_is_missed(scores: Scores, kind: str) -> None:
    assert scores.kinds[kind].plain >= 20
    assert scores.kinds[kind].missed_share <= 0.1


def test_no_difference_is_claimed_of_identical_implementations(scores: Scores) -> None:
    assert scores.identical_checks > 1000
    assert scores.identical_differences == 0


def test_every_planted_finding_is_valid_and_has_the_same_numbers_in_both_languages(
    scores: Scores, derived: list[list[Finding]]
) -> None:
    schema = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    words = FindingWords(Words(["zh_TW", "en"]), ATTENTION)

    def numbers(sentence: str) -> Counter[str]:
        return Counter(re.findall(r"\d[\d,.]*\d|\d", sentence))

    kinds = set()
    for findings in (*derived[:SEEN], derived[-1]):
        schema.validate([finding.to_json() for finding in findings])
        for finding in findings:
            kinds.add((finding.kind, finding.verdict))
            told = words.tell(finding, "N") if finding.sentences else {"zh_TW": "", "en": ""}
            if finding.kind != "claim":  # which is its source's own text in each language
                assert numbers(told["zh_TW"]) == numbers(told["en"]), told
    assert len(kinds) > 20


class TestScore:
    """The scoring recognises a false verdict."""

    def test_a_verdict_against_the_truth_is_false(self) -> None:
        random = np.random.default_rng(1)
        dataset = planted.faster(random)
        judge = Judge(dataset, {})
        truth = judge.ratio(("Pytorch", False), ("Flash2", False), "forward")
        values: dict[str, list[int]] = {key: [] for key in ("better_at", "worse_at", "equal_at")}
        right = "better_at" if truth[128] > 1 else "worse_at"
        wrong = "worse_at" if truth[128] > 1 else "better_at"
        for stated, false in ((right, False), (wrong, True)):
            finding = Finding(
                kind="comparison",
                experiment="sweep",
                device=planted.DEVICE,
                subject={"implementation": "Flash2", "baseline": "Pytorch"}
                | {"metric": "forward_time", "variant": {"causal": False}},
                verdict="better",
                sentences=[],
                params={**values, stated: [128]},
                evidence=Evidence("samples.csv", {}, "planted", 12),
            )
            assert judge.comparison(finding)[0] is false

    def test_the_median_of_slow_samples_is_known(self) -> None:
        random = np.random.default_rng(2)
        times = random.lognormal(sigma=0.2, size=400_000)
        slow = random.random(times.size) < planted.SLOW_SHARE
        median = np.median(np.where(slow, times * planted.SLOW, times))
        assert planted.mixture_median(0.2) == pytest.approx(float(median), rel=0.002)
