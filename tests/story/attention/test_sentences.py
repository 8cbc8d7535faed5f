"""What a report on attention says: variants by verdicts, old falsehoods, both languages."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from planted.experiments import Planter
from story.breaking import LANGUAGES, assert_unbroken, judged, lacking, told

from flashlab.analysis.experiment import DERIVED, OBSERVATIONS
from flashlab.analysis.frames import POOLED, Dataset, Sweep
from flashlab.analysis.stage import make_tables
from flashlab.files import read_json, write_json
from flashlab.plan.plan_files import RECORDS
from flashlab.story import words
from flashlab.story.attention import causes, lesson, mask, memory, overall, roles, time
from flashlab.story.attention.sentences import observations
from flashlab.story.stage import observe

N, H = (128, 256, 512, 1024), (2, 4, 8, 16)
Speed = tuple[float, float, float, str]


def along(values: Sequence[int], scale: float, power: float) -> dict[int, Any]:
    """Times in ms, (forward, backward), of a power of the value; 1 to 4 MiB of memory."""
    of = {v: 100 * scale * (v / values[0]) ** power for v in values}
    return {v: {"forward": t, "backward": 2 * t, "peak": 1 + v / values[-1]} for v, t in of.items()}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Pytorch and Flash2 along N, with and without the mask, and along H; Flash2 twice as fast."""
    scales, longer = {"Pytorch": 2.0, "Flash2": 1.0}, [v + 64 for v in N]
    of_mask = {(n, m): along(longer, x, 2) for n, x in scales.items() for m in (False, True)}
    experiments = {
        "seq_len": ("seq_len", {n: along(N, x, 2) for n, x in scales.items()}),
        "causal": ("seq_len", of_mask),
        "num_heads": ("num_heads", {(n, True): along(H, x, 0.1) for n, x in scales.items()}),
    }
    return Planter(tmp_path_factory.mktemp("two")).report(experiments, spread=0.002)


def altered(data: Dataset, sweep: str, found: Sequence[Speed]) -> Dataset:
    """The same where a sweep's totals of Flash2 over Pytorch are others, value by value."""
    speeds, at = data.speeds.copy(), data.speeds.index
    mine = (at.get_level_values(0) == sweep) & (at.get_level_values(1) == "implementations")
    mine &= (at.get_level_values(3) == roles.TOTAL) & (at.get_level_values(4) == "Flash2")
    is_pooled = at.get_level_values(6) == POOLED
    columns = [speeds.columns.get_loc(c) for c in ("x", "low", "high", "verdict")]
    rows = [*zip(np.flatnonzero(mine & ~is_pooled), found, strict=True)]
    rows += [(row, open_(1.0)) for row in np.flatnonzero(mine & is_pooled)]
    for row, each in rows:
        speeds.iloc[row, columns] = list(each)
    return replace(data, speeds=speeds)


def odd(data: Dataset, at: int) -> Dataset:
    """The same where Flash2's run at a length dips."""
    runs, speeds, values = data.runs.copy(), data.speeds.copy(), data.values.copy()
    rate = ("forward_rate", "Flash2", at)
    values[[key[0] == "seq_len" and key[2:] == rate for key in values.index]] /= 2
    dips = [k[0] == "seq_len" and k[2:] == ("Flash2", at) for k in runs.index]
    runs.loc[dips, "odd"] = "forward"
    of = [k[0] == "seq_len" and "Flash2" in k[4:6] and k[6] == at for k in speeds.index]
    speeds.loc[of, "odd"] = True
    return replace(data, runs=runs, speeds=speeds, values=values)


def sure(x: float, width: float = 0.02) -> Speed:
    """A decided speed with its interval."""
    verdict = "faster" if x > 1.05 else "slower" if x < 0.95 else "equal"
    return x, x * (1 - width), x * (1 + width), verdict


def open_(x: float) -> Speed:
    """A speed that is not decided."""
    return x, x * 0.8, x * 1.25, "undecided"


def sweep_of(data: Dataset, name: str = "seq_len") -> Sweep:
    return next(s for s in data.sweeps if s.name == name)


LEADS: Mapping[str, tuple[Sequence[Speed], str]] = {
    "open between": ((sure(1.26), open_(1.02), sure(1.3), sure(2.86)), "lead_moves grows"),
    "stays": ((sure(2.0), sure(2.02), sure(2.01), sure(2.03)), "lead_constant"),
    "a little": ((sure(2.0, 0.003), sure(2.05), sure(2.1), sure(2.2, 0.003)), "lead_moves grows"),
    "peaks": ((sure(2.0), sure(3.0), sure(2.5), sure(2.1)), "lead_peaks"),
    "up and down": ((sure(4.6), sure(5.7), sure(5.0), sure(5.8)), "lead_moves turns"),
    "shrinks": ((sure(3.0), sure(2.5), sure(2.0), sure(1.5)), "lead_moves shrinks"),
    "turns": ((sure(0.86), open_(1.0), sure(1.2), sure(1.36)), "lead_turns"),
    "slower": ((sure(0.5),) * 4, "lead_slower"),
    "open at three values": ((sure(1.0), *(open_(1.0),) * 3), "lead_undecided"),
    "equal": ((sure(1.0),) * 4, "lead_equal"),
}


