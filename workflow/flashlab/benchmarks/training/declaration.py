"""Training as declared: parameters, metrics, and the costs of an iteration.

L n_layer, H n_head, E n_embd, T block_size, B batch_size, A gradient_accumulation_steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashlab.benchmarks.model import Benchmark, Curve, Derived, Metric, Parameter, Quantity, texts
from flashlab.benchmarks.training.corpus import VOCABULARY

if TYPE_CHECKING:
    from flashlab.benchmarks.settings import Keys

# Parameters: those of hyper_param.json that tell one run from another

N_LAYER = Parameter("n_layer", "L", texts("層數", "number of layers"))
N_HEAD = Parameter("n_head", "H", texts("頭數", "number of heads"))
N_EMBD = Parameter("n_embd", "E", texts("嵌入維度", "embedding dimension"))
BLOCK_SIZE = Parameter("block_size", "T", texts("序列長度", "sequence length"))
BATCH_SIZE = Parameter("batch_size", "B", texts("批次大小", "batch size"))
ACCUMULATION = Parameter(
    "gradient_accumulation_steps", "A", texts("梯度累積步數", "gradient accumulation steps")
)
COMPILE = Parameter(
    "compile",
    "compile",
    texts("編譯（torch.compile）", "compilation (torch.compile)"),
    kind=bool,
    words={False: texts("未編譯", "eager"), True: texts("編譯", "compiled")},
)
SEED = Parameter("seed", "seed", texts("亂數種子", "random seed"), nominal=True)

# Quantities

TIME = Quantity("time", "ms", "lower", logarithmic=False)
RATE = Quantity("rate", "TFLOP/s", "higher", logarithmic=False)
TOKENS = Quantity("tokens", "ktoken/s", "higher", logarithmic=False)
STARTUP = Quantity("startup", "s", "lower", texts("啟動", "Start"), once=True)
ENERGY = Quantity("energy", "J", "lower", once=True)
BUSY = Quantity("busy", "ms", "lower", once=True)
KERNELS = Quantity("kernels", "1", "lower", once=True)
MEMORY = Quantity(
    "memory", "MiB", "lower", texts("記憶體", "Memory"), exact=True, logarithmic=False
)

# The costs of an iteration


def parameter_count(sizes: Mapping[str, Any]) -> int:
    """Parameters of the model, without biases and without the position embedding."""
    L, E = sizes["n_layer"], sizes["n_embd"]
    block = 12 * E**2 + 2 * E  # attention 4 E², MLP 8 E², two layer norms
    return int(len(VOCABULARY) * E + L * block + E)


def tokens(sizes: Mapping[str, Any]) -> int:
    """Tokens of an iteration, over all of its micro-batches."""
    return int(sizes["batch_size"] * sizes["block_size"] * sizes["gradient_accumulation_steps"])


def flops(sizes: Mapping[str, Any]) -> float:
    """Model FLOPs of an iteration: those of PaLM (Chowdhery et al. 2022, appendix B).

    As nanoGPT's ``estimate_mfu`` counts them: for each token 6 N for the matrix products of the
    parameters, forward and backward, and 12 L E T for those of attention, of which the causal mask
    spares none here. N leaves out the position embedding.
    """
    attention = 12 * sizes["n_layer"] * sizes["n_embd"] * sizes["block_size"]
    return float((6 * parameter_count(sizes) + attention) * tokens(sizes))


def _size(parameters: Mapping[str, Any]) -> list[dict[str, str]]:
    """The model's size as nanoGPT states it, and the tokens of an iteration."""
    millions = f"{parameter_count(parameters) / 1e6:#.3g} M"
    count = f"{tokens(parameters):,}"
    return [
        {"zh_TW": f"參數量 {millions}", "en": f"{millions} parameters"},
        {"zh_TW": f"每次迭代 {count} 個 token", "en": f"{count} tokens per iteration"},
    ]


# The settings, for which alone Pydantic is imported


def _protocol() -> type[Keys]:
    from flashlab.benchmarks.training.configuration import Training

    return Training


def _settings_file(path: Path, experiments: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    from flashlab.benchmarks.training.configuration import read_hyper_param

    return read_hyper_param(path, experiments)


TRAINING = Benchmark(
    name="training",
    report="training",
    parameters=(*(N_LAYER, N_HEAD, N_EMBD, BLOCK_SIZE, BATCH_SIZE, ACCUMULATION), *(COMPILE, SEED)),
    metrics=(
        Metric("iteration_time", TIME, texts("每次迭代的時間", "time per iteration"), work=flops),
        Metric(
            "token_rate",
            TOKENS,
            texts("每秒的 token 數", "tokens per second"),
            derived=Derived(("iteration_time",), lambda sizes, ms: tokens(sizes) / ms),
        ),
        Metric(
            "model_rate",
            RATE,
            texts("模型運算速率", "model rate"),
            derived=Derived(("iteration_time",), lambda sizes, ms: flops(sizes) / 1e9 / ms),
        ),
        Metric(
            "first_step",
            STARTUP,
            texts("到第一步結束的時間", "time to the end of the first step"),
            texts("第一步結束", "First step"),
        ),
        Metric(
            "compile_time",
            STARTUP,
            texts("其中的編譯時間", "compilation, of that time"),
            texts("其中編譯", "Compilation alone"),
            optional=True,
        ),
        Metric(
            "peak_memory",
            MEMORY,
            texts("配置器峰值記憶體", "peak memory of the allocator"),
            texts("配置器峰值", "Allocator's peak"),
        ),
        Metric(
            "process_memory",
            MEMORY,
            texts("行程占用的 GPU 記憶體", "GPU memory of the process"),
            texts("整個行程", "Whole process"),
            optional=True,
        ),
        Metric("energy", ENERGY, texts("每次迭代的能量", "energy per iteration"), optional=True),
        Metric(
            "gpu_busy_time",
            BUSY,
            texts("每次迭代的 GPU 忙碌時間", "GPU busy time per iteration"),
            optional=True,
        ),
        Metric(
            "kernels",
            KERNELS,
            texts("每次迭代啟動的 kernel 數", "kernels per iteration"),
            optional=True,
        ),
    ),
    occupied=("iteration_time", "gpu_busy_time"),
    curves=(Curve("loss", "nat", texts("訓練損失", "training loss"), texts("迭代", "iteration")),),
    size=_size,
    measure="flashlab.benchmarks.training.measure",
    naive="Pytorch",
    gated={
        "gradient": texts("所有權重的梯度", "gradient of all weights"),
        "query_key_gradient": texts("權重的梯度（限 q 與 k）", "gradient of q's and k's weights"),
    },
    protocols={"training": _protocol},
    dtypes={"cuda": "bfloat16", "cpu": "float32"},
    settings_file=_settings_file,
)
