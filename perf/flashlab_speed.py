"""FlashLab's kernel on a GPU beside others: the time of both passes.

Measures the lab's 17 shapes, the long ones of config/long.yaml and 40 odd ones, both passes, in
turns within one process: medians in µs, and the geometric means of the ratios of times to
FlashLab's.

Usage, on a GPU: PYTHONPATH=workflow python perf/flashlab_speed.py [--groups lab long odd]
    [--others NAME ...] [--seconds 5 FOR EACH SHAPE]

NAMEs are files in kernels/; without them flash2 and sdpa_cudnn.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import torch

from flashlab import machine
from flashlab.benchmarks.attention import measure
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import KERNELS
from flashlab.config import read_layer
from flashlab.measuring import protocols
from flashlab.measuring.kernel import load_kernel

CONFIG = Path(__file__).parents[1] / "config"
OTHERS = ("flash2", "sdpa_cudnn")
MINE = "flash_lab"
GROUPS = {"lab": ("config.yaml", ""), "long": ("long.yaml", "long_")}
"""The configuration of a group's shapes, and how the names of its experiments begin."""

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


def shapes_of(group: str) -> list[Shape]:
    """The distinct shapes of a group: those of a configuration's experiments, or the odd ones."""
    if group == ODD:
        return [
            Shape(b, n, h, h * d, causal=causal)
            for (b, n, h, d), causal in product(ODD_SIZES, (False, True))
        ]
    (file, prefix), found = GROUPS[group], dict[Shape, None]()
    for experiment in read_layer(CONFIG / file).keys["experiments"]:
        if isinstance(experiment, dict) and experiment["name"].startswith(prefix):
            block = {k: v if isinstance(v, list) else [v] for k, v in experiment["cuda"].items()}
            masks, points = block.pop("causal"), max(map(len, block.values()))
            for i, causal in product(range(points), masks):
                sizes = {name: of[i % len(of)] for name, of in block.items()}
                found[Shape(**sizes, causal=causal)] = None
    return [*found]


def time_in_turns(
    names: tuple[str, ...], shape: Shape, seconds: float
) -> Iterator[tuple[str, dict[str, float]]]:
    """Of each pass the median µs by implementation, without those that fail, for some seconds."""
    run = {**vars(shape), "dtype": "float16", "device": "cuda", "inputs": "separate"}
    passes = {}
    for name in names:
        kernel = load_kernel(KERNELS / f"{name}.py")
        try:
            for _, call in measure.passes(kernel, run):
                call.run()
            passes[name] = measure.passes(kernel, run)
        except (NotImplementedError, RuntimeError) as error:
            print(f"{name} at {shape}: {error}")
    for turns in zip(*passes.values(), strict=True):
        samplers, samples = {}, defaultdict[str, list[float]](list)
        for name, (_, call) in zip(passes, turns, strict=True):
            protocols.warm_up(call, "cuda")
            samplers[name] = protocols.Sampler(call, "cuda")
        order, begin = [*samplers], time.monotonic()
        while not samples or time.monotonic() - begin < seconds / 2:
            for name in order:
                samples[name] += samplers[name]()
            order.reverse()
        yield turns[0][0], {name: statistics.median(samples[name]) * 1e6 for name in samplers}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", nargs="+", choices=(*GROUPS, ODD), default=list(GROUPS))
    parser.add_argument("--others", nargs="+", default=OTHERS)
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}, {machine.device_name('cuda')}", flush=True)
    ratios: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for group in arguments.groups:
        for shape in shapes_of(group):
            names = (MINE, *arguments.others)
            for metric, us in time_in_turns(names, shape, arguments.seconds):
                told = ", ".join(f"{name} {value:.1f}" for name, value in us.items())
                print(f"{group} {shape}, {metric}: {told}", flush=True)
                if MINE in us and len(us) > 1:
                    over = {name: us[name] / us[MINE] for name in us if name != MINE}
                    for name, ratio in (*over.items(), ("the best", min(over.values()))):
                        ratios[group, metric, name].append(ratio)
    for (group, metric, name), found in ratios.items():
        ends = f"{min(found):.2f} to {max(found):.2f}, {len(found)} shapes"
        mean = statistics.geometric_mean(found)
        print(f"{group}, {metric}, {name} / {MINE}: {mean:.3f} ({ends})")


if __name__ == "__main__":
    main()
