"""FlashLab's kernel on a GPU beside others: the time of both passes, by `bench`.

Measures the lab's 17 shapes, the long ones of config/long.yaml and 40 odd ones, and prints the
geometric means of the ratios of times to FlashLab's.

Usage, on a GPU: PYTHONPATH=workflow python perf/flashlab_speed.py [--groups lab long odd]
    [--others NAME ...] [--seconds 5 FOR EACH SHAPE]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

import pandas as pd
from scipy.stats import gmean

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.checking.shapes import shape_text
from flashlab.config import read_layer
from flashlab.files import read_json

CONFIG = Path(__file__).parents[1] / "config"
MINE = "FlashLab"
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
    file, prefix = GROUPS[group]
    experiments = read_layer(CONFIG / file).keys["experiments"]
    named = (x["cuda"] for x in experiments if isinstance(x, dict) and x["name"].startswith(prefix))
    sizes = (size for block in named for size in ATTENTION.combinations(block))
    return [*dict.fromkeys(Shape.of(ATTENTION.complete(size)) for size in sizes)]


def measure(names: list[str], group: str, seconds: float) -> pd.DataFrame:
    """The ratios of times to FlashLab's: a row for each pass and shape, a column for each other."""
    shapes = [word for shape in shapes_of(group) for word in ("--shape", shape_text(shape))]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "said.json")
        options = ["--seconds", str(seconds), "--json", str(file)]
        subprocess.run([sys.executable, "-m", "flashlab", "bench", *names, *shapes, *options])
        rows = pd.DataFrame(read_json(file)["rows"]).dropna(subset="pass")
    times = rows.pivot(index=["pass", "shape"], columns="implementation", values="time")
    others = times.drop(columns=MINE)
    return others.assign(**{"the best": others.min(axis="columns")}).div(times[MINE], axis="index")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", nargs="+", choices=(*GROUPS, ODD), default=list(GROUPS))
    parser.add_argument("--others", nargs="+", default=["Flash2", "SdpaCudnn"])
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    for group in arguments.groups:
        ratios = measure([MINE, *arguments.others], group, arguments.seconds)
        for (which, name), found in ratios.stack().groupby(level=[0, 2]):
            ends = f"{found.min():.2f} to {found.max():.2f}, {len(found)} shapes"
            print(f"{group}, {which}, {name} / {MINE}: {gmean(found):.3f} ({ends})", flush=True)


if __name__ == "__main__":
    main()
