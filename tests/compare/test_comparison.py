"""The table of two sides that were recorded, and what stands around it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from compare.recordings import Recording, changed, compared_of, record, runs

from flashlab.analysis.ceilings import Ceiling, Ceilings
from flashlab.analysis.comparison_rows import DATASET
from flashlab.analysis.comparisons import COLUMNS
from flashlab.compare.comparison import compare_ceilings, to_json
from flashlab.compare.report import as_text, report_of
from flashlab.records import Record
from flashlab.statistics import estimate_median
from flashlab.story.compare import Compared


def text_of(c: Compared) -> str:
    return as_text(report_of(c, ("en",), Path()), "en", markdown=False)


def single(c: Compared, metric: str = "forward_time") -> pd.DataFrame:
    of_runs = c.table[(c.table.compared == DATASET) & c.table["shape"].notna()]
    return of_runs[of_runs.metric == metric]


def test_a_row_has_the_columns_of_comparisons_csv_and_the_second_side_over_the_first(
    tmp_path: Path,
) -> None:
    one, other = record(runs([256]), 1), record(runs([256]), 2, factor=lambda _: 2.0, peak=20.0)
    c = compared_of(tmp_path, one, other)
    assert [*c.table.columns[: len(COLUMNS)]] == [*COLUMNS]
    memory, time = single(c, "peak_memory").iloc[0], single(c).iloc[0]
    assert (memory.subject, memory.reference, memory.compared) == ("after", "before", DATASET)
    assert (memory.ratio, memory.low, memory.high, memory.verdict) == (2.0, 2.0, 2.0, "above")
    assert (memory.reference_median, memory.subject_median, memory.processes) == (10, 20, "3 3")
    assert time.low < time.ratio < time.high and time.ratio == pytest.approx(2, rel=0.05)


def test_exact_values_that_differ_between_processes_have_the_range_of_their_ratios(
    tmp_path: Path,
) -> None:
    def differing(each: Record) -> dict[str, Any]:
        value = (10.0, 20.0, 10.0)[each.process]
        memory = replace(each.metrics["peak_memory"], value=value)
        return {"metrics": {**each.metrics, "peak_memory": memory}}

    one, other = record(runs([256]), 1), changed(record(runs([256]), 2), differing)
    memory = single(compared_of(tmp_path, one, other), "peak_memory").iloc[0]
    ends = (memory.ratio, memory.low, memory.high, memory.verdict)
    assert ends == (2.0, 1.0, 2.0, "inconclusive")


def test_two_recordings_of_identical_code_never_differ(tmp_path: Path) -> None:
    measured = runs(range(256, 256 * 13, 256))
    for seed, spread in enumerate((0.003, 0.01, 0.02)):
        both = (record(measured, 2 * seed + side, spread=spread) for side in (0, 1))
        found = Counter(single(compared_of(tmp_path / str(seed), *both)).verdict)
        assert found.keys() <= {"equal", "inconclusive"}
        # Where processes differ by little, most runs are decided.
        assert spread > 0.003 or found["equal"] == len(measured)


def test_the_same_records_on_both_sides_are_equal_whatever_their_noise(tmp_path: Path) -> None:
    one = record(runs(), 1, processes=1, spread=0.1)
    c = compared_of(tmp_path, one, one)
    for metric in ("forward_time", "forward_backward_time"):
        assert Counter(single(c, metric).verdict) == {"equal": 4}


def of_three(seed: int, *milliseconds: float) -> Recording:
    """Three implementations at one setting, whose forward passes take this many ms."""
    found: Recording = {}
    names = zip(("Flash2", "Flash4", "Pytorch"), (*milliseconds, 3.0), strict=True)
    for n, (name, ms) in enumerate(names, start=seed):
        found |= record(runs([256], name), n, spread=0.002, factor=lambda _, ms=ms: ms)
    return found


def test_the_fastest_is_told_where_both_sides_decide_on_one(tmp_path: Path) -> None:
    said = text_of(compared_of(tmp_path, of_three(1, 1.0, 1.9), of_three(4, 1.9, 1.0)))
    assert "The choice changes at 1 of the 1 settings" in said


def test_circumstances_are_of_what_is_compared_and_tell_what_of_a_protocol_differs(
    tmp_path: Path,
) -> None:
    def on(cards: int, driver: str | None, seconds: int) -> Any:
        protocol = {"name": "sampled", "max_seconds": seconds, "corpus": {"seed": 0}}
        of_card = {"driver": driver}
        return lambda r: {
            "environment": r.environment | of_card | {"gpu_uuid": f"GPU-{r.process % cards}"},
            "protocol": protocol,
        }

    one = changed(record(runs(), 1, processes=2), on(1, None, 1))
    further = record(runs([512]), 2, processes=5)  # that the first side does not have
    other = changed(record(runs(), 2) | further, on(2, "2", 2))
    rows = compared_of(tmp_path, one, other).about["environments"]
    told = {r["field"]: (r["one"], r["other"]) for r in rows if r["verdict"] != "agrees"}
    assert told == {
        "gpus": (["1"], ["2"]),
        "processes": (["2"], ["3"]),
        "driver": ([], ["2"]),
        "protocol": (["sampled, max_seconds 1"], ["sampled, max_seconds 2"]),
    }
    assert {r["field"] for r in rows if r["verdict"] == "unstated"} == {"driver"}


def ceilings(milliseconds: float, falls: float | None = None) -> Ceilings:
    """Of a device that multiplies 10⁹ operations, or copies as many bytes, in so long a call."""
    times = (each and estimate_median([each] * 30) for each in (milliseconds, falls))
    of = Ceiling(1e9, *times)
    return Ceilings("Abacus", {"float16": of}, of)


@pytest.mark.parametrize(
    ("one", "other", "rates", "sustained"),
    [
        ((2.0,), (1.0,), (500, 1000), [None, None]),
        ((2.0, 2.5), (1.0, 1.25), (500, 1000), [400, 800]),
        ((2.0, 2.5), (2.4,), (400, 1000 / 2.4), [None, None]),  # hot from the first call on
    ],
)
def test_rates_of_one_state_stand_beside_each_other(
    one: Any, other: Any, rates: tuple[float, float], sustained: list[float | None]
) -> None:
    both = [ceilings(*one), ceilings(*other)]
    copy, product = compare_ceilings(both, {"float16"})
    assert (copy["one"], copy["other"]) == pytest.approx(rates)
    assert copy["sustained"] == pytest.approx(sustained)
    assert (copy["what"], product["what"]) == ("copy", "float16")
    assert product["one"] == pytest.approx(copy["one"] / 1000)  # TFLOP/s, not GB/s
    assert compare_ceilings([both[0], None], {"float16"}) == []


def test_sides_without_any_result_in_common_are_told_and_not_compared(tmp_path: Path) -> None:
    failed = {"status": "incorrect", "message": "wrong", "metrics": {}}
    one, other = (changed(record(runs([256]), seed), lambda _: failed) for seed in (1, 2))
    c = compared_of(tmp_path, one, other)
    assert to_json(c)["comparisons"] == []
    said = text_of(c)
    assert said.startswith("Comparison of before and after\n")
    assert "\nNo run has a time on both sides.\n" in said
    assert "Flash2 has no result at B1 N256 H8 E512 full on either side (wrong results)." in said
