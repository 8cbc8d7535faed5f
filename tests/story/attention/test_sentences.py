"""What a report on attention says: variants by verdicts, old falsehoods, both languages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from story.attention.reports import Sheet, write

from flashlab.analysis.frames import POOLED, Dataset
from flashlab.story import words
from flashlab.story.attention import causes, lesson, overall, roles, time
from flashlab.story.attention.sentences import observations
from flashlab.story.observation import Observation, read_observations, write_observations

LANGUAGES = ("en", "zh_TW")
N, H = (128, 256, 512, 1024), (2, 4, 8, 16)
TWO = ("Pytorch", "Flash2")
Speed = tuple[float, float, float, str]


def along(values: Sequence[int], scale: float, power: float) -> dict[int, Any]:
    """Times in ms, (forward, backward), of a power of the value; 1 to 4 MiB of memory."""
    of = {v: scale * (v / values[0]) ** power for v in values}
    return {
        v: {"forward": t * 100, "backward": 200 * t, "peak": 1 + v / values[-1]}
        for v, t in of.items()
    }


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Pytorch and Flash2 along N, with and without the mask, and along H; Flash2 twice as fast."""
    scales = {"Pytorch": 2.0, "Flash2": 1.0}
    keys = [(name, mask) for name in TWO for mask in (False, True)]
    sheets = {
        "seq_len": Sheet("N", {(n, False): along(N, x, 2) for n, x in scales.items()}),
        "causal": Sheet("N", {k: along([v + 64 for v in N], scales[k[0]], 2) for k in keys}),
        "num_heads": Sheet("H", {(n, True): along(H, x, 0.1) for n, x in scales.items()}),
    }
    return write(tmp_path_factory.mktemp("two"), sheets, spread=0.002)


def altered(
    data: Dataset, sweep: str, found: Sequence[Speed], pooled: Speed | None = None
) -> Dataset:
    """The same where a sweep's totals of Flash2 over Pytorch are others, value by value."""
    speeds = data.speeds.copy()
    at = speeds.index
    mine = (at.get_level_values(0) == sweep) & (at.get_level_values(1) == "implementations")
    mine &= (at.get_level_values(3) == roles.TOTAL) & (at.get_level_values(4) == "Flash2")
    columns = ["x", "low", "high", "verdict"]
    is_pooled = at.get_level_values(6) == POOLED
    for row, each in zip(np.flatnonzero(mine & ~is_pooled), found, strict=False):
        speeds.iloc[row, [speeds.columns.get_loc(c) for c in columns]] = list(each)  # type: ignore[index]
    for row in np.flatnonzero(mine & is_pooled):
        each = pooled or (1.0, 0.9, 1.1, "undecided")
        speeds.iloc[row, [speeds.columns.get_loc(c) for c in columns]] = list(each)  # type: ignore[index]
    return replace(data, speeds=speeds)


def sure(x: float, width: float = 0.02) -> Speed:
    """A decided speed with its interval."""
    verdict = "faster" if x > 1.05 else "slower" if x < 0.95 else "equal"
    return x, x * (1 - width), x * (1 + width), verdict


def open_(x: float) -> Speed:
    """A speed that is not decided."""
    return x, x * 0.8, x * 1.25, "undecided"


def lead(data: Dataset, sweep: str = "seq_len") -> Mapping[str, Any]:
    """The clause on the lead of Flash2."""
    found = time.lead_clause(sweep_of(data, sweep), "Flash2")
    assert found is not None
    return found[0]


def sweep_of(data: Dataset, name: str) -> Any:
    return next(s for s in data.sweeps if s.name == name)


LEADS: Mapping[str, tuple[Sequence[Speed], str]] = {
    # Undecided between two ends that exclude each other: the change is decided.
    "one between is open": ((sure(1.26), open_(1.02), sure(1.32), sure(2.86)), "lead_moves grows"),
    "stays": ((sure(2.0), sure(2.02), sure(2.01), sure(2.03)), "lead_constant"),
    # Within three margins, but the ends exclude each other: not the same.
    "hardly": ((sure(2.0, 0.003), sure(2.05), sure(2.1), sure(2.2, 0.003)), "lead_moves hardly"),
    "peaks": ((sure(2.0), sure(3.0), sure(2.5), sure(2.1)), "lead_peaks"),
    "shrinks": ((sure(3.0), sure(2.5), sure(2.0), sure(1.5)), "lead_moves shrinks"),
    "turns": ((sure(0.86), open_(1.0), sure(1.2), sure(1.36)), "lead_turns"),
    "slower": ((sure(0.5),) * 4, "lead_slower"),
    # One value within 5% and three undecided: not within 5%.
    "equal and open": ((sure(1.0), open_(1.0), open_(1.0), open_(1.0)), "lead_undecided"),
    "equal": ((sure(1.0),) * 4, "lead_equal"),
}