@pytest.mark.parametrize("case", LEADS)
def test_a_lead_is_told_by_verdicts_and_intervals_alone(two: Dataset, case: str) -> None:
    """It moves where its ends exclude each other; values that are open are named."""
    found, says = LEADS[case]
    (clause, *_) = time.lead_clause(sweep_of(altered(two, "seq_len", found)), "Flash2") or [{}]
    assert says in (clause["says"], f"{clause['says']} {clause.get('way')}")
    is_open = [v for v, each in zip(N, found, strict=True) if each[3] not in ("faster", "slower")]
    if says not in ("lead_undecided", "lead_equal"):
        assert (clause["open"]["at"] if clause["open"] else []) == is_open


def test_nothing_on_time_rests_on_an_odd_run(two: Dataset) -> None:
    """Neither growth nor lead nor what is to be used; page one names it once."""
    data = odd(altered(two, "seq_len", [*map(sure, (2.0, 2.1, 2.2, 9.0))]), 1024)
    found, answer = time.time(sweep_of(data)), overall.answer(data)
    assert found and (found.facts["growth"]["last"], found.facts["lead"]["at"]) == (512, [128, 512])
    assert answer and answer.facts["x"][1] < 9
    (notice,) = (o for o in observations(data) if o.place == "notice")
    assert (notice.name, notice.facts["rest"]["says"]) == ("odd", "odd_left")
    said = [o.variant if o else None for o in map(overall.cost, (two, odd(two, 1024)))]
    assert said == ["none", None], "nothing is said of all where one is left out"


def test_one_experiment_where_time_decides_nothing_has_an_answer(two: Dataset) -> None:
    """Nothing is pooled over a single experiment."""
    speeds = two.speeds[two.speeds.index.get_level_values(0) != ""].assign(verdict="undecided")
    found = told([o for o in (overall.answer(replace(two, speeds=speeds)),) if o], "attention")
    assert all("nan" not in text and text for text in map(str, found["answer"].values()))


def test_two_values_say_no_rule(two: Dataset) -> None:
    """`The longer, the more` needs three values; a line says what two of them show."""
    data = odd(odd(altered(two, "seq_len", [*map(sure, (2.0, 2.1, 2.2, 3.0))]), 256), 512)
    assert {(o.name, o.place) for o in observations(data) if o.variant == "two"} == {
        ("take", "line")
    }


def test_an_experiment_without_numbers_is_told(two: Dataset) -> None:
    """All of its runs failed: page one and its section say so, whoever they are of."""
    found = told(observations(lacking(two, lambda s, *_: s == "num_heads")), "attention")
    for language in LANGUAGES:
        assert "H" in found["notice"][language] and "Pytorch" in found["num_heads"][language]


def test_values_are_in_order_where_the_first_one_failed(two: Dataset) -> None:
    """The first implementation of the tables lacks the first value, which others have."""
    sweep = sweep_of(lacking(two, lambda s, _, *of: (s, *of) == ("seq_len", "Flash2", 128)))
    assert [*sweep.medians(roles.TOTAL).index] == [*N]
    found = time.time(sweep)
    assert found and found.facts["growth"]["first"] == 256


def test_heads_of_one_size_add_no_scores_alone(two: Dataset, monkeypatch: Any) -> None:
    """Where E grows with H, so does all else."""
    monkeypatch.setattr(causes, "LINE", 9)
    grown = replace(two, runs=two.runs.assign(emb_dim=64 * two.runs.num_heads))
    for data, says in ((two, "heads"), (grown, "grown")):
        found = memory.memory(sweep := sweep_of(data, "num_heads"))
        assert found and found.variant == says
        assert bool(causes.line_of(sweep, "forward")) == (says == "heads")


def test_beside_a_fused_baseline_nothing_slower_is_chosen(two: Dataset) -> None:
    """No head size; and of the mask it is the baseline that gains."""
    plans = {name: {**plan, "baseline": "Flash2"} for name, plan in two.plans.items()}
    data = judged(replace(two, plans=plans), "faster", compared="causal", subject="Flash2")
    told = mask.mask_time(sweep_of(data, "causal"))
    assert told and told.facts["parts"][0]["who"]["names"] == ["Flash2"]
    assert not {"choose", "decides"} & {each.name for each in observations(data)}
    assert {*overall._wins(data)} == {"Flash2"}  # who has the lowest total, baseline or not


FORWARD = [
    *(["copy", 0.09, 1.2e8, 4, 73, 26], ["copy", 0.2, 1.2e8, 2, 27, 96]),
    *(["product", 0.34, 1.2e9, 21, 21, 72], ["softmax", 0.79, 2.1e9, 0, 81, 56]),
    ["product", 0.29, 1.2e9, 26, 24, 85],
]
BACKWARD = [["product", 0.6, 2.4e9, 25, 25, 88], ["softmax", 1.0, 3.2e9, 0, 22, 65]]


