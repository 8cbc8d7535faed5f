"""A benchmark that is only declared: sorting, where a higher rate is better."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from planted.records import plain_record, samples_around
from planted.results import PlantedReport

from flashlab.benchmarks.implementations import Implementation
from flashlab.benchmarks.model import Benchmark, Metric, Parameter, Quantity
from flashlab.records import Measurement, Record
from flashlab.runs import Run

NAME = "sorting"
ITEMS, THREADS = [1024, 2048, 4096, 8192], [1, 2, 4, 8]
FACTORS = {"Merge": 1.0, "Radix": 4.0, "Bubble": 1.01}
"""Throughput against the baseline's, which is 8 Mitem/s for each thread."""


def texts(zh_tw: str, en: str) -> dict[str, str]:
    return {"zh_TW": zh_tw, "en": en}


def _flag(name: str) -> Parameter:
    words = {
        on: texts(f"{word}{name}", f"{word}{name}") for on, word in ((False, "no-"), (True, ""))
    }
    return Parameter(name, name, texts(name, name), kind=bool, words=words)


def sorting(*flags: str) -> Benchmark:
    """The benchmark, with variants of these names that are on or off."""
    parameters = (
        Parameter("items", "n", texts("元素個數", "number of items")),
        Parameter("threads", "t", texts("執行緒數", "number of threads")),
    )
    metrics = (
        Metric(
            "throughput",
            Quantity("throughput", "Mitem/s", "higher", texts("吞吐量", "Throughput")),
            texts("吞吐量", "throughput"),
        ),
        Metric(
            "scratch",
            Quantity("scratch", "KiB", "lower", texts("暫存空間", "Scratch space"), exact=True),
            texts("暫存空間", "scratch space"),
        ),
    )
    flagged = (*parameters, *map(_flag, flags))
    return Benchmark(NAME, NAME, flagged, metrics, measure="never measured")


SORTING = sorting()


def _experiment(name: str, title: dict[str, str], threads: Any, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "title": title,
        "sweep": "items",
        "cuda": {"items": ITEMS, "threads": threads},
        "implementations": ["Merge", "Radix"],
        "figures": ["throughput"],
        "supplement": [],
        **more,
    }


CONFIG: dict[str, Any] = {
    "benchmark": "sorting",
    "dataset": "local",
    "languages": ["zh_TW", "en"],
    "author": {"name": "王小明", "id": "113062000", "course": "Parallel Programming"},
    "baseline": "Merge",
    "counted": [],
    "remarks": {},
    "summary": {"cuda": {"items": 4096, "threads": 4}, "implementations": ["Merge", "Radix"]},
    "experiments": [
        _experiment("items", texts("調整元素個數", "Items"), 4, implementations=[*FACTORS],
                    figures=["throughput", "scratch"]),
        _experiment("both", texts("兩者一起", "Both together"), THREADS),
    ],
}  # fmt: skip


def record(run: Run) -> Record:
    scratch = int(run["items"]) / 128 * (0.25 if run.implementation == "Radix" else 1)
    median = 8.0 * int(run["threads"]) * FACTORS[run.implementation]
    # Bubble was measured elsewhere, and does not always say where.
    elsewhere = {"device_name": "Difference engine", "driver": "2", "provider": "wheels 2.0"}
    if run.implementation != "Bubble":
        elsewhere = {"driver": "1", "provider": "beads 1.0"}
    elif run["items"] == ITEMS[-1]:
        elsewhere = {"device_name": None}
    return plain_record(
        run,
        NAME,
        metrics={"throughput": samples_around(median), "scratch": Measurement(scratch)},
        environment={"device_name": "Abacus", "packages": {"torch": "2.0"}, **elsewhere},
        sources={"implementation_digest": "a" * 64},
    )


def _kernel(name: str) -> Implementation:
    label = texts(f"{name} 排序", f"{name} sort")
    return Implementation(name, label, (), (), Path(f"{name}.py"), "0" * 64, "a" * 64)


REPORT = PlantedReport(
    SORTING,
    CONFIG,
    ("float16", "cuda"),
    record,
    implementations={name: _kernel(name) for name in FACTORS},
    processes=2,
)
