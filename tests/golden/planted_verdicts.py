"""Verdicts on planted data of attention and of sorting, which have no report.

The recorded reports hold what happens to be so of them; here are ties, crossings, runs without
numbers and masks that help, hurt and do neither.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from golden.verdicts import comparison_rows
from planted.experiments import SIZES, Planter
from planted.sorting import sorting

from flashlab.analysis.comparison_rows import read_comparisons
from flashlab.analysis.comparisons import comparisons, comparisons_csv
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import COMPARISONS, Runs
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import BENCHMARKS

NAIVE = (30, 60, 120, 240)
SLOW = (300, 600, 1200, 2400)
FAST = (10, 20, 40, 80)
STILL = {"spread": 0.001}
NOISE = {"count": 12, "spread": 0.3}
EIGHT = tuple(128 * 2**i for i in range(8))
MASKED = ("Pytorch", True), ("Flash2", True)


def pair(*times: Any, naive: Sequence[Any] = NAIVE) -> dict[Any, Any]:
    return {"Pytorch": naive[: len(times)], "Flash2": times}


def three(flash2: Sequence[Any], flash4: Sequence[Any], naive: Any = SLOW, **more: Any) -> Any:
    return {"Pytorch": naive, "Flash2": flash2, "Flash4": flash4, **more}


TIMES: Mapping[str, tuple[dict[Any, Any], dict[str, Any]]] = {
    "as much faster everywhere": (pair(*FAST), {}),
    "faster at the only value": (pair(10), {}),
    "ever faster": (pair(20, 32, 50, 80), {}),
    "ever less so": (pair(10, 25, 65, 160), {}),
    "most in between": (pair(20, 20, 40, 160), {}),
    "least in between": (pair(10, 40, 80, 80), {}),
    "slower": (pair(60, 130, 300, 700), {}),
    "slower at the only value": (pair(60), {}),
    "the same": (pair(*NAIVE), {}),
    "the same at the only value": (pair(30), {}),
    "not known": (pair(28, 57, 115, 230), NOISE),
    "not known at the only value": (pair(28), NOISE),
    "here faster, there slower": (pair(10, 60, 240, 480), {}),
    "means alone": (
        {n: [{"forward": [t * 1e-5], "means": True} for t in times]
         for n, times in (("Pytorch", NAIVE), ("Flash2", FAST))}, {},
    ),
    "one alone": ({"Pytorch": ("oom",) * 4, "Flash2": FAST}, {}),
    "no numbers": ({"Pytorch": ("error",) * 4, "Flash2": ("oom",) * 4}, {}),
    "never at the same value": ({"Pytorch": (30, 60, "oom", "oom"),
                                 "Flash2": ("error", "error", 40, 80)}, {}),
    "one best of three": (three(FAST, (12, 24, 48, 96)), {}),
    "one best by far": (three(FAST, (30, 60, 120, 240)), {}),
    "one suffices": (three((10.1, 20, 40, 80), (10, 24, 48, 96)), {}),
    "it changes": (three((10, 20, 60, 120), (15, 30, 40, 80)), {}),
    "it changes and changes": (
        three((10, 30, 40, 120, 160, 480, 640, 1920), (15, 20, 60, 80, 240, 320, 960, 1280),
              [300 * 2**i for i in range(8)]), {"values": EIGHT},
    ),
    "nobody knows": (three((10, 20, 40, 80), (10.2, 20.4, 41, 82)), NOISE),
    "no two at the same value": (three((10, "oom", "oom", "oom"), ("oom", 20, "oom", "oom"),
                                       ("oom", "oom", 1200, "oom")), {}),
    "one to avoid": (three(FAST, (12, 24, 48, 96), SdpaMath=(900, 1800, 1000, 2000)), {}),
    "two to avoid": (three(FAST, (12, 24, 48, 96), Flex=(400, 700, 1300, 2600),
                           SdpaMath=(900, 1800, 1000, 2000)), {}),
}  # fmt: skip
"""Times of attention in units of 10 µs, and their inverses as rates of sorting."""


MASKS: Mapping[str, tuple[dict[Any, Any], dict[str, Any]]] = {
    "masks help": ({**pair(*FAST), MASKED[0]: (10, 20, 40, 80), MASKED[1]: (5, 10, 20, 40)}, {}),
    "masks hurt": ({**pair(*FAST), MASKED[0]: (60, 120, 240, 480), MASKED[1]: (15, 30, 60, 120)},
                   {}),
    "masks change nothing": ({**pair(*FAST), MASKED[0]: NAIVE, MASKED[1]: FAST}, {}),
    "masks help here": ({**pair(*FAST), MASKED[0]: (15, 60, 240, 120), MASKED[1]: (5, 20, 80, 40)},
                        {}),
    "masks are not known": ({**pair(*FAST), MASKED[0]: NAIVE, MASKED[1]: FAST}, NOISE),
    "masks at the only value": ({**pair(10), MASKED[0]: [15], MASKED[1]: [15]}, {}),
    "masks that are lacking": ({**pair(*FAST), MASKED[0]: ("oom",) * 4, MASKED[1]: [9, *FAST[1:]]},
                               {}),
    "masks of three": ({**three(FAST, (12, 24, 48, 96)), MASKED[0]: (150, 300, 600, 1200),
                        MASKED[1]: (6, 11, 21, 41), ("Flash4", True): (6, 12, 24, 48)}, {}),
}  # fmt: skip
"""The same with causal masking, and as sorting with a variant."""


PlantedExperiment = tuple[Benchmark, str, Runs]
"""A benchmark, a title, and what was planted."""


def _sorting_experiments(planter: Planter) -> Iterator[PlantedExperiment]:
    """Times as rates, of sorting that has the masks' variant where there are masks."""
    for number, (title, (runs, options)) in enumerate({**TIMES, **MASKS}.items()):
        if any(isinstance(cell, dict) for row in runs.values() for cell in row):
            continue
        flags = ["fused"] if title in MASKS else []
        benchmark = replace(sorting(*flags), naive="Pytorch")
        BENCHMARKS[benchmark.name] = benchmark
        noise = {**STILL, **{name: options[name] for name in NOISE.keys() & options.keys()}}
        rates: dict[Any, Any] = {}
        for key, row in runs.items():
            name, on = key if isinstance(key, tuple) else (key, False)
            found = [cell if isinstance(cell, str) else 1e3 / cell for cell in row]
            rates[name, tuple((flag, on) for flag in flags)] = found
        yield benchmark, title, planter.sorts(rates, f"sorting{number}", **noise)
        del BENCHMARKS[benchmark.name]


def _attention_experiments(planter: Planter) -> Iterator[PlantedExperiment]:
    for number, (title, (runs, options)) in enumerate({**TIMES, **MASKS}.items()):
        usual = {"name": f"attention{number}", "sweep": "seq_len", "values": SIZES, **STILL}
        yield ATTENTION, title, planter.experiment(runs, **{**usual, **options})


def planted_verdicts() -> str:
    """The verdicts on planted data, with the title as the experiment."""
    rows: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        planter, table = Planter(Path(folder)), Path(folder, COMPARISONS)
        for experiments in (_sorting_experiments, _attention_experiments):
            for benchmark, title, experiment in experiments(planter):
                found = comparisons([experiment], Estimates([experiment]))
                table.write_text(comparisons_csv(found), encoding="utf-8")
                name = f"{benchmark.name}: {title}"
                rows += comparison_rows(
                    replace(r, experiment=name) for r in read_comparisons(table)
                )
    return "".join(f"{row}\n" for row in rows)
