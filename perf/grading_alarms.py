"""How often grading accuses honest submissions, and finds copies: simulated classes, by hand.

Each class is of a hundred students who measured the lab's 36 runs independently, on one of five
devices. A student's machine has a level, a scatter between 0.05% and 2%, and trends of its own
(slower at short times, in one pass); 3% of the times are disturbed, 1.5 to 4 times as long.

Usage: PYTHONPATH=workflow python perf/grading_alarms.py [CLASSES] [FIRST_SEED]
The first five classes go through every check, one for each device; all go through that for copies.
Then copies with more and more jitter are planted, one in each of `PLANTED` further classes.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections import Counter
from dataclasses import replace

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.course import FLASH2, FLOPS_RATIOS, NAIVE, Numbers
from flashlab.devices import Device, find_device
from flashlab.grading.copies import copies_between
from flashlab.grading.grade import grade
from flashlab.grading.model import Declaration, Result, Submission
from flashlab.grading.physics import bytes_moved
from flashlab.grading.points import family_of

DEVICES = (
    "NVIDIA GeForce RTX 3070",
    "NVIDIA GeForce RTX 4090",
    "NVIDIA A100-SXM4-80GB",
    "Tesla T4",
    "NVIDIA H200",
)
STUDENTS = 100
DISTURBED = 0.03
PLANTED = 20
JITTERS = (1e-5, 1e-4, 3e-4, 1e-3, 2e-3, 3e-3)
LAUNCHES = {NAIVE: {"forward": 8, "backward": 14}, FLASH2: {"forward": 1, "backward": 3}}
LAUNCH_SECONDS = 6e-6


def lab_shapes() -> list[Shape]:
    """The lab's five experiments."""
    shapes = {Shape(16, n, 32, 2048, False) for n in (128, 256, 512, 1024)}
    shapes |= {Shape(16, n, 32, 2048, causal) for n in (256, 512, 1024) for causal in (True, False)}
    shapes |= {Shape(b, 512, 32, 2048, True) for b in (4, 8, 16, 32)}
    shapes |= {Shape(16, 512, h, 2048, True) for h in (16, 32, 64)}
    shapes |= {Shape(16, 512, 32, e, True) for e in (1024, 2048, 4096)}
    return sorted(shapes)


def seconds_of(implementation: str, shape: Shape, name: str, device: Device) -> float:
    """A plausible time: the roofline with usual efficiencies, and the launches."""
    flops = costs.forward_flops(shape) * FLOPS_RATIOS[name] * (2 if shape.causal else 1)
    efficiency = 0.55 if implementation == FLASH2 else 0.35
    computing = flops / (efficiency * device.peak_tflops["float16"] * 1e12)
    moved = bytes_moved(family_of(implementation, shape), name, 0)
    moving = moved / (0.75 * device.bandwidth * 1e9)
    return max(computing, moving) + LAUNCHES[implementation][name] * LAUNCH_SECONDS


def student(number: int, device: Device, named: str, chance: random.Random) -> Submission:
    """One student's independent measurements."""
    level, scatter = chance.uniform(1, 1.15), math.exp(chance.uniform(*map(math.log, (5e-4, 2e-2))))
    slope, offset = chance.gauss(0, 0.01), chance.gauss(0, 0.01)
    results = []
    for implementation in (NAIVE, FLASH2):
        for shape in lab_shapes():
            seconds = {}
            for name in ("forward", "backward"):
                usual = seconds_of(implementation, shape, name, device)
                trend = slope * math.log(usual / 1e-3) + offset * (name == "backward")
                value = usual * level * math.exp(trend + chance.gauss(0, scatter))
                disturbed = chance.random() < DISTURBED
                seconds[name] = value * (chance.uniform(1.5, 4) if disturbed else 1)
            seconds["forward_backward"] = sum(seconds.values())
            flops = costs.forward_flops(shape)
            rates = {k: FLOPS_RATIOS[k] * flops / s / 1e12 for k, s in seconds.items()}
            memory = costs.flash2_peak_memory(shape)
            if implementation == NAIVE:
                memory = costs.naive_peak_memory(shape, device.cublas_workspaces or 0)
            said = Declaration("runs.csv", implementation, *vars_of(shape), device_name=named)
            name = f"{implementation}-{len(results):02}.json"
            results.append(Result(name, Numbers(seconds, rates, memory / costs.MIB), said))
    return Submission(f"s{number:03}", tuple(results), (), named)


def vars_of(shape: Shape) -> tuple[int, int, int, int, bool]:
    """The sizes and the mask, in order."""
    return shape.batch_size, shape.seq_len, shape.num_heads, shape.emb_dim, shape.causal


def write_class(seed: int) -> dict[str, Submission]:
    """A class of independent submissions, all on one device."""
    chance = random.Random(seed)
    named = DEVICES[seed % len(DEVICES)]
    device = find_device(named)
    assert device is not None
    return {f"s{i:03}": student(i, device, named, chance) for i in range(STUDENTS)}


def copied(source: Submission, jitter: float, chance: random.Random) -> Submission:
    """A copy of which every time is changed by up to `jitter` either way."""
    results = []
    for result in source.results:
        seconds = {
            name: result.numbers.seconds[name] * (1 + chance.uniform(-jitter, jitter))
            for name in ("forward", "backward")
        }
        seconds["forward_backward"] = sum(seconds.values())
        work = {k: result.numbers.rates[k] * s for k, s in result.numbers.seconds.items()}
        rates = {name: work[name] / value for name, value in seconds.items()}
        numbers = replace(result.numbers, seconds=seconds, rates=rates)
        results.append(replace(result, numbers=numbers))
    return replace(source, name="eve", results=tuple(results))


def plant(first: int) -> None:
    """Print in how many classes a planted copy was found, and whether anybody else was accused."""
    for jitter in JITTERS:
        found: Counter[str] = Counter()
        for seed in range(first, first + PLANTED):
            chance = random.Random(seed)
            own = write_class(seed)
            source = chance.choice(list(own))
            own["eve"] = copied(own[source], jitter, chance)
            lines = list(copies_between({name: s.results for name, s in own.items()}, {}))
            told = {line.verdict for line in lines if line.submission == "eve"}
            others = {line.submission for line in lines} - {"eve", source}
            found["fail" if "fail" in told else "warn" if "warn" in told else "missed"] += 1
            found["others accused"] += len(others)
        print(f"jitter {jitter:g}: {dict(found)}", flush=True)


def main(classes: int, first: int) -> None:
    """Grade, and print how many lines of each kind there were."""
    begin = time.monotonic()
    copies: Counter[str] = Counter()
    for seed in range(first, first + classes):
        own = write_class(seed)
        named = next(iter(own.values())).device_name
        if seed - first < len(DEVICES):
            grades = grade(own)
            found = Counter(f"{line.verdict} {line.code}" for line in grades.lines)
            shown = {k: n for k, n in found.items() if k.split()[0] in ("fail", "warn")}
            print(f"seed {seed}, {named}: {shown}", flush=True)
        lines = copies_between({name: s.results for name, s in own.items()}, {})
        copies.update(f"{line.verdict} {line.code}" for line in lines)
    pairs = classes * STUDENTS * (STUDENTS - 1) // 2
    print(f"{classes} classes, {pairs} pairs, {time.monotonic() - begin:.0f} s: {dict(copies)}")
    plant(first + classes)


if __name__ == "__main__":
    arguments = [*map(int, sys.argv[1:])]
    main(*(*arguments, *(5, 1)[len(arguments) :]))
