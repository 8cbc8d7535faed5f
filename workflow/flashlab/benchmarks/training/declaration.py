"""Training as declared: parameters, metrics, and the costs of an iteration.

L n_layer, H n_head, E n_embd, T block_size, B batch_size, A gradient_accumulation_steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashlab.benchmarks.model import (
    Benchmark,
    Curve,
    Derived,
    Metric,
    Occupied,
    Parameter,
    Parameters,
    Quantity,
    Work,
)
from flashlab.benchmarks.training import corpus, costs
from flashlab.benchmarks.training.hyper_param import read_hyper_param

if TYPE_CHECKING:
    from flashlab.benchmarks.settings import Keys

# Parameters: those of hyper_param.json that tell one run from another

N_LAYER = Parameter("n_layer", "L", {"zh_TW": "層數", "en": "number of layers"})
N_HEAD = Parameter("n_head", "H", {"zh_TW": "頭數", "en": "number of heads"})
N_EMBD = Parameter("n_embd", "E", {"zh_TW": "嵌入維度", "en": "embedding dimension"})
BLOCK_SIZE = Parameter("block_size", "T", {"zh_TW": "序列長度", "en": "sequence length"})
BATCH_SIZE = Parameter("batch_size", "B", {"zh_TW": "批次大小", "en": "batch size"})
ACCUMULATION = Parameter(
    "gradient_accumulation_steps",
    "A",
    {"zh_TW": "梯度累積步數", "en": "gradient accumulation steps"},
)
COMPILE = Parameter(
    "compile",
    "compile",
    {"zh_TW": "編譯（torch.compile）", "en": "compilation (torch.compile)"},
    kind=bool,
    words={
        False: {"zh_TW": "未編譯", "en": "eager"},
        True: {"zh_TW": "編譯", "en": "compiled"},
    },
)
SEED = Parameter("seed", "seed", {"zh_TW": "亂數種子", "en": "random seed"}, nominal=True)

# Quantities

TIME = Quantity(
    "time",
    "ms",
    "lower",
    {"zh_TW": "每次迭代的時間", "en": "Time per iteration"},
    logarithmic=False,
)
RATE = Quantity(
    "rate", "TFLOP/s", "higher", {"zh_TW": "模型運算速率", "en": "Model rate"}, logarithmic=False
)
TOKENS = Quantity(
    "tokens",
    "ktoken/s",
    "higher",
    {"zh_TW": "每秒的 token 數", "en": "Tokens per second"},
    logarithmic=False,
)
STARTUP = Quantity("startup", "s", "lower", {"zh_TW": "啟動", "en": "Start"}, once=True)
ENERGY = Quantity(
    "energy", "J", "lower", {"zh_TW": "每次迭代的能量", "en": "Energy per iteration"}, once=True
)
POWER = Quantity("power", "W", "lower", {"zh_TW": "平均功率", "en": "Average power"}, once=True)
BUSY = Quantity("busy", "ms", "lower", {"zh_TW": "GPU 忙碌時間", "en": "GPU busy time"}, once=True)
KERNELS = Quantity(
    "kernels", "1", "lower", {"zh_TW": "啟動的 kernel 數", "en": "Kernels launched"}, once=True
)
MEMORY = Quantity(
    "memory", "MiB", "lower", {"zh_TW": "記憶體", "en": "Memory"}, exact=True, logarithmic=False
)


def _size(parameters: Parameters) -> list[dict[str, str]]:
    """The model's size as nanoGPT states it, and the tokens of an iteration."""
    millions = f"{costs.parameter_count(parameters) / 1e6:#.3g} M"
    tokens = f"{costs.tokens(parameters):,}"
    return [
        {"zh_TW": f"參數量 {millions}", "en": f"{millions} parameters"},
        {"zh_TW": f"每次迭代 {tokens} 個 token", "en": f"{tokens} tokens per iteration"},
    ]


# The protocol


def _protocol() -> type[Keys]:
    from flashlab.benchmarks.training.protocol import Training

    return Training


TRAINING = Benchmark(
    name="training",
    report="training",
    parameters=(
        *(N_LAYER, N_HEAD, N_EMBD, BLOCK_SIZE, BATCH_SIZE, ACCUMULATION),
        *(COMPILE, SEED),
    ),
    metrics=(
        Metric(
            "iteration_time",
            TIME,
            {"zh_TW": "每次迭代的時間", "en": "time per iteration"},
            work=Work(
                costs.flops,
                lambda sizes, dtype: costs.compulsory_bytes(sizes),
                lambda run, device_name: costs.compulsory_bytes(run),
            ),
        ),
        Metric(
            "token_rate",
            TOKENS,
            {"zh_TW": "每秒的 token 數", "en": "tokens per second"},
            derived=Derived(("iteration_time",), lambda sizes, ms: costs.tokens(sizes) / ms),
        ),
        Metric(
            "model_rate",
            RATE,
            {"zh_TW": "模型運算速率", "en": "model rate"},
            derived=Derived(("iteration_time",), lambda sizes, ms: costs.flops(sizes) / 1e9 / ms),
        ),
        Metric(
            "first_step",
            STARTUP,
            {"zh_TW": "到第一步結束的時間", "en": "time to the end of the first step"},
            {"zh_TW": "第一步結束", "en": "First step"},
        ),
        Metric(
            "compile_time",
            STARTUP,
            {"zh_TW": "其中的編譯時間", "en": "compilation, of that time"},
            {"zh_TW": "其中編譯", "en": "Compilation alone"},
            optional=True,
        ),
        Metric(
            "peak_memory",
            MEMORY,
            {"zh_TW": "配置器峰值記憶體", "en": "peak memory of the allocator"},
            {"zh_TW": "配置器峰值", "en": "Allocator's peak"},
        ),
        Metric(
            "process_memory",
            MEMORY,
            {"zh_TW": "行程占用的 GPU 記憶體", "en": "GPU memory of the process"},
            {"zh_TW": "整個行程", "en": "Whole process"},
            optional=True,
        ),
        Metric(
            "energy",
            ENERGY,
            {"zh_TW": "每次迭代的能量", "en": "energy per iteration"},
            optional=True,
        ),
        Metric(
            "power",
            POWER,
            {"zh_TW": "平均功率", "en": "average power"},
            derived=Derived(("energy", "iteration_time"), lambda _, joules, ms: 1e3 * joules / ms),
        ),
        Metric(
            "gpu_busy_time",
            BUSY,
            {"zh_TW": "每次迭代的 GPU 忙碌時間", "en": "GPU busy time per iteration"},
            optional=True,
        ),
        Metric(
            "kernels",
            KERNELS,
            {"zh_TW": "每次迭代啟動的 kernel 數", "en": "kernels per iteration"},
            optional=True,
        ),
    ),
    occupied=Occupied("iteration_time", "gpu_busy_time", "kernels"),
    curves=(
        Curve(
            "loss",
            "nat",
            {"zh_TW": "訓練損失", "en": "training loss"},
            {"zh_TW": "迭代", "en": "iteration"},
        ),
    ),
    size=_size,
    measure="flashlab.benchmarks.training.measure",
    naive="Pytorch",
    gated={
        "gradient": {"zh_TW": "所有權重的梯度", "en": "gradient of all weights"},
        "query_key_gradient": {
            "zh_TW": "權重的梯度（限 q 與 k）",
            "en": "gradient of q's and k's weights",
        },
    },
    protocols={"training": _protocol},
    dtypes={"cuda": "bfloat16", "cpu": "float32"},
    fetch=lambda protocol: corpus.fetch(protocol["corpus"]),
    settings_file=read_hyper_param,
)
