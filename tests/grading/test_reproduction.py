"""The sample that is measured again, and how it compares with a submission."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from planted.records import record_of

from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.config import ConfigError, read_layer, resolve_config
from flashlab.files import read_json
from flashlab.lab5.results import Result
from flashlab.records import write_record
from flashlab_grading.checks import check_reproduction
from flashlab_grading.submissions import (
    ORDER,
    choose,
    find_submissions,
    measured_of,
    new_order,
)

HERE = "NVIDIA GeForce RTX 3070"
SHAPE = Shape(4, 256, 8, 512, True)


def result(implementation: str, seconds: float, device: str | None = HERE, n: int = 256) -> Result:
    said = {"implementation": implementation, **Shape(4, n, 8, 512, True).parameters}
    said |= {"device": device} if device else {}
    times = {"forward": seconds, "backward": 2 * seconds, "forward_backward": 3 * seconds}
    return Result(f"{implementation}-{n}.json", "", "", said, seconds=times, rates=times)


def measured(seconds: float, status: str = "ok", *warnings: str) -> Any:
    times = {"forward": [seconds] * 12, "backward": [2 * seconds] * 12}
    codes = [{"code": code} for code in warnings]
    run = attention_run("Flash2", SHAPE, "float16", "cuda")
    return {("Flash2", SHAPE): record_of(run, status, **times, warnings=codes)}


AGAIN, BUSY = measured(0.01), measured(0.01, "ok", "drift", "cpu_load")
COMPARED = {
    **{f"× {x}": (result("Flash2", 0.01 * x), AGAIN, "pass pass") for x in (1.0, 1.24, 0.76)},
    **{f"× {x}": (result("Flash2", 0.01 * x), AGAIN, "fail fail") for x in (1.26, 0.74, 9.0)},
    "a device that is not said": (result("Flash2", 0.01, None), AGAIN, "not_checked none_sampled"),
    "another device": (result("Flash2", 0.01, "NVIDIA H200"), AGAIN, "not_checked none_sampled"),
    "another run": (result("Pytorch", 0.01), AGAIN, "not_checked none_sampled"),
    "of no time at all": (result("Flash2", 1e-6), AGAIN, "fail fail"),
    "launches": (result("Flash2", 5e-5), measured(1e-4), "not_checked too_short"),
    "not measured": (result("Flash2", 0.01), measured(1, "oom"), "not_checked not_measured"),
    "not asked": (result("Flash2", 0.01), {}, "not_checked not_asked"),
    "a busy machine, × 1.1": (result("Flash2", 0.011), BUSY, "pass pass"),
    "a busy machine, × 2": (result("Flash2", 0.02), BUSY, "not_checked disturbed"),
    "a GPU that was shared": (
        *(result("Flash2", 0.02), measured(0.01, "ok", "shared_device")),
        "not_checked disturbed",
    ),
    "drift": (result("Flash2", 0.02), measured(0.01, "ok", "drift"), "fail fail"),
}


@pytest.mark.parametrize("compared", COMPARED)
def test_on_the_same_device_times_agree_within_a_quarter(compared: str, tmp_path: Path) -> None:
    handed, again, expected = COMPARED[compared]
    for record in again.values():  # as the order names it
        write_record(tmp_path / "r.json", record)
        again = measured_of({"orders": {tmp_path / "r.json": {"run": record.run.to_json()}}})
    (line,) = check_reproduction([handed], again, HERE)
    assert f"{line.verdict} {line.code.removeprefix('reproduction.')}" == expected


MANY = [result("Flash2", 0.01, n=n) for n in range(64, 64 * 40, 64)]


def sample(accused: Sequence[Result], others: Iterable[Result], count: int, seed: int) -> Any:
    """The runs that are chosen."""
    every = [*((True, own) for own in accused), *((False, own) for own in others)]
    return choose(every, HERE, count, seed)


def test_the_sample_is_the_same_for_a_seed_and_another_for_another() -> None:
    first = sample([], MANY, 5, 1)
    assert len(first) == 5
    assert sample([], reversed(MANY), 5, 1) == first != sample([], MANY, 5, 2)


def test_launches_unknown_kernels_and_other_devices_are_not_sampled() -> None:
    results = [result("Flash2", 1e-5, n=64), result("Flash2", 0.01), result("Mystery", 0.01)]
    results += [result("Pytorch", 0.01, device) for device in ("NVIDIA H200", None)]
    assert sample(results, results, 9, 0) == [("Flash2", SHAPE)]


def test_accused_submissions_are_sampled_first_and_the_others_by_the_seed() -> None:
    accused = [result("Flash2", 0.01, n=n) for n in (320, 640)]
    chosen = [sample(accused, MANY, 3, seed) for seed in range(9)]
    assert all({shape.seq_len for _, shape in own[:2]} == {320, 640} for own in chosen)
    assert len({third for *_, third in chosen}) > 1


# The order


def test_a_job_that_reads_the_rules_again_grades_what_its_call_ordered(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = resolve_config([read_layer(root / "tests" / "tiny.yaml")], find_implementations())
    monkeypatch.chdir(tmp_path)
    Path("lab5.pdf").touch()
    ordered = new_order({**config, "pdf": "lab5.pdf"}, Path())
    assert (ordered["pdf"], ordered["orders"]) == ("lab5.pdf", {})
    assert read_json(ORDER) == ordered


def test_a_call_that_grades_nothing_orders_nothing(tmp_path: Path) -> None:
    here, report = str(tmp_path / "class"), tmp_path / "lab5.pdf"
    Path(here).mkdir()
    report.touch()
    for order, said in (
        ({"reproduce": 5}, r"reproduce: it measures runs of submissions=DIR"),
        ({"submissions": here, "reproduce": 1, "dataset": "h200"}, "on this machine: give it"),
        ({"submissions": f"{here}/gone"}, "there is no folder"),
        ({"pdf": f"{here}/gone.pdf"}, "there is no file"),
        ({"pdf": str(report), "submissions": here}, "give either"),
    ):
        with pytest.raises(ConfigError, match=said):
            new_order(order, tmp_path)
    with pytest.raises(ConfigError, match="has no subfolders"):
        find_submissions(here)
    assert sorted(tmp_path.iterdir()) == [Path(here), report]
