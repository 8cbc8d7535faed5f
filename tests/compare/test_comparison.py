"""The table of two sides that were recorded, and what stands around it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from compare.recordings import Recording, record, runs

from flashlab.analysis.comparison_rows import DATASET
from flashlab.analysis.comparisons import COLUMNS
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.compare.circumstances import compare_ceilings
from flashlab.compare.comparison import compare_records, comparison_table, read_table
from flashlab.compare.report import as_lines, texts_of
from flashlab.files import write_json


def table_of(one: Recording, other: Recording) -> pd.DataFrame:
    return comparison_table(ATTENTION, ("before", one), ("after", other))


def document_of(one: Recording, other: Recording) -> dict[str, Any]:
    return compare_records(ATTENTION, ("before", one), ("after", other))


def verdicts(table: pd.DataFrame, metric: str = "forward_time") -> Counter[str]:
    single = table[(table.compared == DATASET) & table["shape"].notna()]
    return Counter(single[single.metric == metric].verdict)


def test_a_row_has_the_columns_of_comparisons_csv_and_the_second_side_over_the_first() -> None:
    one, other = record(runs([256]), 1), record(runs([256]), 2, factor=lambda _: 2.0, peak=20.0)
    table = table_of(one, other)
    assert [*table.columns[: len(COLUMNS)]] == [*COLUMNS]
    memory = table[(table.metric == "peak_memory") & table["shape"].notna()].iloc[0]
    assert (memory.subject, memory.reference, memory.compared) == ("after", "before", DATASET)
    ends = (memory.ratio, memory.low, memory.high, memory.verdict)
    assert ends == (2.0, 2.0, 2.0, "above")
    assert (memory.reference_median, memory.subject_median, memory.processes) == (10, 20, "3 3")
    time = table[(table.metric == "forward_time") & table["shape"].notna()].iloc[0]
    assert time.low < time.ratio < time.high and time.ratio == pytest.approx(2, rel=0.05)


def test_exact_values_that_differ_between_processes_have_the_range_of_their_ratios() -> None:
    one, other = record(runs([256]), 1), record(runs([256]), 2)
    (run,) = other
    peaks = (10.0, 20.0, 10.0)
    for place, (each, peak) in enumerate(zip(other[run], peaks, strict=True)):
        metric = replace(each.metrics["peak_memory"], value=peak)
        other[run][place] = replace(each, metrics={**each.metrics, "peak_memory": metric})
    found = table_of(one, other)
    memory = found[(found.metric == "peak_memory") & found["shape"].notna()].iloc[0]
    ends = (memory.ratio, memory.low, memory.high, memory.verdict)
    assert ends == (2.0, 1.0, 2.0, "inconclusive")


def test_two_recordings_of_identical_code_never_differ() -> None:
    measured = runs(range(256, 256 * 21, 256))
    for seed, spread in enumerate((0.003, 0.01, 0.02)):
        one, other = (record(measured, 2 * seed + side, spread=spread) for side in (0, 1))
        assert verdicts(table_of(one, other)).keys() <= {"equal", "inconclusive"}
    # Where processes differ by little, most runs are decided.
    quiet = [record(measured, seed, spread=0.003) for seed in (10, 11)]
    assert verdicts(table_of(*quiet))["equal"] == len(measured)


def test_the_same_records_on_both_sides_are_equal_whatever_their_noise() -> None:
    one = record(runs(), 1, processes=1, spread=0.1)
    for metric in ("forward_time", "forward_backward_time"):
        assert verdicts(table_of(one, one), metric) == {"equal": 4}


def test_the_table_is_read_as_it_was_written() -> None:
    one, other = (record(runs(masks=(False, True)), seed) for seed in (1, 2))
    found = read_table(document_of(one, other))
    same = {"check_dtype": False, "check_exact": False, "rtol": 1e-8}
    pd.testing.assert_frame_equal(found, table_of(one, other), **same)


def of_three(seed: int, first: float, second: float) -> Recording:
    """Three implementations at one setting, whose forward passes take this many ms."""
    planted = (("Flash2", first), ("Flash4", second), ("Pytorch", 3.0))
    sides = [
        record(runs([256], implementation=name), n, spread=0.002, factor=lambda _, f=ms: f)
        for n, (name, ms) in enumerate(planted, start=seed)
    ]
    return sides[0] | sides[1] | sides[2]


def test_the_fastest_is_told_where_both_sides_decide_on_one() -> None:
    def told(before: tuple[float, float], after: tuple[float, float]) -> str:
        return texts_of(document_of(of_three(1, *before), of_three(4, *after)), "en").conclusion

    assert told((1.0, 1.9), (1.0, 1.9)) == (
        "The choice does not change: where both decide which is the fastest in total (at 1 "
        "settings), it is Flash2 on both."
    )
    assert told((1.0, 1.9), (1.9, 1.0)).startswith("The choice changes at 1 of the 1 settings")
    assert told((1.0, 1.9), (1.02, 1.0)) == "At no setting do both decide which one is the fastest."


def test_circumstances_count_the_processes_and_gpus_of_what_is_compared() -> None:
    one = record(runs(), 1, processes=2)
    other = record(runs(), 2) | record(runs([512]), 2, processes=5)
    for cards, driver, side in ((1, None, one), (2, "2", other)):
        for run, records in side.items():
            side[run] = [
                replace(r, environment={**r.environment, "gpu_uuid": gpu, "driver": driver})
                for r in records
                if (gpu := f"GPU-{r.process % cards}")
            ]
    document = document_of(one, other)
    rows = [row for row in document["environments"] if row["verdict"] != "agrees"]
    assert {row["field"]: (row["one"], row["other"], row["verdict"]) for row in rows} == {
        "gpus": (["1"], ["2"], "differs"),
        "processes": (["2"], ["3"], "differs"),
        "driver": ([], ["2"], "unstated"),
    }


def test_the_ceilings_of_both_devices_stand_beside_each_other(tmp_path: Path) -> None:
    for name, milliseconds in (("one", 2.0), ("other", 1.0)):
        calls = {"time(s)": milliseconds / 1e3, "samples": [milliseconds / 1e3] * 30}
        document = {
            "device": "cuda",
            "environment": {},
            "matrix_product": {"float16": {**calls, "size": 1000}},
            "copy": {**calls, "bytes": 10**9},
        }
        write_json(tmp_path / name, document)
    found = compare_ceilings(tmp_path / "one", tmp_path / "other", {"float16"})
    steady = {"sustained": [None, None]}
    copied, product = (
        (pytest.approx(1000), pytest.approx(2000)),
        (pytest.approx(1), pytest.approx(2)),
    )
    assert found == [
        {"what": "copy", "one": copied[0], "other": copied[1], **steady},
        {"what": "float16", "one": product[0], "other": product[1], **steady},
    ]
    assert compare_ceilings(tmp_path / "one", None, {"float16"}) == []


def test_sides_without_any_result_in_common_are_told_and_not_compared() -> None:
    one, other = (record(runs([256]), seed) for seed in (1, 2))
    for side in (one, other):
        for run, records in side.items():
            side[run] = [replace(each, status="incorrect", metrics={}) for each in records]
    document = document_of(one, other)
    assert document["comparisons"] == []
    texts = texts_of(document, "en")
    assert (texts.answer, *texts.notices) == (
        "No run has a time on both sides.",
        "Flash2 has no result at B1 N256 H8 E512 full on either side (wrong results).",
    )
    assert as_lines(document, "en", markdown=False).startswith("Comparison of before")
