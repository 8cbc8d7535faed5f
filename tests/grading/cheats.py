"""Cheats in one submission, each with the check that alone catches it."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec

from grading.conftest import FLASH, LONG, NAIVE
from planted.classes import MEMORY, PASSES

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape

Change = Callable[[Any], None]
P = ParamSpec("P")
CAUSAL = "flash2-b16-n512-h32-e2048-causal"
FAST = "flash2-b16-n1024-h32-e2048-full"


def later(change: Callable[Concatenate[Any, P], None]) -> Callable[P, Change]:
    """A function that changes a submission, as one of the other arguments that gives a `Change`."""
    return lambda *args, **kwargs: lambda own: change(own, *args, **kwargs)


@later
def times(own: Any, factor: float, text: str, *keys: str) -> None:
    """A number of a file multiplied."""
    inner = own.document(text)
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] *= factor


@later
def held(own: Any, text: str, mib: float) -> None:
    """So much more peak memory."""
    own.document(text)[MEMORY] += mib


@later
def declared(own: Any, text: str, column: int, cell: str) -> None:
    """Another cell in the row of a file."""
    own.rows[own.file(text)][column] = cell


@later
def rescaled(own: Any, *texts: str, by: float, **which: Any) -> None:
    """Runs (all if none is named) that took so many times as long, and all that follows."""
    for text in texts or own.documents:
        own.rescale(text, by, **which)


def a_missing_key(own: Any) -> None:
    del own.document(FLASH)["backward"]


def a_sum(own: Any) -> None:
    both = own.document(FLASH)["forward_backward"]
    both["time(s)"] *= 0.99
    both["FLOPS(TFLOPs/s)"] /= 0.99


def memory_of_the_other(own: Any) -> None:
    run = own.runs[own.file(NAIVE)]
    own.document(NAIVE)[MEMORY] = costs.flash2_peak_memory(Shape.of(run)) / costs.MIB


def declared_twice(own: Any) -> None:
    own.rows["again"] = list(own.rows[own.file(FLASH)])
    own.rows["again"][2] = "64"


def without_the_heads(own: Any) -> None:
    for name in list(own.documents):
        if Shape.of(own.runs[name]).num_heads != 32:
            del own.documents[name], own.rows[name]


# Times computed from one's own


def with_another_label(own: Any) -> None:
    """Twins in FLOPs and memory: (B, H, E) and (B/2, 2H, 2E); a digit is changed, too."""
    own.documents["twin.json"] = own.jittered(5e-8, random.Random(3)).document(CAUSAL)
    own.rows["twin.json"] = ["twin.json", "Flash2", "8", "512", "64", "4096", "true", ""]


@later
def from_another(own: Any, text: str, source: str, factor: float) -> None:
    """Times that are another run's times a factor."""
    own.derive(text, lambda seconds: factor * seconds, own.document(source))


# Forged records


def sampled(document: Any, passed: str, factors: Sequence[float]) -> None:
    """Samples of a pass in its record: its time times these factors, and their median."""
    samples = [1e3 * document[passed]["time(s)"] * factor for factor in factors]
    measured = {"samples": samples, "value": statistics.median(samples)} if samples else {}
    document["record"]["metrics"][f"{passed}_time"] |= measured


@later
def record(own: Any, samples: Sequence[float] = (), **run: Any) -> None:
    """A record in one file with no row: its forward samples over its time, and what it claims."""
    own.rows, document = None, own.document(FLASH)
    document["record"] = own.record(own.file(FLASH))
    document["record"]["run"] |= run
    sampled(document, "forward", samples)


def record_and_row(own: Any) -> None:
    rows = own.rows
    record(seq_len=256, batch_size=64)(own)  # as many FLOPs, and as much memory
    own.rows = rows


def noise(seed: int, count: int = 21, spread: float = 0.01) -> list[float]:
    """Factors whose median is 1."""
    chance = random.Random(seed)
    return [1.0, *(1 + s * chance.uniform(0, spread) for s in (1, -1) * (count // 2))]


@later
def records(own: Any, make: Callable[[int], list[float]] = noise) -> None:
    """A record in each file, with samples in both passes."""
    for i, (name, document) in enumerate(own.documents.items()):
        document["record"] = own.record(name, protocol={"name": "sampled"})
        for j, passed in enumerate(PASSES):
            sampled(document, passed, make(2 * i + j))


CHEATS: dict[str, tuple[Change, str]] = {
    "a key left out": (a_missing_key, "fail form.missing_key"),
    "a rate": (times(1.01, FLASH, "backward", "FLOPS(TFLOPs/s)"), "fail arithmetic.flops"),
    "a time": (times(0.99, FLASH, "forward", "time(s)"), "fail arithmetic.flops"),
    "times that do not add up": (a_sum, "fail arithmetic.sum"),
    "FlashAttention's memory": (memory_of_the_other, "fail identity.implementation"),
    "512 bytes more": (held(FLASH, 2**-11), "fail identity.memory"),
    "another GPU's workspace": (held(NAIVE, 16.25 - 64), "fail identity.workspace"),
    "another implementation": (declared(FLASH, 1, "Pytorch"), "fail identity.implementation"),
    "another width": (declared(FLASH, 5, "4096"), "fail identity.flops"),
    "the other mask": (declared(NAIVE, 6, "true"), "fail identity.flops"),
    "a file declared as two runs": (declared_twice, "fail form.declared_twice"),
    "a GPU's memory on a CPU": (
        lambda own: own.name_device("AMD EPYC (2 CPUs)"), "warn identity.cuda_memory"
    ),
    "beyond the ceiling": (rescaled(FAST, by=0.2), "fail physics.rate"),
    "beyond the memory": (
        rescaled("pytorch-b16-n1024-h32-e2048-full", by=0.12), "fail physics.bytes"
    ),
    "slower than more work": (rescaled(LONG, by=2.5), "warn plausibility.order"),
    "the same under 1 ms": (rescaled(CAUSAL, by=3), "warn plausibility.order"),
    "a slow backward pass": (
        rescaled("flash2-b64-n512-h32-e2048-causal", by=3, names=["backward"]),
        "warn plausibility.ratio",
    ),
    "an experiment left out": (without_the_heads, "fail coverage.missing"),
    "another label": (with_another_label, "fail copies.within"),
    "a constant rate": (from_another(FLASH, FAST, 0.25), "fail copies.proportional"),
    "causal, a share of full": (
        from_another(FAST.replace("full", "causal"), FAST, 0.57), "fail copies.proportional"
    ),
    "a record of the other": (record(implementation="Pytorch"), "fail identity.implementation"),
    "a record of a shape of the same FLOPs": (
        record(batch_size=4, seq_len=1024), "fail identity.shape"
    ),
    "a record of no shape": (record(num_heads=0), "fail form.record"),
    "a record and a row that differ": (record_and_row, "fail form.declared_twice"),
    "samples of another time": (record([1.1] * 20), "fail arithmetic.samples"),
    "too many samples": (record([1.1] * 20_001), "fail form.many_samples"),
    "equal samples": (records(lambda i: [1.0] * 21), "fail plausibility.identical"),
    "one noise": (records(lambda i: noise(1)), "fail plausibility.one_noise"),
}  # fmt: skip
