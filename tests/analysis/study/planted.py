"""Datasets whose truth is planted: known times and failures, written as tables.

Each dataset is a sweep of two, three or nine implementations. Its samples are drawn around known
medians: 5% of them are 20% slow, each run drifts, some clocks are coarse, and some sweeps run out
of memory.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import scipy.optimize
import scipy.stats
from planted.experiments import SLOW, SLOW_SHARE, Planter, call_times
from planted.records import record_of

from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.records import Record
from flashlab.statistics import median_interval

NAMES = ("Pytorch", "Flash2")
THREE = ("Pytorch", "Flash2", "FlashLab"), ("Pytorch", "Flash2", "Flash3")
NINE = (
    *("Pytorch", "SdpaMath", "Flash2", "Flash3", "Flash4", "SdpaCudnn", "SdpaEfficient"),
    *("Flex", "FlashLab"),
)
DEVICE = "NVIDIA H200"
UNSTEADY = 0.1
"""A planted drift beyond this makes a pass unsteady."""

Key = tuple[str, Shape, str]
"""Implementation, shape and pass."""


@dataclass(frozen=True)
class Pass:
    """The times planted for one pass of one run: their median in milliseconds, and their noise."""

    median: float
    spread: float = 0.01
    drift: float = 0.0
    cap: int = 200
    resolution: float = 0.0


PROCESSES, BETWEEN_PROCESSES = 3, 0.002
"""In how many processes a run is planted, and the standard deviation between them."""


@dataclass
class Planted:
    """A dataset: its passes, how runs failed, and what is true of it.

    `noise` is how many times as much as usual processes and their calls scatter. `factors` are
    those on the times of each process of a run; without them, processes scatter as usual.
    """

    kind: str
    passes: dict[Key, Pass] = field(default_factory=dict)
    failed: dict[tuple[str, Shape], str] = field(default_factory=dict)
    identical: bool = False
    noise: float = 1.0
    sweep: str = "seq_len"
    factors: Mapping[tuple[str, Shape], Sequence[float]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The implementations, in the order in which they are planted."""
        return list(dict.fromkeys(name for name, _, _ in self.passes))


@functools.cache
def mixture_median(spread: float) -> float:
    """Median of lognormal samples around 1 of which 5% are 20% slow."""

    def excess(x: float) -> float:
        fast = scipy.stats.norm.cdf(math.log(x) / spread)
        slow = scipy.stats.norm.cdf(math.log(x / SLOW) / spread)
        return float((1 - SLOW_SHARE) * fast + SLOW_SHARE * slow - 0.5)

    return float(scipy.optimize.brentq(excess, 0.5, 2.0, xtol=1e-12))


def draw(planted: Pass, random: np.random.Generator) -> list[float]:
    """Draw samples as of long calls: until the interval is within 1% or the time is spent.

    A drift of 0.02 lets the last call take 2% longer than the first.
    """
    count = planted.cap
    times = call_times(random, planted.median, count, planted.spread)
    for n in range(count if abs(planted.drift) > UNSTEADY else 20, count + 1, 10):
        taken = times[:n] * (1 + planted.drift * np.linspace(-0.5, 0.5, n))
        if planted.resolution:
            taken = np.maximum(np.round(taken / planted.resolution), 1) * planted.resolution
        found: list[float] = taken.tolist()
        if median_interval(found).relative_half_width <= 0.01:
            break
    return found


def true_median(planted: Pass) -> float:
    """Milliseconds around which a pass's measured median lies."""
    return planted.median * mixture_median(planted.spread)


# What is planted


def _sizes(random: np.random.Generator) -> list[int]:
    return [128 * 2**i for i in range(int(random.integers(4, 8)))]


def experiment_shape(size: int, causal: bool = False, batch_size: int = 4) -> Shape:
    return Shape(batch_size, size, 8, 512, causal)


Curve = Callable[[int], float]
"""Milliseconds of a forward pass by size."""


@dataclass(frozen=True)
class Power:
    """A curve that is a power of the size; its backward takes so many times the forward."""

    scale: float
    exponent: float
    backward: float = 2.5

    def __call__(self, size: int) -> float:
        return self.scale * (size / 128) ** self.exponent


def plant(
    dataset: Planted,
    curves: Mapping[tuple[str, bool], Curve],
    sizes: Sequence[int],
    random: np.random.Generator,
    resolution: float = 0.0,
    batch_size: int = 4,
) -> None:
    """Plant a sweep over seq_len with these curves of an implementation and a mask.

    Each run is off by up to 1%, and drifts by up to 2%; backward takes 2.5 times the forward, or
    as the curve says by an attribute ``backward``.
    """
    spread = float(random.choice([0.003, 0.01, 0.02, 0.04]))
    for (name, causal), curve in curves.items():
        for size in sizes:
            shape = experiment_shape(size, causal, batch_size)
            if dataset.sweep == "batch_size":
                shape = experiment_shape(512, causal, size)
            for timed, factor in (("forward", 1.0), ("backward", getattr(curve, "backward", 2.5))):
                median = curve(size) * factor * (1 + float(random.uniform(-0.01, 0.01)))
                drift = float(random.uniform(-0.02, 0.02))
                dataset.passes[name, shape, timed] = Pass(
                    median, spread, drift, resolution=resolution
                )