@pytest.mark.parametrize("case", LEADS)
def test_leads(two: Dataset, case: str) -> None:
    """Each variant by verdicts and intervals alone; values that are open are named."""
    found, says = LEADS[case]
    clause = lead(altered(two, "seq_len", found))
    assert says in (clause["says"], f"{clause['says']} {clause.get('change')}")
    is_open = [v for v, each in zip(N, found, strict=True) if each[3] not in ("faster", "slower")]
    if says not in ("lead_undecided", "lead_equal"):
        assert (clause["open"]["at"] if clause["open"] else []) == is_open


def test_what_moves_the_lead_most_counts_a_sweep_that_turns(two: Dataset) -> None:
    turned = altered(two, "seq_len", (sure(0.86), sure(0.9), sure(1.1), sure(1.36)))
    both = altered(turned, "num_heads", (sure(1.22), sure(1.2), sure(1.15), sure(1.1)))
    found = overall.decides(both)
    assert found is not None
    assert [each["p"] for each in found.facts["of"]] == ["N", "H"]
    assert found.variant == "most"
    near = altered(turned, "num_heads", (sure(1.0), sure(1.2), sure(1.3), sure(1.5)))
    unsure = overall.decides(near)
    assert unsure is not None and unsure.variant == "some"


def odd(data: Dataset, sweep: str, name: str, at: int) -> Dataset:
    """The same where a run dips."""
    runs, speeds = data.runs.copy(), data.speeds.copy()
    mine = [k[0] == sweep and k[2] == name and k[3] == at for k in runs.index]
    runs.loc[mine, "odd"] = True
    of = [k[0] == sweep and name in k[4:6] and k[6] == at for k in speeds.index]
    speeds.loc[of, "odd"] = True
    return replace(data, runs=runs, speeds=speeds)


def test_nothing_on_time_rests_on_an_odd_run(two: Dataset) -> None:
    """Neither growth nor lead nor what is to be used; page one names it once."""
    changed = altered(two, "seq_len", (sure(2.0), sure(2.1), sure(2.2), sure(9.0)))
    data = odd(changed, "seq_len", "Flash2", 1024)
    found = time.time(sweep_of(data, "seq_len"))
    assert found is not None
    assert found.facts["growth"]["last"] == 512
    assert found.facts["lead"]["at"] == [128, 512]
    answer = overall.answer(data)
    assert answer is not None and answer.facts["x"][1] < 9
    notices = [o for o in observations(data) if o.place == "notice"]
    assert [o.name for o in notices] == ["odd"]
    assert notices[0].facts["rest"]["says"] == "odd_left"


def test_two_values_say_no_rule(two: Dataset) -> None:
    """`The longer, the more` needs three values; a line says what two of them show."""
    data = altered(two, "seq_len", (sure(2.0), sure(2.1), sure(2.2), sure(3.0)))
    for at in (256, 512):
        data = odd(data, "seq_len", "Flash2", at)
    found = lesson.take(sweep_of(data, "seq_len"))
    assert found is not None and found.variant == "two"
    told = [o for o in observations(data) if o.variant == "two"]
    assert {o.place for o in told} == {"line"}


def test_an_experiment_without_numbers_is_told(tmp_path: Path) -> None:
    """All of its runs failed: page one and its section say so, whoever they are of."""
    cells = {(n, False): along(N, 1.0, 2) for n in TWO}
    lost = {(n, False): dict.fromkeys(H, "oom") for n in TWO}
    data = write(tmp_path, {"seq_len": Sheet("N", cells), "num_heads": Sheet("H", lost)})
    for language in LANGUAGES:
        texts = words.paragraphs(observations(data), language, story="attention")
        assert len(texts.notices) == 2
        assert all("H" in each for each in texts.notices)
        assert "Pytorch" in texts.sections["num_heads"]


# Causes

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
    monkeypatch.setattr(causes, "copy_rate", lambda s: 4.2e9)
    monkeypatch.setattr(causes, "dram_share", lambda *of: rate)
    counted = pd.DataFrame(rows, columns=causes.KERNEL)
    monkeypatch.setattr(causes, "kernels", lambda *of: counted)
    found = causes._of_pass(sweep_of(two, "seq_len"), "Pytorch", "forward", 1024)
    assert (found and found["says"]) == says
    if says == "bound_part":
        assert found is not None
        assert [each["kind"] for each in found["named"]] == ["product"]
        assert found["rest"]["kind"] == "softmax"


# All of it


def without_intervals(data: Dataset) -> Dataset:
    nothing = data.speeds.assign(low=np.nan, high=np.nan, verdict="undecided")
    return replace(data, speeds=nothing)


def without(data: Dataset, lost: Callable[[tuple[Any, ...]], bool]) -> Dataset:
    """The same where some runs failed."""
    gone = [lost(key) for key in data.runs.index]
    key = [lost((k[0], k[1], k[3], k[4])) for k in data.values.index]
    pairs = [
        any(lost((k[0], k[2], name, k[6])) for name in k[4:6] if k[6] != POOLED)
        for k in data.speeds.index
    ]
    failed = data.runs[gone].assign(status="oom")
    return replace(
        data,
        runs=data.runs[[not each for each in gone]],
        failed=pd.concat([data.failed, failed]),
        values=data.values[[not each for each in key]],
        speeds=data.speeds[[not each for each in pairs]],
    )


