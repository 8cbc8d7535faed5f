"""Why: what was counted or modelled of the same run; nothing where it was not."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from planted.experiments import Planter
from story.reading import section_of, tables_of, told

from flashlab.analysis.ceilings import read_ceilings
from flashlab.benchmarks.attention.declaration import attention_run, exact_peak_memory
from flashlab.benchmarks.attention.shape import Shape
from flashlab.files import canonical
from flashlab.story.attention import front, why
from flashlab.story.tables import Section

WIDE = {"batch_size": 16, "num_heads": 32, "emb_dim": 2048}
ON_GPU: Mapping[str, Any] = {
    "sizes": lambda n: {"seq_len": n, **WIDE},
    "dtype": "float16",
    "device": "cuda",
    "values": (512, 1024),
}
CEILINGS: Mapping[str, Any] = {
    "device": "cuda",
    "matrix_product": {"float16": {"samples": [1e-3] * 30, "time(s)": 1e-3, "size": 3684}},
    "copy": {"samples": [1e-3] * 30, "time(s)": 1e-3, "bytes": 2 * 2**30},
    "environment": {"device_name": "Abacus"},
}
"""Of an imagined device: 100 TFLOP/s, and copies of 4.3 TB/s."""


def counted(milliseconds: float, **counters: Any) -> dict[str, Any]:
    times = [milliseconds / 1e3 * factor for factor in np.linspace(0.999, 1.001, 15)]
    return {"forward": times, "counters": {"busy_time": milliseconds, **counters}}


@pytest.fixture
def on_gpu(planter: Planter) -> Callable[..., Section]:
    """A section on an imagined GPU whose ceilings were measured."""

    def section(**runs: Any) -> Section:
        experiment = planter.experiment(runs, **ON_GPU)
        ceilings = read_ceilings(CEILINGS)
        return tables_of(experiment, ceilings=ceilings).sections[0]

    return section


@pytest.mark.parametrize(("ratio", "is_told"), [(2.1, True), (1.9, False)])
def test_traffic_is_a_reason_from_twice_the_bytes_on(
    on_gpu: Callable[..., Section], ratio: float, is_told: bool
) -> None:
    naive = {1024: counted(3.0, dram_bytes=ratio * 1e9, kernels=6)}
    section = on_gpu(Pytorch=naive, Flash2={1024: counted(1.0, dram_bytes=1e9)})
    observation = why.why_traffic(section)
    assert (observation is not None) == is_told
    if is_told:
        said = told(observation)
        assert "Pytorch moves 2.1 GB forward and 2.1 GB backward, at 16% and 16%" in said["en"]
        assert "it mostly moves data" not in said["en"]
        assert "Flash2 的前向是 1 個 kernel" in said["zh_TW"]


def test_what_moves_less_and_is_slower_is_no_reason(on_gpu: Callable[..., Section]) -> None:
    naive = {1024: counted(1.0, dram_bytes=4e9)}
    assert why.why_traffic(on_gpu(Pytorch=naive, Flash2={1024: counted(2.0)})) is None


@pytest.mark.parametrize(("products", "is_told"), [(4, True), (5, False), (0, False)])
def test_a_backward_of_fewer_products_than_counted_is_overstated(
    planter: Planter, products: int, is_told: bool
) -> None:
    """Five products are 2.5 times the two of a forward."""
    experiment = planter.experiment({"Pytorch": (10, 40), "Flash2": (5, 20)}, **ON_GPU)
    kernel = (1.0, 1e6, 20.0, 30.0, 40.0)  # ms, bytes and three shares in percent
    launched = [("gemm", "product", *kernel)] * products + [("mul", "elementwise", *kernel)]
    counted_runs = [{**run, "kernels": {"backward_time": launched}} for run in experiment.runs]
    found = why.rate_backward(section_of(replace(experiment, runs=counted_runs)))
    assert (found is not None) is is_told
    if is_told:
        assert "does 4 (counted at N = 1024)" in told(found)["en"]
        assert told(found)["en"].endswith("overstate its work by 25%.")
        assert told(found)["zh_TW"].endswith("高估了 25%。")


def modelled(
    excess: float, device: str = "NVIDIA H200", stated: str | None = None
) -> dict[str, Any]:
    """Peaks of the exact model on a device, the baseline's with some MiB more at the last value.

    The records may state another name of the device.
    """
    runs: dict[str, Any] = {}
    for name, provider in (("Pytorch", "torch 2.11.0"), ("Flash2", "flash-attn 2.8.3")):
        runs[name] = []
        for size in (512, 1024):
            run = attention_run(name, Shape(16, size, 32, 2048, False), "float16", "cuda")
            peak = exact_peak_memory(run, provider, device)
            assert peak is not None
            more = excess if name == "Pytorch" and size == 1024 else 0.0
            name_of = {"device_name": stated or device}
            environment = {"provider": provider, "packages": {}, **name_of}
            cell = {"forward": size / 10, "peak": peak + more, "environment": environment}
            runs[name].append(cell)
    return runs


@pytest.mark.parametrize(("excess", "is_told"), [(0.0, True), (0.001, False)])
def test_the_model_of_memory_is_told_where_it_is_exact(
    planter: Planter, excess: float, is_told: bool
) -> None:
    section = section_of(planter.experiment(modelled(excess), **ON_GPU))
    observation = why.why_memory_model(section)
    assert (observation is not None) == is_told
    if is_told:
        said = told(observation)
        assert "four score tensors of 1,024 MiB (2·B·H·N² bytes) each, 86%" in said["en"]
        limit = told(why.memory_limit(section))
        assert "needs 66 GiB at N = 4096, less than the 140 GiB of this device; at" in limit["en"]
        assert "少於本裝置的 140 GiB；N = 8192 則要 261 GiB" in limit["zh_TW"]


@pytest.mark.parametrize(("excess", "is_told"), [(0.0, True), (0.001, False)])
def test_a_gpu_of_no_name_has_the_memory_of_one_that_is_known(
    planter: Planter, excess: float, is_told: bool
) -> None:
    """As in an imported folder: what is exact to the byte tells the workspaces."""
    runs = modelled(excess, "NVIDIA GeForce RTX 3070", "NVIDIA GPU (compute capability 8.x)")
    found = why.why_memory_model(section_of(planter.experiment(runs, **ON_GPU)))
    assert (found is not None) is is_told


HEADS: Mapping[str, Any] = {
    "name": "heads",
    "sweep": "num_heads",
    "values": (1, 2, 4, 8),
    "sizes": lambda h: {"num_heads": h},
    "spread": 0.0001,
}


@pytest.mark.parametrize(
    ("times", "is_line"),
    [
        ((30, 40, 60, 100), True),
        ((30, 41, 60, 100), False),
        ((100, 60, 40, 30), False),
        ((10, 20, 40, 80), False),
    ],
    ids=["on a line", "3% off it", "falling", "through the origin"],
)
def test_the_scores_are_a_line_where_all_points_lie_on_it(
    planter: Planter, times: tuple[float, ...], is_line: bool
) -> None:
    section = section_of(planter.experiment({"Pytorch": times, "Flash2": (9,) * 4}, **HEADS))
    observation = why.why_score_line(section)
    assert (observation is not None) == is_line
    if is_line:
        said = told(observation)
        assert "a straight line in the number of heads: forward = 0.20 + 0.100·H ms" in said["en"]
        assert "每個頭的分數固定花 100 與 100 µs" in said["zh_TW"]


@pytest.mark.parametrize("share", [0.62, None])
def test_page_faults_that_cost_much_of_a_pass_are_named_first(
    planter: Planter, share: float | None
) -> None:
    experiment = planter.experiment({"Pytorch": {128: 100, 1024: 800}, "Flash2": {128: 9, 1024: 9}})
    cell = {"forward_time": {"per_call": 16387.0, "system_share": share}}
    runs = [{**run, "page_faults": canonical(cell) if share else None} for run in experiment.runs]
    found = why.why_faults(section_of(replace(experiment, runs=runs)))
    assert (found is not None) == (share is not None)
    if found:
        said = told(found)
        assert "takes 62% of the forward of" in said["en"]
        assert "16,387 page faults a call" in said["en"] and "16,387 個分頁錯誤" in said["zh_TW"]


def test_on_a_cpu_the_operators_say_what_can_be_saved(planter: Planter) -> None:
    shares = {"operator_time": 1.0, "product_share": 60.0, "softmax_share": 40.0}
    naive = {size: {"forward": size, "counters": shares} for size in (128, 1024)}
    experiment = planter.experiment({"Pytorch": naive, "Flash2": {128: 100, 1024: 800}})
    said = told(why.why_operators(section_of(experiment)))
    assert "softmax takes 40% of the time at N = 128 and 40% at 1024" in said["en"]
    assert why.why_traffic(section_of(experiment)) is None


@pytest.mark.parametrize(
    ("speed", "state"),
    [(1.5, "within"), (2.0, "beyond"), (1.68, "open")],
)
def test_more_than_all_but_the_products_is_no_longer_saved_there(
    planter: Planter, speed: float, state: str
) -> None:
    """With 60% of products 40% can be saved, which is 1.67 times the speed."""
    shares = {"operator_time": 1.0, "product_share": 60.0, "softmax_share": 30.0}
    naive = {n: [{"forward": f * n, "counters": shares} for f in (1, 1.03)] for n in (128, 256)}
    flash = {n: [f * n / speed for f in (1.03, 1)] for n in (128, 256)}
    tables = tables_of(planter.experiment({"Pytorch": naive, "Flash2": flash}, spread=0.001))
    (section,) = tables.sections
    found = why.saved_of(section, "causal=false", 256)
    assert found is not None and found["state"] == state
    assert (front.answer_why(tables) is not None) is (state == "within")
    assert ("its products are faster too" in told(why.why_operators(section))["en"]) is (
        state == "beyond"
    )


@pytest.mark.parametrize(("share", "is_told"), [(95.0, True), (70.0, False)])
def test_five_products_for_four_bound_a_backward_of_products(
    planter: Planter, share: float, is_told: bool
) -> None:
    """With 95% of products the bound is 0.84, which 0.80 bears out; with 70% it is above 1."""
    counters = {"operator_time": 1.0, "product_share": share, "softmax_share": 5.0}
    naive = {n: {"forward": n, "backward": n, "counters": counters} for n in (128, 256)}
    flash = {n: (n / 2, n / 0.8) for n in (128, 256)}
    experiment = planter.experiment({"Pytorch": naive, "Flash2": flash}, spread=0.001)
    observation = why.why_products(section_of(experiment))
    assert (observation is not None) == is_told
    if is_told:
        assert (
            "would run at 0.84 times the speed at most; measured: 0.80" in told(observation)["en"]
        )


def test_along_the_batch_size_arithmetic_alone_is_claimed(planter: Planter) -> None:
    batches: Mapping[str, Any] = {
        "name": "batch_size",
        "sweep": "batch_size",
        "values": (4, 8, 16, 32),
        "sizes": lambda value: {"batch_size": value},
    }
    runs = {"Pytorch": (30, 60, 120, 240), "Flash2": (10, 20, 40, 80)}
    section = section_of(planter.experiment(runs, **batches))
    assert "counters were read at none of its values" in told(why.why_none(section))["en"]
    shares = {"operator_time": 1.0, "product_share": 60.0, "softmax_share": 40.0}
    for flash2, nearly in (((10, 20, 40, 80), True), ((10, 35, 40, 80), False)):
        sized = {
            name: [
                {"forward": time, "peak": peak}
                for time, peak in zip(times, (8, 16, 32, 64), strict=True)
            ]
            for name, times in {**runs, "Flash2": flash2}.items()
        }
        columns = {
            name: dict(zip(batches["values"], row, strict=True)) for name, row in sized.items()
        }
        section = section_of(planter.experiment(columns, spread=0.001, **batches))
        assert ("time and memory nearly so" in told(why.why_none(section))["en"]) is nearly
    one = {4: {"forward": 30, "counters": shares}, 8: 60, 16: 120, 32: 240}
    section = section_of(planter.experiment({**runs, "Pytorch": one}, **batches))
    assert "counters were read at one B alone" in told(why.why_none(section))["en"]
    along_n = section_of(planter.experiment(runs))
    assert why.why_none(along_n) is None


def test_where_little_is_decided_the_memory_is_the_lesson(planter: Planter) -> None:
    """A third of the memory; of one process each, only twice the speed is decided."""
    flash2 = zip((30, 60, 120, 120), (10, 10, 10, 10), strict=True)
    runs = {
        "Pytorch": [{"forward": time, "peak": 30} for time in (30, 60, 120, 240)],
        "Flash2": [{"forward": time, "peak": peak} for time, peak in flash2],
    }
    rows = {name: dict(zip((128, 256, 512, 1024), row, strict=True)) for name, row in runs.items()}
    said = told(why.take(section_of(planter.experiment(rows, spread=0.001, processes=1))))
    assert said["en"] == (
        "Take: what is certain is the memory: Flash2 needs 33% of Pytorch's; "
        "in total time it is faster at N = 1024 (2.0)."
    )
    assert said["zh_TW"].endswith("合計時間在 N = 1024 較快（2.0 倍）。")


def test_a_lesson_of_passes_that_differ_says_of_each_where_it_pays(planter: Planter) -> None:
    """Forward it is faster at every N, backward slower at the first and faster at the last."""
    runs = {
        "Pytorch": ((30, 30), (60, 60), (120, 120), (240, 240)),
        "Flash2": ((10, 40), (20, 60), (40, 60), (80, 100)),
    }
    said = told(why.take(section_of(planter.experiment(runs, spread=0.001))))
    assert said["en"] == (
        "Take: Flash2 pays forward at every N, backward at N = 512, 1024 (slower at N = 128)."
    )
    assert said["zh_TW"] == (
        "結論：Flash2 前向在每個 N 都值得用，反向在 N = 512、1024 值得用（N = 128 較慢）。"
    )
    runs["Flash2"] = ((10, 40), (20, 80), (40, 160), (80, 300))
    said = told(why.take(section_of(planter.experiment(runs, spread=0.001))))
    assert said["en"].endswith("backward at no N (slower at N = 128, 256, 512, 1024).")
    assert said["zh_TW"].endswith("反向沒有一個 N 值得用（N = 128、256、512、1024 較慢）。")


def test_the_slowest_head_dimension_is_none_of_those_near_the_fastest(planter: Planter) -> None:
    runs = {"Pytorch": (30, 60, 120, 240), "Flash2": (10, 10, 10.1, 11)}
    said = told(why.take(section_of(planter.experiment(runs, **HEADS))))
    assert said["en"].endswith(
        "By its own medians d = 16, 32, 64 are within 2% of its fastest, and d = 8 takes it 10% "
        "longer."
    )


@pytest.mark.parametrize(
    ("flash2", "lesson"),
    [
        ((10, 20, 40, 80), "faster"),  # no memory that says more
        ((20, 32, 50, 80), "longer"),
        ((30, 60, 120, 240), None),  # equal in time, and of the memory nothing is known
    ],
)
def test_what_to_take_follows_from_what_was_decided(
    planter: Planter, flash2: tuple[float, ...], lesson: str | None
) -> None:
    runs = {"Pytorch": (30, 60, 120, 240), "Flash2": flash2}
    observation = why.take(section_of(planter.experiment(runs, spread=0.001)))
    assert (observation and observation.facts["lesson"]) == lesson
    if lesson == "longer":
        assert told(observation)["en"] == "Take: the longer the sequence, the more Flash2 pays."
    if lesson == "faster":
        said = told(observation)
        assert said["en"] == "Take: Flash2 pays at every N (3.0 times the speed)."
        assert said["zh_TW"] == "結論：每個 N 都值得用 Flash2（3.0 倍速）。"
