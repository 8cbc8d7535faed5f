"""FlashLab's kernel on a GPU beside others: the time of both passes.

Measures the lab's 17 shapes, the 20 long ones of config/long.yaml and 40 odd ones, both passes, in
turns within one process, in at most --minutes: medians in µs, and the geometric means of the ratios
of times to FlashLab's.

Usage: PYTHONPATH=workflow python perf/flashlab_speed.py [--groups lab long odd] [--others NAME ...]
                                                         [--minutes 8.5]

NAMEs are files in kernels/; without them flash2 and sdpa_cudnn, on a CPU sdpa_math.
On a CPU the same is done with PyTorch's own attentions, at the shapes for a CPU.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import torch

from flashlab import machine
from flashlab.benchmarks.attention import measure
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import KERNELS
from flashlab.config import read_layer
from flashlab.measuring import protocols
from flashlab.measuring.kernel import load_kernel

ROOT = Path(__file__).parents[1]
MINE = {"cuda": "flash_lab", "cpu": "pytorch"}
OTHERS = {"cuda": ("flash2", "sdpa_cudnn"), "cpu": ("sdpa_math",)}
DTYPE = {"cuda": "float16", "cpu": "float32"}
WORKERS = 12
GROUPS = {"lab": ("config.yaml", ""), "long": ("long.yaml", "long_")}
"""The configuration of a group's shapes, and how the names of its experiments begin."""

PASSES = ("forward_time", "backward_time")
ODD = "odd"
ODD_SIZES = (
    (1, 2048, 4, 64), (8, 1000, 5, 64), (3, 3333, 10, 64), (2, 6000, 5, 64), (5, 700, 12, 64),
    (2, 2300, 6, 80), (4, 1500, 8, 80), (2, 5555, 8, 96), (7, 900, 5, 112), (1, 4000, 6, 128),
    (8, 1000, 16, 128), (1, 10001, 3, 128), (16, 333, 9, 128), (1, 32700, 1, 128),
    (2, 1777, 12, 160), (1, 8000, 3, 192), (2, 3000, 8, 192), (4, 2048, 8, 256),
    (1, 5000, 4, 256), (2, 4096, 12, 256),
)  # fmt: skip
"""B, N, H and head_dim of the odd shapes, each with both masks: tiles do not come out even, since N
is no multiple of 64 or heads are few; or head_dim is over 128."""


def run_of(shape: Shape, device: str) -> dict[str, Any]:
    """A run as the measuring takes it."""
    return {**vars(shape), "dtype": DTYPE[device], "device": device, "inputs": "separate"}


def shapes_of(group: str, device: str) -> list[Shape]:
    """The distinct shapes of a group: those of a configuration's experiments, or the odd ones."""
    if group == ODD:
        return [
            Shape(b, n, h, h * d, causal=causal)
            for (b, n, h, d), causal in product(ODD_SIZES, (False, True))
            if device == "cuda" or b * n * h * d < 10**6
        ]
    (file, prefix), found = GROUPS[group], list[Shape]()
    for experiment in read_layer(ROOT / "config" / file).keys["experiments"]:
        if isinstance(experiment, dict) and experiment["name"].startswith(prefix):
            block = {k: v if isinstance(v, list) else [v] for k, v in experiment[device].items()}
            masks, points = block.pop("causal"), max(map(len, block.values()))
            columns = {name: of * (points if len(of) == 1 else 1) for name, of in block.items()}
            found += [
                Shape(**{name: of[i] for name, of in columns.items()}, causal=causal)
                for i, causal in product(range(points), masks)
            ]
    return list(dict.fromkeys(found))


def compile_at(shape: Shape, device: str) -> None:
    """Both passes once, so that what they compile is on disk."""
    for _, call in measure.passes(
        load_kernel(KERNELS / f"{MINE[device]}.py"), run_of(shape, device)
    ):
        call.run()


def time_in_turns(
    names: Sequence[str], shape: Shape, seconds: float, device: str
) -> Iterator[tuple[str, dict[str, float]]]:
    """Of each pass the median µs by implementation, without those that fail, for some seconds."""
    kernels = {name: load_kernel(KERNELS / f"{name}.py") for name in names}
    run = run_of(shape, device)
    for name in list(kernels):
        try:
            for _, call in measure.passes(kernels[name], run):
                call.run()
        except (NotImplementedError, RuntimeError) as error:
            print(f"{name} at {shape}: {error}")
            del kernels[name]
    for turns in zip(*(measure.passes(kernel, run) for kernel in kernels.values()), strict=True):
        samplers = {}
        for name, (_, call) in zip(kernels, turns, strict=True):
            protocols.warm_up(call, device)
            samplers[name] = protocols.Sampler(call, device)
        samples: dict[str, list[float]] = defaultdict(list)
        order = list(samplers)
        begin = time.monotonic()
        while not samples or time.monotonic() - begin < seconds / 2:
            for name in order:
                samples[name] += samplers[name]()
            order.reverse()
        yield turns[0][0], {name: statistics.median(samples[name]) * 1e6 for name in samplers}


def print_ratios(rows: Sequence[dict[str, Any]], mine: str, others: Sequence[str]) -> None:
    """For each group, pass and other: the geometric mean of time / FlashLab's, and the extremes.

    The last of the others is the best of all at each shape.
    """
    best, groups = "the best", dict.fromkeys(row["group"] for row in rows)
    for group, metric, other in product(groups, PASSES, (*others, best)):
        times = [row["us"] for row in rows if (row["group"], row["metric"]) == (group, metric)]
        compared = others if other == best else [other]
        ratios = [
            min(us[name] for name in compared if name in us) / us[mine]
            for us in times
            if mine in us and not us.keys().isdisjoint(compared)
        ]
        if ratios:
            mean, ends = statistics.geometric_mean(ratios), (min(ratios), max(ratios))
            print(f"{group}, {metric}, {other} / {mine}: {mean:.3f} ({ends[0]:.2f} to", end=" ")
            print(f"{ends[1]:.2f}, {len(ratios)} shapes)")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", nargs="+", choices=(*GROUPS, ODD), default=list(GROUPS))
    parser.add_argument("--others", nargs="+")
    parser.add_argument("--minutes", type=float, default=8.5)
    arguments = parser.parse_args()
    device = machine.detect_device("auto")
    end = time.monotonic() + arguments.minutes * 60
    mine, others = MINE[device], arguments.others or OTHERS[device]
    shapes = [(group, shape) for group in arguments.groups for shape in shapes_of(group, device)]
    print(f"{len(shapes)} shapes, torch {torch.__version__}, {machine.device_name(device)}")
    workers = min(WORKERS, os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(compile_at, [s for _, s in shapes], [device] * len(shapes)))
    print(f"compiled; {end - time.monotonic():.0f} s left", flush=True)
    rows: list[dict[str, Any]] = []
    for i, (group, shape) in enumerate(shapes):
        if time.monotonic() > end:
            print(f"out of time: {len(shapes) - i} shapes were not measured")
            break
        seconds = 0.8 * (end - time.monotonic()) / (len(shapes) - i)  # the rest is for warming up
        for metric, medians in time_in_turns((mine, *others), shape, seconds, device):
            rows.append({"group": group, "metric": metric, "us": medians})
            told = ", ".join(f"{name} {value:.1f}" for name, value in medians.items())
            print(f"{group} {shape}, {metric}: {told}", flush=True)
    print_ratios(rows, mine, others)
    print(f"{end - time.monotonic():.0f} s left")


if __name__ == "__main__":
    main()
