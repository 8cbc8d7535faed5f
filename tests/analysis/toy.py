"""A benchmark that is not attention: sizes, a metric where higher is better, and an exact one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from flashlab.benchmarks.model import Benchmark, Metric, Parameter, Quantity, Value
from flashlab.records import Measurement, Record
from flashlab.runs import Run

NAME = "toy"


def _texts(word: str) -> dict[str, str]:
    return {"zh_TW": word, "en": word}


def flag(name: str) -> Parameter:
    """A variant that is on or off."""
    words = {False: _texts(f"no-{name}"), True: _texts(name)}
    return Parameter(name, name, _texts(name), kind=bool, words=words)


WIDTH, DEPTH = (Parameter(name, name[0].upper(), _texts(name)) for name in ("width", "depth"))
RATE = Quantity("rate", "items/s", "higher", exact=False, labels=_texts("Rate"))
CODE = Quantity("code", "bytes", "lower", exact=True, labels=_texts("Code"))
THROUGHPUT = Metric("throughput", RATE, _texts("throughput"))
CODE_SIZE = Metric("code_size", CODE, _texts("code size"))


def toy(*variants: Parameter) -> Benchmark:
    """The benchmark with these variants."""
    return Benchmark(
        name=NAME,
        report=NAME,
        parameters=(WIDTH, DEPTH, *variants),
        metrics=(THROUGHPUT, CODE_SIZE),
        measure="none",
    )


def record(
    benchmark: Benchmark,
    name: str,
    parameters: Mapping[str, Value],
    samples: Sequence[float],
    code_size: float = 100.0,
) -> Record:
    """The record of a run with these samples of its throughput."""
    keys = {"implementation": name, "depth": 2, "dtype": "float32", "device": "cpu", **parameters}
    metrics = {
        "throughput": Measurement(median(samples), tuple(samples), "interval"),
        "code_size": Measurement(code_size),
    }
    return Record(
        benchmark=NAME,
        run=Run.of(benchmark, keys),
        status="ok",
        message=None,
        protocol={"name": "sampled"},
        metrics=metrics,
        gate=None,
        warnings=(),
        environment={"device_name": "Abacus", "packages": {"torch": "2.0"}},
        sources={},
        started="2026-01-02T03:04:05+00:00",
    )