def identical(random: np.random.Generator) -> Planted:
    """The same implementation twice, and masks that change nothing: only the drift differs."""
    dataset = Planted("identical", identical=True)
    exponent = float(random.uniform(0, 2))
    keys = [(name, mask) for name in NAMES for mask in (False, True)]
    plant(dataset, dict.fromkeys(keys, Power(0.05, exponent)), _sizes(random), random)
    return dataset


def faster(random: np.random.Generator) -> Planted:
    """One implementation faster by a factor that may change along the sweep; causal too."""
    dataset = Planted("faster")
    exponent, ratio = float(random.uniform(0.5, 2)), float(np.exp(random.uniform(-1.2, 1.2)))
    growth = float(random.choice([0.0, random.uniform(-0.3, 0.3)]))
    gain = float(np.exp(random.uniform(-0.5, 0.7)))
    curves = {}
    for name, mask in itertools.product(NAMES, (False, True)):
        scale = 0.05 / (ratio if name == "Flash2" else 1) / (gain if mask else 1)
        curves[name, mask] = Power(scale, exponent - growth * (name == "Flash2"))
    plant(dataset, curves, _sizes(random), random)
    return dataset


def crossing(random: np.random.Generator) -> Planted:
    """One overtakes the other somewhere along the sweep."""
    dataset = Planted("crossing")
    sizes = _sizes(random)
    where = float(random.uniform(sizes[0], sizes[-1]))
    steep, flat = float(random.uniform(1.2, 2.2)), float(random.uniform(0.2, 1.0))
    curves = {
        ("Pytorch", False): Power(0.05 * (where / 128) ** (flat - steep), steep),
        ("Flash2", False): Power(0.05, flat),
    }
    plant(dataset, curves, sizes, random)
    return dataset


def launch(random: np.random.Generator) -> Planted:
    """A launch that costs more than the kernel at small sizes: no single exponent."""
    dataset = Planted("launch")
    sizes = _sizes(random)

    def curve(overhead: float, sharp: bool, scale: float) -> Curve:
        def time(n: int) -> float:
            work = scale * (n / 128) ** 2
            return max(overhead, work) if sharp else overhead + work

        return time

    curves = {
        (name, False): curve(
            float(np.exp(random.uniform(-4, 2))), bool(random.random() < 0.4), 0.05
        )
        for name in NAMES
    }
    plant(dataset, curves, sizes, random)
    return dataset


def cliff(random: np.random.Generator) -> Planted:
    """A step, up or down, between two sizes, as where a cache ends: no record is wrong."""
    dataset = Planted("cliff")
    sizes = _sizes(random)
    edge, height = int(random.choice(sizes[1:])), float(np.exp(random.uniform(-1.2, 1.1)))
    exponent = float(random.uniform(0, 2))

    def step(n: int) -> float:
        return Power(0.05, exponent)(n) * (height if n >= edge else 1)

    plant(dataset, {("Pytorch", False): step, ("Flash2", False): step}, sizes, random)
    return dataset


def spiked(random: np.random.Generator) -> Planted:
    """One record far from the power law of the others."""
    dataset = faster(random)
    dataset.kind = "spiked"
    name, timed = str(random.choice(NAMES)), str(random.choice(["forward", "backward"]))
    inner = sorted({shape.seq_len for _, shape, _ in dataset.passes})[1:-1]
    key = (name, experiment_shape(int(random.choice(inner)), bool(random.random() < 0.5)), timed)
    factor = float(random.uniform(1.3, 3.0)) ** float(random.choice([-1, 1]))
    planted = dataset.passes[key]
    dataset.passes[key] = Pass(planted.median * factor, planted.spread, planted.drift)
    return dataset


def unsteady(random: np.random.Generator) -> Planted:
    """Some passes that drift by 25% to 60%, or scatter so that the median is hardly known."""
    dataset = faster(random)
    dataset.kind = "unsteady"
    keys = list(dataset.passes)
    for index in random.choice(len(keys), size=3, replace=False):
        key = keys[int(index)]
        median = dataset.passes[key].median
        if random.random() < 0.5:
            drift = float(random.uniform(0.25, 0.6)) * float(random.choice([-1, 1]))
            dataset.passes[key] = Pass(median, 0.01, drift, 60)
        else:
            dataset.passes[key] = Pass(median, float(random.uniform(0.5, 0.8)), 0.0, 20)
    return dataset