def with_shares(data: Dataset, percent: float) -> Dataset:
    """The same where so much of the baseline's forward is of each kind of operator, as on a CPU."""
    metrics = [f"forward_{kind}_share" for kind in ("product", "softmax", "elementwise")]
    (variant,) = sweep_of(data, "seq_len").variants
    keys = [("seq_len", variant, metric, "Pytorch", n) for metric in metrics for n in N]
    index = pd.MultiIndex.from_tuples(keys, names=data.values.index.names)
    return replace(
        data, values=pd.concat([data.values, pd.Series(percent, index, name="value")]).sort_index()
    )


ALTERED: Mapping[str, Callable[[Dataset], Dataset]] = {
    "as planted": lambda data: data,
    "no intervals": without_intervals,
    **{
        f"speeds of {x}": lambda data, x=x: altered(data, "seq_len", (sure(x),) * 4, sure(x))
        for x in (0.7, 1.0, 1.02)
    },
    "turns": lambda data: altered(data, "num_heads", (sure(0.8), sure(0.9), sure(1.1), sure(1.4))),
    "pooled": lambda data: altered(data, "seq_len", (open_(1.1),) * 4, sure(1.1)),
    "no Pytorch": lambda data: without(data, lambda k: k[2] == "Pytorch"),
    "no Flash2": lambda data: without(data, lambda k: k[2] == "Flash2"),
    "only one value": lambda data: without(data, lambda k: k[3] not in (128, 192, 2)),
    "one operator of no kind": lambda data: with_shares(data, 0.0),
    "operators": lambda data: with_shares(data, 30.0),
    "no mask": lambda data: without(data, lambda k: k[0] == "causal" and k[1] == "causal=true"),
    "every second": lambda data: without(data, lambda k: k[3] in (256, 1024, 4, 16)),
    "nothing": lambda data: without(data, lambda k: k[0] != "num_heads" or k[2] == "Flash2"),
}


@pytest.mark.parametrize("case", ALTERED)
def test_every_sentence_is_said_whatever_failed(two: Dataset, case: str, tmp_path: Path) -> None:
    """In both languages, whole, alike from observations.json, each with the rows behind it."""
    told = observations(ALTERED[case](two))
    write_observations(told, tmp_path / "observations.json")
    kept = read_observations(tmp_path / "observations.json")
    assert all(o.evidence for o in kept if o.facts), [o.macro for o in kept if not o.evidence]
    for language in LANGUAGES:
        texts = words.paragraphs(told, language, story="attention")
        assert words.paragraphs(kept, language, story="attention") == texts
        every = [*texts.lines.values(), *texts.notices, *texts.sections.values(), texts.answer]
        for text in filter(None, (*every, texts.conclusion)):
            assert text[-1] in ".。" and not re.search(r"nan|inf\b|None|  |[,;] *[.;,]", text), text


def test_values_are_in_order_where_the_first_one_failed(two: Dataset) -> None:
    """The first implementation of the tables lacks the first value, which others have."""
    data = without(two, lambda k: k[0] == "seq_len" and k[2:] == ("Flash2", 128))
    sweep = sweep_of(data, "seq_len")
    assert [*sweep.medians(roles.TOTAL).index] == [*N]
    found = time.time(sweep)
    assert found is not None and found.facts["growth"]["first"] == 256


def test_a_sentence_points_to_its_table_and_figures_once(two: Dataset) -> None:
    refs = {"seq_len": {"table": "2", "time": "1", "rate": "3"}}
    texts = words.paragraphs(observations(two), "en", refs, "attention")
    assert texts.sections["seq_len"].count("(Table 2, Fig. 1).") == 1
    chinese = words.paragraphs(observations(two), "zh_TW", refs, "attention")
    assert chinese.sections["seq_len"].count("（表 2、圖 1）。") == 1


@pytest.mark.parametrize("story", ["attention", "common"])
def test_both_languages_say_the_same_kinds_and_decide_nothing(story: str) -> None:
    texts = [(words.TEMPLATES / f"{story}.{each}.j2").read_text("utf-8") for each in LANGUAGES]
    macros = [re.findall(r"{%-? macro (\w+)", text) for text in texts]
    assert sorted(macros[0]) == sorted(macros[1]) and len({*macros[0]}) == len(macros[0])


def test_no_macro_on_attention_branches() -> None:
    for language in LANGUAGES:
        text = (words.TEMPLATES / f"attention.{language}.j2").read_text("utf-8")
        assert not re.search(r"{%-? *(if|elif|else)", text)


def test_a_missing_macro_or_fact_is_named() -> None:
    with pytest.raises(words.StoryError, match="no macro nothing_at_all"):
        words.sentence(Observation("nothing", None, {}, (), "at_all"), "en", "attention")
    with pytest.raises(words.StoryError, match="take_even"):
        words.sentence(Observation("take", None, {}, (), "even"), "en", "attention")
