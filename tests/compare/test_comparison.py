"""The table of two sides that were recorded, and what stands around it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from compare.recordings import Recording, compared_of, record, runs

from flashlab.analysis.ceilings import read_ceilings
from flashlab.analysis.comparison_rows import DATASET
from flashlab.analysis.comparisons import COLUMNS
from flashlab.compare.comparison import compare_ceilings, to_json
from flashlab.compare.report import as_text, report_of
from flashlab.story.compare import Compared


def text_of(document: Compared) -> str:
    return as_text(report_of(document, ("en",), Path()), "en", markdown=False)


def single(document: Compared, metric: str = "forward_time") -> pd.DataFrame:
    table = document.table
    of_runs = table[(table.compared == DATASET) & table["shape"].notna()]
    return of_runs[of_runs.metric == metric]


def test_a_row_has_the_columns_of_comparisons_csv_and_the_second_side_over_the_first(
    tmp_path: Path,
) -> None:
    one, other = record(runs([256]), 1), record(runs([256]), 2, factor=lambda _: 2.0, peak=20.0)
    document = compared_of(tmp_path, one, other)
    assert [*document.table.columns[: len(COLUMNS)]] == [*COLUMNS]
    memory = single(document, "peak_memory").iloc[0]
    assert (memory.subject, memory.reference, memory.compared) == ("after", "before", DATASET)
    ends = (memory.ratio, memory.low, memory.high, memory.verdict)
    assert ends == (2.0, 2.0, 2.0, "above")
    assert (memory.reference_median, memory.subject_median, memory.processes) == (10, 20, "3 3")
    time = single(document).iloc[0]
    assert time.low < time.ratio < time.high and time.ratio == pytest.approx(2, rel=0.05)


def test_exact_values_that_differ_between_processes_have_the_range_of_their_ratios(
    tmp_path: Path,
) -> None:
    one, other = record(runs([256]), 1), record(runs([256]), 2)
    (run,) = other
    for place, (each, peak) in enumerate(zip(other[run], (10.0, 20.0, 10.0), strict=True)):
        metric = replace(each.metrics["peak_memory"], value=peak)
        other[run][place] = replace(each, metrics={**each.metrics, "peak_memory": metric})
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
    document = compared_of(tmp_path, one, one)
    for metric in ("forward_time", "forward_backward_time"):
        assert Counter(single(document, metric).verdict) == {"equal": 4}


def of_three(seed: int, first: float, second: float) -> Recording:
    """Three implementations at one setting, whose forward passes take this many ms."""
    planted = (("Flash2", first), ("Flash4", second), ("Pytorch", 3.0))
    sides = [
        record(runs([256], implementation=name), n, spread=0.002, factor=lambda _, f=ms: f)
        for n, (name, ms) in enumerate(planted, start=seed)
    ]
    return sides[0] | sides[1] | sides[2]


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ((1.0, 1.9), "The choice does not change: where both decide which is the fastest in total "
         "(at 1 settings), it is Flash2 on both."),
        ((1.9, 1.0), "The choice changes at 1 of the 1 settings"),
        ((1.02, 1.0), "At no setting do both decide which one is the fastest."),
    ],
)  # fmt: skip
def test_the_fastest_is_told_where_both_sides_decide_on_one(
    after: tuple[float, float], said: str, tmp_path: Path
) -> None:
    document = compared_of(tmp_path, of_three(1, 1.0, 1.9), of_three(4, *after))
    assert said in text_of(document)


def test_circumstances_count_the_processes_and_gpus_of_what_is_compared(tmp_path: Path) -> None:
    one = record(runs(), 1, processes=2)
    other = record(runs(), 2) | record(runs([512]), 2, processes=5)
    for cards, driver, side in ((1, None, one), (2, "2", other)):
        for run, records in side.items():
            side[run] = [
                replace(r, environment={**r.environment, "gpu_uuid": gpu, "driver": driver})
                for r in records
                if (gpu := f"GPU-{r.process % cards}")
            ]
    document = compared_of(tmp_path, one, other)
    rows = [row for row in document.about["environments"] if row["verdict"] != "agrees"]
    assert {row["field"]: (row["one"], row["other"], row["verdict"]) for row in rows} == {
        "gpus": (["1"], ["2"], "differs"),
        "processes": (["2"], ["3"], "differs"),
        "driver": ([], ["2"], "unstated"),
    }


def test_of_protocols_their_names_are_told_and_what_differs_of_them(tmp_path: Path) -> None:
    one, other = record(runs(), 1), record(runs(), 2)
    for side, seconds in ((one, 1), (other, 2)):
        for run, records in side.items():
            protocol = {"name": "sampled", "max_seconds": seconds, "corpus": {"seed": 0}}
            side[run] = [replace(each, protocol=protocol) for each in records]
    rows = compared_of(tmp_path, one, other).about["environments"]
    (row,) = (row for row in rows if row["field"] == "protocol")
    assert (row["one"], row["other"]) == (["sampled, max_seconds 1"], ["sampled, max_seconds 2"])


def test_the_ceilings_of_both_devices_stand_beside_each_other() -> None:
    both = []
    for milliseconds in (2.0, 1.0):
        calls = {"time(s)": milliseconds / 1e3, "samples": [milliseconds / 1e3] * 30}
        product = {"float16": {**calls, "size": 1000}}
        about = {"device": "cuda", "environment": {}, "matrix_product": product}
        both.append(read_ceilings({**about, "copy": {**calls, "bytes": 10**9}}))
    copied, multiplied = compare_ceilings(both, {"float16"})
    steady = {"sustained": [None, None]}
    near = [pytest.approx(value) for value in (1000, 2000, 1, 2)]
    assert copied == {"what": "copy", "one": near[0], "other": near[1], **steady}
    assert multiplied == {"what": "float16", "one": near[2], "other": near[3], **steady}
    assert compare_ceilings([both[0], None], {"float16"}) == []


def test_sides_without_any_result_in_common_are_told_and_not_compared(tmp_path: Path) -> None:
    one, other = (record(runs([256]), seed) for seed in (1, 2))
    for side in (one, other):
        for run, records in side.items():
            failed = {"status": "incorrect", "message": "wrong", "metrics": {}}
            side[run] = [replace(each, **failed) for each in records]
    compared = compared_of(tmp_path, one, other)
    assert to_json(compared)["comparisons"] == []
    said = text_of(compared)
    assert said.startswith("Comparison of before and after\n")
    assert "\nNo run has a time on both sides.\n" in said
    assert "Flash2 has no result at B1 N256 H8 E512 full on either side (wrong results)." in said
