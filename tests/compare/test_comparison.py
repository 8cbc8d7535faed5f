"""The table of two sides that were recorded, what stands around it, and what a side is."""

from __future__ import annotations

import shutil
import tarfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from compare.recordings import changed, compared_of, git, keep, record, runs

from flashlab import machine
from flashlab.analysis.ceilings import Ceiling, Ceilings
from flashlab.analysis.comparisons import COLUMNS
from flashlab.analysis.experiment import DATASET
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.implementations import find_implementations
from flashlab.compare.comparison import compare, compare_ceilings, to_json
from flashlab.compare.report import as_text, report_of
from flashlab.compare.sides import SideError, find_side
from flashlab.files import write_json
from flashlab.plan.plan_files import RECORDS, process_files
from flashlab.records import Record, read_record
from flashlab.statistics import estimate_median
from flashlab.story.compare import Compared


def single(c: Compared, metric: str = "forward_time") -> pd.DataFrame:
    of_runs = c.table[(c.table.compared == DATASET) & c.table["shape"].notna()]
    return of_runs[of_runs.metric == metric]


def test_a_row_has_the_second_side_over_the_first(tmp_path: Path) -> None:
    """As comparisons.csv has columns; exact values that differ between processes have the range of
    their ratios."""

    def differing(each: Record) -> dict[str, Any]:
        memory = replace(each.metrics["peak_memory"], value=(10.0, 20.0, 10.0)[each.process])
        return {"metrics": {**each.metrics, "peak_memory": memory}}

    one, other = record(runs([256]), 1), record(runs([256]), 2, factor=lambda _: 2.0, peak=20.0)
    c = compared_of(tmp_path, one, other)
    assert [*c.table.columns[: len(COLUMNS)]] == [*COLUMNS]
    memory, time = single(c, "peak_memory").iloc[0], single(c).iloc[0]
    assert (memory.subject, memory.reference, memory.compared) == ("after", "before", DATASET)
    assert (memory.ratio, memory.low, memory.high, memory.verdict) == (2.0, 2.0, 2.0, "above")
    assert (memory.reference_median, memory.subject_median, memory.processes) == (10, 20, "3 3")
    assert time.low < time.ratio < time.high and time.ratio == pytest.approx(2, rel=0.05)
    varied = single(compared_of(tmp_path / "varied", one, changed(other, differing)), "peak_memory")
    assert [*varied.iloc[0][["ratio", "low", "high"]]] == [2.0, 1.0, 2.0]
    assert varied.iloc[0].verdict == "inconclusive"


def test_two_recordings_of_identical_code_never_differ(tmp_path: Path) -> None:
    """And the same records are equal, whatever their noise."""
    measured = runs(range(256, 256 * 13, 256))
    for seed, spread in enumerate((0.003, 0.01, 0.02)):
        one, other = (record(measured, 2 * seed + side, spread=spread) for side in (0, 1))
        found = Counter(single(compared_of(tmp_path / str(seed), one, other)).verdict)
        assert found.keys() <= {"equal", "inconclusive"}
        # Where processes differ by little, most runs are decided.
        assert spread > 0.003 or found["equal"] == len(measured)
    c = compared_of(tmp_path / "same", one, one)
    for metric in ("forward_time", "forward_backward_time"):
        assert {*single(c, metric).verdict} == {"equal"}


def test_circumstances_are_of_what_is_compared_and_tell_what_differs(tmp_path: Path) -> None:
    def on(cards: int, driver: str | None, seconds: int) -> Any:
        protocol = {"name": "sampled", "max_seconds": seconds, "corpus": {"seed": 0}}
        return lambda r: {
            "environment": r.environment | dict(driver=driver, gpu_uuid=f"GPU-{r.process % cards}"),
            "protocol": protocol,
        }

    one = changed(record(runs(), 1, processes=2), on(1, None, 1))
    further = record(runs([512]), 2, processes=5)  # that the first side does not have
    other = changed(record(runs(), 2) | further, on(2, "2", 2))
    rows = compared_of(tmp_path, one, other).about["environments"]
    told = {r["field"]: (r["one"], r["other"]) for r in rows if r["verdict"] != "agrees"}
    expected = {"gpus": (["1"], ["2"]), "processes": (["2"], ["3"]), "driver": ([], ["2"])}
    expected["protocol"] = ["sampled, max_seconds 1"], ["sampled, max_seconds 2"]
    assert told == expected
    assert {r["field"] for r in rows if r["verdict"] == "unstated"} == {"driver"}


def ceilings(milliseconds: float, falls: float | None = None) -> Ceilings:
    """Of a device that multiplies 10⁹ operations, or copies as many bytes, in so long a call."""
    of = Ceiling(1e9, *(each and estimate_median([each] * 30) for each in (milliseconds, falls)))
    return Ceilings("Abacus", {"float16": of}, of)


@pytest.mark.parametrize(
    ("one", "other", "rates", "sustained"),
    [
        ((2.0,), (1.0,), (500, 1000), [None, None]),
        ((2.0, 2.5), (1.0, 1.25), (500, 1000), [400, 800]),
        ((2.0, 2.5), (2.4,), (400, 1000 / 2.4), [None, None]),  # hot from the first call on
    ],
)
def test_rates_are_of_one_state(one: Any, other: Any, rates: Any, sustained: Any) -> None:
    copy, product = compare_ceilings([ceilings(*one), ceilings(*other)], {"float16"})
    assert (copy["what"], copy["one"], copy["other"]) == ("copy", *map(pytest.approx, rates))
    assert copy["sustained"] == pytest.approx(sustained)
    assert product["one"] == pytest.approx(copy["one"] / 1000)  # TFLOP/s, not GB/s


