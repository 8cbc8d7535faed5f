"""The attention benchmark as declared: parameters, metrics, and the costs of a run.

B batch_size, N seq_len, H num_heads, E emb_dim, d = E / H, H_kv num_kv_heads throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.counters import KERNEL_COUNTERS, OPERATOR_COUNTERS, counters_of
from flashlab.benchmarks.model import (
    Benchmark,
    Derived,
    Metric,
    Parameter,
    Parameters,
    Product,
    Quantity,
    texts,
)
from flashlab.devices import find_device
from flashlab.runs import Run

# Parameters

BATCH_SIZE = Parameter("batch_size", "B", texts("批次大小", "batch size"))
SEQ_LEN = Parameter("seq_len", "N", texts("序列長度", "sequence length"))
NUM_HEADS = Parameter("num_heads", "H", texts("頭數", "number of heads"))
NUM_KV_HEADS = Parameter(
    "num_kv_heads",
    "H_kv",
    texts("鍵與值的頭數", "number of key and value heads"),
    default=lambda given: given["num_heads"],
    divides="num_heads",
)
EMB_DIM = Parameter("emb_dim", "E", texts("嵌入維度", "embedding dimension"))
CAUSAL = Parameter(
    "causal",
    "causal",
    texts("因果遮罩", "causal masking"),
    kind=bool,
    words={False: texts("無遮罩", "full"), True: texts("因果", "causal")},
)
HEAD_DIM = Parameter(
    "head_dim",
    "d",
    texts("單頭維度", "head dimension"),
    derive=lambda parameters: Shape.of(parameters).head_dim,
)

# Quantities

TIME = Quantity("time", "ms", "lower", texts("時間", "Time"))
RATE = Quantity(
    "rate",
    "TFLOP/s",
    "higher",
    texts("運算速率", "Rate"),
    logarithmic=False,
    unit_on={"cpu": ("GFLOP/s", 1e3)},
)
MEMORY = Quantity("memory", "MiB", "lower", exact=True)

PASSES = {"forward": texts("前向", "forward"), "backward": texts("反向", "backward")}


def _of_pass(name: str, quantity: Quantity, zh_tw: str, en: str, **more: Any) -> Metric:
    """A metric of one pass, which has a panel of its own, such as ``forward_time``."""
    zh_pass, en_pass = PASSES[name]["zh_TW"], PASSES[name]["en"]
    labels = {"zh_TW": zh_pass + zh_tw, "en": f"{en_pass} {en}"}
    part = {"zh_TW": zh_pass, "en": en_pass.capitalize()}
    return Metric(f"{name}_{quantity.name}", quantity, labels, part, **more)


# The costs of a run


def _work(name: str) -> Callable[[Parameters], float]:
    return lambda parameters: costs.flops(Shape.of(parameters))[name]


def _rate(name: str) -> Derived:
    """The course's operations of a pass over its time, in TFLOP/s."""
    work = _work(name)
    return Derived((f"{name}_time",), lambda run, value: work(run) / 1e9 / value)


def memory_parts(
    run: Run, provider: str | None, device_name: str | None
) -> Mapping[str, float] | None:
    """The parts of peak memory in MiB, by name; None for a run that the model does not describe.

    They add up to what is measured, to the allocator's rounding. The model describes flash-attn's
    FlashAttention-2 and, on a device whose cuBLAS workspaces are known, the naive implementation:
    on CUDA, in float16.
    """
    shape = Shape.of(run)
    if run.device != "cuda" or run.dtype != "float16" or not costs.has_memory_model(shape):
        return None
    workspaces = getattr(find_device(device_name), "cublas_workspaces", None)
    if run.implementation == "Flash2" and str(provider).startswith("flash-attn "):
        parts = costs.flash2_memory_parts(shape)
    elif run.implementation == "Pytorch" and workspaces is not None:
        parts = costs.naive_memory_parts(shape, workspaces)
    else:
        return None
    return {name: size / costs.MIB for name, size in parts.items()}


USABLE_MEMORY = 0.99
"""Share of a device's memory that programs get: an H200 of 141 GB gives them 139.8 GiB."""


def memory_capacity(device_name: str | None) -> float | None:
    """MiB that programs can have of a device; vendors' GB of memory are 2³⁰ bytes."""
    device = find_device(device_name)
    return None if device is None else USABLE_MEMORY * device.memory_gb * 2**30 / costs.MIB


def course_keys(parameters: Parameters, metrics: Mapping[str, float | None]) -> dict[str, Any]:
    """The four keys of the course's script, which stand at the top of a record."""
    flops = costs.flops(Shape.of(parameters))
    times = [metrics[f"{name}_time"] for name in PASSES]
    forward, backward = (None if time is None else time / 1e3 for time in times)
    both = None if forward is None or backward is None else forward + backward
    seconds = {"forward": forward, "backward": backward, "forward_backward": both}
    keys = {
        name: {"time(s)": s, "FLOPS(TFLOPs/s)": None if s is None else flops[name] / s / 1e12}
        for name, s in seconds.items()
    }
    return {**keys, "peak_memory_usage(MB)": metrics["peak_memory"]}


ATTENTION = Benchmark(
    name="attention",
    report="lab5",
    parameters=(BATCH_SIZE, SEQ_LEN, NUM_HEADS, NUM_KV_HEADS, EMB_DIM, CAUSAL, HEAD_DIM),
    metrics=(
        *(_of_pass(name, TIME, "時間", "time", work=_work(name)) for name in PASSES),
        Metric(
            "forward_backward_time",
            TIME,
            texts("合計時間", "total time"),
            derived=Derived(
                ("forward_time", "backward_time"), lambda _, forward, backward: forward + backward
            ),
        ),
        *(_of_pass(name, RATE, "速率", "rate", derived=_rate(name)) for name in PASSES),
        Metric(
            "forward_backward_rate",
            RATE,
            texts("整體速率", "overall rate"),
            derived=_rate("forward_backward"),
        ),
        Metric("peak_memory", MEMORY, texts("峰值記憶體", "peak memory")),
    ),
    measure="flashlab.benchmarks.attention.measure",
    packed_protocols=("lab5",),
    products=(Product("emb_dim", ("num_heads", "head_dim")),),
    counters=counters_of(
        {f"{name}_time": name for name in PASSES},
        {"cuda": KERNEL_COUNTERS, "cpu": OPERATOR_COUNTERS},
    ),
    naive="Pytorch",
    gated={"out": texts("前向輸出", "forward output"), "dqkv": texts("反向梯度", "gradient")},
    top_level_keys=course_keys,
)


def attention_run(implementation: str, shape: Shape, dtype: str, device: str) -> Run:
    """A run of attention at a shape."""
    names = {"implementation": implementation, "dtype": dtype, "device": device}
    return Run.of(ATTENTION, {**names, **shape.parameters})