@pytest.mark.parametrize(
    ("rows", "rate", "says"),
    [
        (FORWARD, 0.63, "bound_part"),
        (BACKWARD, 0.81, "bound_whole"),
        ([], 0.63, "bound_whole"),
        ([], 0.55, None),
        ([["softmax", 1.0, 2.5e9, 0, 81, 56]], 0.63, None),
    ],
)
def test_memory_bounds_a_pass_kernel_by_kernel(
    two: Dataset, monkeypatch: pytest.MonkeyPatch, rows: Any, rate: float, says: str | None
) -> None:
    """Of an H200's naive forward only the products are near it: softmax keeps the SMs busy."""
    counted = pd.DataFrame(rows, columns=causes.KERNEL)
    for name, value in {"copy_rate": 4.2e9, "dram_share": rate, "kernels": counted}.items():
        monkeypatch.setattr(causes, name, lambda *of, value=value: value)
    found = causes._of_pass(sweep_of(two), "Pytorch", "forward", 1024) or {"says": None}
    assert found["says"] == says
    if says == "bound_part":
        assert [each["kind"] for each in (*found["named"], found["rest"])] == ["product", "softmax"]


@pytest.mark.parametrize("x", [0.7, 1.0, 2.0])
def test_every_sentence_is_whole_whatever_failed(two: Dataset, x: float) -> None:
    assert_unbroken(altered(two, "seq_len", [sure(x)] * 4), observations, "attention", 10)


@pytest.mark.parametrize("story", ["attention", "common"])
def test_both_languages_say_the_same_kinds_and_on_attention_decide_nothing(story: str) -> None:
    texts = [(words.TEMPLATES / f"{story}.{each}.j2").read_text("utf-8") for each in LANGUAGES]
    macros = [sorted(re.findall(r"{%-? macro (\w+)", text)) for text in texts]
    assert macros[0] == macros[1] and len({*macros[0]}) == len(macros[0])
    assert story == "common" or not re.search(r"{%-? *(if|elif|else)", "".join(texts))


WRONG = "relative error against float64: {} 0.6; at most 0.005 is allowed"


@pytest.mark.parametrize(
    ("status", "of", "said"),
    [
        ("incorrect", "dqkv", "gradient"),
        ("incorrect", "out 0.5, dqkv", "incorrect"),
        ("unsupported", "dqkv", "unsupported"),  # a kernel's own words
    ],
)
def test_a_wrong_gradient_is_no_wrong_output(
    planter: Planter, status: str, of: str, said: str
) -> None:
    failed = {"status": status, "message": WRONG.format(of)}
    runs = {"Pytorch": along(N, 2, 2), "Flash2": along(N, 1, 2) | {128: failed}}
    found = lesson.missing(sweep_of(planter.report({"seq_len": ("seq_len", runs)})))
    assert found and [each["status"] for each in found.facts["of"]] == [said]


@pytest.mark.parametrize(
    ("times", "says"),
    [
        ((100, 90, 80, [60, 104, 170]), "fold_open"),
        ((100, 110, 120, 130), "fold_below"),
        ((100, 80, 60, 40), "fold_falls"),
    ],
)
def test_a_time_that_may_as_well_fall_is_not_said_to_grow(
    planter: Planter, times: Any, says: str
) -> None:
    runs = {"Pytorch": [100, 200, 400, 800], "Flash2": times}
    data = planter.report({"seq_len": ("seq_len", runs)})
    assert time.fold(sweep_of(data), "Flash2", N[0], N[-1], 64)["says"] == says


def test_the_order_of_runs_changes_nothing(planter: Planter) -> None:
    """A headline, and a sweep where some runs failed; names that are no missing values."""
    folder, runs = planter.folder, dict[Any, Any]()
    runs["Pytorch", False] = [3, {"forward": 12, "warnings": [{"code": "drift"}]}, 48, "oom"]
    runs["Pytorch", True] = [6, 24, 96, "oom"]
    runs |= {(name, mask): [1, 4, 16, 64] for name in ("NA", "nan") for mask in (False, True)}
    runs["NA", True] = [2, 8, "incorrect", 128]
    planter.experiment({name: {512: 9} for name in ("Pytorch", "NA", "nan")}, "summary", "")
    planter.experiment(runs)

    def derived() -> list[str]:
        make_tables(folder, None, folder / "tables")
        observe(folder, None, folder / OBSERVATIONS)
        return [folder.joinpath(name).read_text(encoding="utf-8") for name in DERIVED]

    before, plan = derived(), read_json(folder / RECORDS)
    for records in plan["experiments"].values():
        random.Random(3).shuffle(records)
    write_json(folder / RECORDS, plan)
    assert derived() == before and min(map(before[-1].count, ("NA", "nan"))) > 20