def out_of_memory(random: np.random.Generator) -> Planted:
    """The naive implementation ends before the sweep does."""
    dataset = faster(random)
    dataset.kind = "out of memory"
    sizes = sorted({shape.seq_len for _, shape, _ in dataset.passes})
    first = int(random.choice(sizes))
    dataset.failed = {
        (name, shape): "oom"
        for name, shape, _ in dataset.passes
        if name == "Pytorch" and shape.seq_len >= first
    }
    return dataset


def tied(random: np.random.Generator) -> Planted:
    """A clock so coarse that most samples are equal."""
    dataset = Planted("tied")
    ratio = float(random.choice([1.0, 1.5, 2.0]))
    curves = {("Pytorch", False): Power(0.064, 1.0), ("Flash2", False): Power(0.064 / ratio, 1.0)}
    plant(dataset, curves, _sizes(random), random, resolution=0.0005)
    return dataset


def several(random: np.random.Generator, names: Sequence[str]) -> Planted:
    """A naive implementation, fused ones that tie, nearly tie or cross, and one that stores scores.

    Along N without the mask, with it, or with and without it; or along B with it. Processes differ
    by 0.2 to 1.2%.
    """
    kind = str(random.choice(["plain", "masked", "both", "batches"]))
    dataset = Planted(f"{len(names)} implementations, {kind}")
    dataset.sweep = "batch_size" if kind == "batches" else "seq_len"
    dataset.noise = float(random.choice([1.0, 3.0, 6.0]))
    first = 1 if kind == "batches" else 128
    sizes = [first * 2**i for i in range(int(random.integers(3, 6)))]
    exponent = 1.0 if kind == "batches" else float(random.uniform(1, 2))
    steady, before = float(random.choice([0.0, 0.25])), Power(0.02, exponent)
    curves: dict[tuple[str, bool], Curve] = {}
    for name in names:
        growth = exponent + float(random.uniform(-steady, steady))
        backward = float(random.uniform(2, 3))
        if name == "Pytorch":
            curve = Power(0.1, exponent)
        elif name == "SdpaMath":
            curve = Power(0.1 * float(np.exp(random.uniform(-0.2, 1.0))), exponent, backward)
        elif random.random() < 0.5:
            off = float(random.choice([0.0, random.uniform(-0.1, 0.1)]))
            curve = replace(before, scale=before.scale * float(np.exp(off)))
        else:
            curve = Power(0.1 / float(np.exp(random.uniform(-0.3, 1.5))), growth, backward)
        before = curve if name not in ("Pytorch", "SdpaMath") else before
        gain = float(np.exp(random.uniform(-0.4, 0.7)))
        scale = curve.scale * (128 / first) ** curve.exponent
        if kind in ("plain", "both"):
            curves[name, False] = replace(curve, scale=scale)
        if kind != "plain":
            curves[name, True] = replace(curve, scale=scale / gain)
    plant(dataset, curves, sizes, random)
    return dataset


def three(random: np.random.Generator) -> Planted:
    """Three implementations, of which the last is the project's own or not."""
    return several(random, THREE[int(random.integers(2))])


def nine(random: np.random.Generator) -> Planted:
    """Nine implementations, the project's own among them."""
    return several(random, NINE)


PLANTS = (
    *(identical, faster, crossing, launch, cliff, spiked, unsteady, out_of_memory, tied),
    *(identical, faster, crossing),
)
"""Two implementations."""


# From what is planted to tables


def records_of(
    dataset: Planted, random: np.random.Generator
) -> dict[tuple[str, Shape], list[Record]]:
    """The records of each run, one for each process."""
    environment = {"device_name": DEVICE, "packages": {}}
    records: dict[tuple[str, Shape], list[Record]] = {}
    shapes = sorted({shape for _, shape, _ in dataset.passes})
    every = [
        (implementation, shape, process)
        for implementation, shape in itertools.product(dataset.names, shapes)
        for process in range(len(dataset.factors.get((implementation, shape), range(PROCESSES))))
    ]
    for implementation, shape, process in every:
        times = {}
        for timed in ("forward", "backward"):
            planted = dataset.passes[implementation, shape, timed]
            off = float(random.lognormal(sigma=dataset.noise * BETWEEN_PROCESSES))
            if dataset.factors:
                off = dataset.factors[implementation, shape][process]
            spread = dataset.noise * planted.spread
            drawn = draw(replace(planted, median=planted.median * off, spread=spread), random)
            times[timed] = [time / 1e3 for time in drawn]
        records.setdefault((implementation, shape), []).append(
            record_of(
                attention_run(implementation, shape, "float16", "cuda"),
                dataset.failed.get((implementation, shape), "ok"),
                environment=environment,
                sources={"process": process} if process else {},
                **times,
            )
        )
    return records


def write_dataset(
    dataset: Planted, planter: Planter, random: np.random.Generator, name: str = "sweep"
) -> Path:
    """Plan and tables of a planted sweep; the plan's file."""
    records = records_of(dataset, random).values()
    return planter.write_plan([*itertools.chain(*records)], name, dataset.sweep)