def test_sides_without_any_result_in_common_are_told_and_not_compared(tmp_path: Path) -> None:
    failed = {"status": "incorrect", "message": "wrong", "metrics": {}}
    one, other = (changed(record(runs([256]), seed), lambda _: failed) for seed in (1, 2))
    c = compared_of(tmp_path, one, other)
    assert to_json(c)["comparisons"] == []
    said = as_text(report_of(c, ("en",)), "en", markdown=False)
    assert "\nNo run has a time on both sides.\n" in said
    assert "Flash2 has no result at B1 N256 H8 E512 full on either side (wrong results)." in said


# Which records a name stands for


def files_of(name: Path | str) -> list[Path]:
    """The records that a name stands for."""
    records = find_side(str(name), ATTENTION)["records"]
    return [Path(file["path"]) for each in records for file in process_files(each)]


@pytest.fixture
def measured() -> list[Record]:
    """Three processes of one run."""
    ((records),) = record(runs([256]), 1).values()
    return records


def test_a_folder_has_the_newest_of_each_process(tmp_path: Path, measured: list[Record]) -> None:
    paths = keep(tmp_path, measured)
    keep(tmp_path, [replace(measured[0], started="2025-01-01T00:00:00+00:00")])
    tmp_path.joinpath("notes.json").write_text("[]")
    assert files_of(tmp_path) == paths
    edited = {**measured[0].sources, "implementation_digest": "0" * 64}
    started = {"started": "2030-01-01T00:00:00+00:00", "ended": "2030-01-01T00:00:09+00:00"}
    newest = keep(tmp_path, [replace(measured[0], sources=edited, **started)])
    assert files_of(tmp_path) == newest, "those of the kernel before its edit are not mixed in"


def test_a_dataset_has_what_its_protocol_measured_as_its_manifest_vouches(tmp_path: Path) -> None:
    shutil.copytree("data/h200", tmp_path, dirs_exist_ok=True)
    paths = files_of(tmp_path)
    assert {read_record(path).protocol["name"] for path in paths} == {"sampled"}
    paths[0].write_text(paths[0].read_text().replace("H200", "H100"))
    side = find_side(str(tmp_path), ATTENTION)
    with pytest.raises(Exception, match="differs from its dataset's manifest"):
        compare(side, side)


def test_moved_results_are_found_by_their_plan(tmp_path: Path, measured: list[Record]) -> None:
    first, second = keep(tmp_path / "records", measured[:2])
    keep(tmp_path / "records", [replace(measured[2], started="2030-01-01T00:00:00+00:00")])
    before = (f"results/local/records/{path.name}" for path in (first, second))
    file, other = ({"path": path, "sha256": None} for path in before)
    entry = {"run": measured[0].run.to_json(), **file, "replicates": [other]}
    plan = {"benchmark": "attention", "experiments": {"seq_len": [entry]}}
    write_json(tmp_path / RECORDS, plan)
    assert files_of(tmp_path) == [first, second]
    entry["path"] = str(first.rename(tmp_path / first.name))  # which is no dataset's
    write_json(tmp_path / RECORDS, plan)
    with pytest.raises(SideError, match=f"lacks 1 of its 2 records, such as {first.parent}"):
        files_of(tmp_path)
    entry["sha256"] = "0"
    write_json(tmp_path / RECORDS, plan)
    assert files_of(tmp_path) == [tmp_path / first.name, second]


def test_a_revision_has_the_records_of_its_kernels(
    tmp_path: Path, measured: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kernel = tmp_path / "kernels" / "flash2.py"
    kernel.parent.mkdir()
    git(tmp_path, "init")
    records = []
    for factor, each in enumerate(measured):
        declared = 'NAME = "Flash2"\nLABEL = {"zh_TW": "甲", "en": "A"}\n'
        kernel.write_text(f"{declared}def attention(qkv, causal): return qkv * {factor}\n")
        git(tmp_path, "add", "kernels")
        git(tmp_path, "commit", "--message", f"v{factor}")
        digest = find_implementations(kernel.parent)["Flash2"].digest
        records.append(replace(each, sources={**each.sources, "implementation_digest": digest}))
    paths = keep(Path("results", "local", "records"), records[:2])
    assert files_of("HEAD~2") == paths[:1]
    # Debian 12 has Python 3.11.2, whose tarfile knows no filters.
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    assert files_of("HEAD~1") == paths[1:]
    with pytest.raises(SideError, match="no records of the kernels at HEAD; measure them"):
        find_side("HEAD", ATTENTION)
    monkeypatch.setattr(machine, "__file__", str(tmp_path / "workflow" / "flashlab" / "machine.py"))
    clean = machine.commit_here()
    kernel.with_name("mine.py").touch()  # which no commit has
    assert machine.commit_here() == {**clean, "dirty": True} != clean


def test_a_name_without_records_is_an_error(tmp_path: Path, monkeypatch: Any) -> None:
    with pytest.raises(SideError, match=r"neither a recorded dataset \(.*h200.*nor a folder nor a"):
        find_side("nosuch", ATTENTION)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SideError, match="nothing has been measured here yet"):
        find_side("local", ATTENTION)
