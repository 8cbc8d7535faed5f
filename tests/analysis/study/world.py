"""Reports on attention whose truth is known: two, three or nine implementations.

Along N (with and without the mask), B, H and E, on a GPU and a CPU, with failures and odd runs;
the processes of a run differ by a model of what differs on real machines.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
from planted.experiments import Planter, call_times

from flashlab.analysis.frames import Dataset, run_keys_of
from flashlab.statistics import Floats

NAMES = {
    2: ("Pytorch", "Flash2"),
    3: ("Pytorch", "Flash2", "Flash3"),
    9: (
        *("Pytorch", "SdpaMath", "Flash2", "Flash3", "Flash4", "SdpaCudnn", "SdpaEfficient"),
        *("Flex", "FlashLab"),
    ),
}
VALUES = {
    **{"seq_len": (128, 256, 1024, 2048), "causal": (192, 384, 768, 1536)},
    **{"batch_size": (1, 2, 8, 16), "num_heads": (2, 4, 16, 32), "emb_dim": (128, 256, 512, 1024)},
}
"""By experiment; no two of them share a run."""

PASSES = ("forward", "backward")
METRICS = {f"{name}_time": i for i, name in enumerate(PASSES)}
TOTAL = "forward_backward_time"
WORK = {"N": 2.0, "B": 1.0, "H": 0.0, "E": 1.0}
"""The power of the swept value that the operations grow with."""

SWEPT = {"N": "seq_len", "B": "batch_size", "H": "num_heads", "E": "emb_dim"}

Key = tuple[str, str, bool, int]
"""Experiment, implementation, mask, value."""


@dataclass
class Truth:
    """What was planted: (forward, backward) in ms of each run, those that failed, the odd ones."""

    times: dict[Key, tuple[float, float]] = field(default_factory=dict)
    failed: dict[Key, str] = field(default_factory=dict)
    odd: set[Key] = field(default_factory=set)  # by the tables, so that sentences leave them out
    symbols: dict[str, str] = field(default_factory=dict)

    def time(self, key: Key, metric: str = TOTAL) -> float:
        """A true time; NaN where the run has none."""
        if key in self.failed or key not in self.times:
            return math.nan
        of = self.times[key]
        return sum(of) if metric == TOTAL else of[METRICS[metric]]

    def speed(
        self, s: str, name: str, over: str, at: int, mask: bool, metric: str = TOTAL
    ) -> float:
        """The true speed of one over another."""
        return self.time((s, over, mask, at), metric) / self.time((s, name, mask, at), metric)

    def mask_of(self, s: str) -> bool:
        """The mask of an experiment; without it where it has both."""
        return all(mask for name, _, mask, _ in self.times if name == s)

    def row(self, row: Mapping[str, Any]) -> float:
        """The true ratio of a row of comparisons.csv; of a pooled one over all that have both."""
        experiment, value, compared = (row.get(k) for k in ("experiment", "value", "compared"))
        of_one, at_one = isinstance(experiment, str), value is not None and value == value
        masks = ["true" in row["variant"]] if of_one else [False, True]
        places = {
            (s, at, mask)
            for s, _, _, at in self.times
            for mask in masks
            if (not of_one or s == experiment) and (not at_one or at == value)
        }
        ratios = []
        for s, at, mask in places:
            one, other = (s, row["subject"], mask, at), (s, row["reference"], mask, at)
            if compared in ("first value", "previous value"):
                other = (s, row["subject"], mask, row["reference_value"])
            elif compared == "causal":
                other = (s, row["subject"], False, at)
            ratios.append(self.time(one, row["metric"]) / self.time(other, row["metric"]))
        return geometric_mean(x for x in ratios if x == x)


Random, Size = np.random.Generator, tuple[int, int, int]
Model = Callable[[Random, Size], Floats]
"""The factors on the times of each of so many settings, implementations, and rounds; all of one
setting and round ran side by side."""


def _quiet(random: Random, size: Size) -> Floats:
    return random.lognormal(sigma=0.006, size=size)


def _session_drift(random: Random, size: Size) -> Floats:
    """What is measured later is slower, or faster, by up to 10% from first to last."""
    change = float(random.uniform(-0.1, 0.1))
    at = np.linspace(-0.5, 0.5, math.prod(size)).reshape(size[2], *size[:2])
    return np.exp(change * at).transpose(1, 2, 0) * _quiet(random, size)


def _random_load(random: Random, size: Size) -> Floats:
    """One process in twenty beside another program, which slows it by 20% to 150%."""
    slowed = np.where(random.random(size) < 0.05, random.uniform(1.2, 2.5, size), 1)
    return slowed * _quiet(random, size)


def _load_on_most(random: Random, size: Size) -> Floats:
    """Of one run all processes but one are slowed by one load."""
    found, slowed = _quiet(random, size), random.permutation(size[2])[1:]
    one = random.integers(size[0]), random.integers(size[1])
    found[(*one, slowed)] *= random.uniform(1.2, 2.5)
    return found


def _cards(random: Random, size: Size) -> Floats:
    """What runs side by side meets one of four cards, which differ by 3%."""
    cards = random.lognormal(sigma=0.03, size=4)
    return cards[random.integers(4, size=(size[0], 1, size[2]))] * _quiet(random, size)


MODELS: Mapping[str, Model] = {
    "quiet": _quiet,
    # Each process in either of two states 10% apart, around 1.
    "two states": lambda random, size: 1.1 ** (random.integers(2, size=size) - 0.5),
    "drift of the session": _session_drift,
    "random load": _random_load,
    "one load on most": _load_on_most,
    "cards that differ": _cards,
}


def plant(
    random: Random,
    folder: Path,
    model: str | None = None,
    processes: int = 3,
    is_alike: bool = False,
    ticks: bool = False,
) -> tuple[Dataset, Truth]:
    """A report whose truth is known, its tables written below a folder.

    Args:
        model: what differs between processes, of `MODELS`; none that counts if None.
        processes: how many of each run.
        is_alike: all implementations are the same code, which the mask does not change.
        ticks: by a clock of which the shortest time has two or three ticks.
    """
    names = NAMES[int(random.choice([2, 2, 3, 9]))]
    noise = float(random.choice([0.002, 0.01, 0.03]))
    device = str(random.choice(["cuda", "cpu"]))
    truth = Truth()
    base = {n: float(np.exp(random.normal(0, 0.7))) for n in names}
    if is_alike or random.random() < 0.3:
        base = dict.fromkeys(names, 1.0)
    for what in map(str, random.permutation(["N", "B", "H", "E", "mask"])[: random.integers(1, 4)]):
        symbol = "N" if what == "mask" else what
        s = {"mask": "causal"}.get(what, SWEPT[symbol])
        truth.symbols[s] = symbol
        masks = (False, True) if what == "mask" else (bool(random.random() < 0.5),)
        curves = {name: _curve(random, symbol) for name in names}
        if is_alike:
            curves = dict.fromkeys(names, curves["Pytorch"])
        for name, mask in itertools.product(names, masks):
            gain = float(np.exp(random.uniform(-0.3, 0.7))) if mask and s == "causal" else 1.0
            scale = base[name] / (1 if is_alike else gain)
            _plant_curve(random, truth, (s, name, mask), curves[name], scale, is_alike)
    settings = sorted({(s, at, mask) for s, _, mask, at in truth.times})
    size = len(settings), len(names), processes
    factors = MODELS[model](random, size) if model else random.lognormal(sigma=noise, size=size)
    tick = min(map(min, truth.times.values())) / float(random.uniform(2, 3)) if ticks else 0.0

    def samples(time: float) -> list[float]:
        """The seconds of a process's calls, by a clock of this tick."""
        drawn = call_times(random, time, 24, 0.01)
        return (1e-3 * (np.maximum(np.round(drawn / tick), 1) * tick if tick else drawn)).tolist()

    sheets = {s: (SWEPT[symbol], dict[Any, Any]()) for s, symbol in truth.symbols.items()}
    for (i, (s, at, mask)), (j, name) in itertools.product(enumerate(settings), enumerate(names)):
        key = s, name, mask, at
        drawn = [
            {of: samples(x * t) for of, t in zip(PASSES, truth.times[key], strict=True)}
            for x in factors[i, j]
        ]
        sheets[s][1].setdefault((name, mask), {})[at] = truth.failed.get(key, drawn)
    data = Planter(folder).report(sheets, device)
    for sweep in data.sweeps:
        dips = run_keys_of(sweep.runs[sweep.runs.odd.astype(bool)])
        truth.odd |= {(sweep.name, name, "true" in variant, at) for variant, name, at in dips}
    return data, truth


def _curve(random: Random, symbol: str) -> tuple[float, float, float]:
    """Along a sweep a power, a bend, and the backward over the forward."""
    power = WORK[symbol] + float(random.choice([0, 0, random.normal(0, 0.4)]))
    bend = float(random.choice([0, 0, random.normal(0, 0.3)]))
    return power, bend, float(random.uniform(1.5, 3))


def _plant_curve(
    random: Random, truth: Truth, key: tuple[Any, ...], curve: Any, scale: float, is_alike: bool
) -> None:
    """Along a sweep the times of a curve; some runs fail, and one may be odd."""
    values, (power, bend, ratio) = VALUES[key[0]], curve
    odd = int(random.choice(values[1:-1])) if not is_alike and random.random() < 0.04 else None
    for i, value in enumerate(values):
        middle = math.exp(bend * (1 - abs(2 * i / (len(values) - 1) - 1)))
        forward = scale * (value / values[0]) ** power * middle * (2.5 if value == odd else 1.0)
        truth.times[*key, value] = forward, forward * ratio
        if random.random() < 0.03:
            truth.failed[*key, value] = str(random.choice(["oom", "incorrect", "error"]))
