#!/usr/bin/env python3
"""The course's benchmark script: the same flags, defaults and JSON keys, measured by FlashLab.

One run, by the protocol `lab5` (the mean of back-to-back calls). The JSON file has the script's
four keys, and beside them `record`: the run, its environment, and how it went.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "workflow"))

from flashlab import machine
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import (
    Implementations,
    describe_unknown,
    find_implementations,
)
from flashlab.measuring.supervise import MeasuringError, measure_run
from flashlab.plan import identity
from flashlab.usage import new_file

TIMEOUT_SECONDS = 3600
NUMBERS = {
    "batch_size": (32, "batch size"),
    "seq_len": (1024, "sequence length"),
    "num_heads": (32, "attention heads"),
    "emb_dim": (2048, "embedding size"),
    "repeats": (30, "calls averaged"),
}


def positive(text: str) -> int:
    """A whole number of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, found {value}")
    return value


def json_file(text: str) -> Path:
    """A path that ends in .json and can be written."""
    if Path(text).suffix != ".json":
        raise argparse.ArgumentTypeError(f"{text} must end in .json")
    return new_file(text)


def parse(implementations: Implementations) -> argparse.Namespace:
    """The command line; a wrong one ends the process with status 2 and one message."""
    parser = argparse.ArgumentParser(description="Benchmark one attention implementation.")
    for name, (default, what) in NUMBERS.items():
        parser.add_argument(f"--{name}", type=positive, default=default, help=f"{what} ({default})")
    known, output = ", ".join(implementations), "benchmark_result.json"
    parser.add_argument("--impl", default="Flash2", help=f"one of {known} (Flash2)")
    parser.add_argument("--causal", action="store_true", help="use a causal mask")
    parser.add_argument("--output", type=json_file, default=output, help=f"JSON file ({output})")
    own = parser.parse_args()
    if own.impl not in implementations:
        parser.error(f"argument --impl: {describe_unknown(own.impl, implementations)}")
    if own.emb_dim % own.num_heads:
        said = f"{own.emb_dim} is not divisible by --num_heads {own.num_heads}"
        parser.error(f"argument --emb_dim: {said}")
    return own


def main() -> int:
    """Measure and write; 0 when there are numbers, 1 when the record says why there are none."""
    implementations, device = find_implementations(), machine.detect_device("auto")
    own = parse(implementations)
    implementation = implementations[own.impl]
    shape = Shape(own.batch_size, own.seq_len, own.num_heads, own.emb_dim, own.causal)
    run = attention_run(own.impl, shape, ATTENTION.dtypes[device], device)
    protocol = {"name": "lab5", "repeats": own.repeats, "timeout_s": TIMEOUT_SECONDS}
    decided_by = identity.identity(ATTENTION, run, protocol, implementation)
    sources = identity.sources(decided_by, implementation)
    try:
        record = measure_run(ATTENTION, run, protocol, implementation, sources, own.output)
    except MeasuringError as error:
        print(f"{run}: {error}", file=sys.stderr)
        return 1
    if record.status != "ok":
        print(f"{run}: {record.status}:", *str(record.message).split(), file=sys.stderr)
        return 1
    keys = record.top_level_keys()
    for name in ("forward", "backward", "forward_backward"):
        seconds, rate = keys[name]["time(s)"], keys[name]["FLOPS(TFLOPs/s)"]
        print(f"{name}: {seconds:.4g} s, {rate:.3g} TFLOPs/s")
    print(f"peak memory: {keys['peak_memory_usage(MB)']} MB; written to {own.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
