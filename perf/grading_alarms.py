"""How often grading accuses honest students, and which cheats it finds: made classes, by hand.

A made student measured the lab's 36 runs alone: a level, a scatter between 0.05% and 2%, trends of
the machine (slower at short times, in one pass), and 3% of the times disturbed 1.5- to 4-fold. As
on real machines, a run's two passes and neighbouring runs deviate together (signs agree 0.2 above
chance), every GPU has a pattern of its own, and so has every version of the software.

Usage: PYTHONPATH=workflow:tests python perf/grading_alarms.py honest|cheats [CLASSES] [FIRST_SEED]
"""

from __future__ import annotations

import copy
import math
import random
import statistics
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache

from grading.conftest import Handed, recorded
from planted.course import memory_of

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.devices import find_device
from flashlab.lab5.results import RATIOS
from flashlab.lab5.words import FLASH2, MEMORY, NAIVE
from flashlab_grading.checks import PASSES, Line, bytes_moved
from flashlab_grading.copies import times_of
from flashlab_grading.submissions import check_alone, grade_checked

FIVE = (
    *("NVIDIA GeForce RTX 3070", "NVIDIA GeForce RTX 4090", "NVIDIA A100-SXM4-80GB"),
    *("NVIDIA GeForce RTX 3060", "NVIDIA H200"),
)
DISTURBED, LAUNCH_SECONDS = 0.03, 6e-6
LAUNCHES = {NAIVE: {"forward": 8, "backward": 14}, FLASH2: {"forward": 1, "backward": 3}}
VERSIONS = {"2.6": 0.6, "2.5": 0.25, "2.4": 0.1, "2.3": 0.05}

Run = tuple[str, Shape]
Class = dict[str, Handed]


@cache
def pattern(kind: str, run: Run, name: str, spread: float) -> float:
    """A factor that all machines of a kind share, another one for each run and pass."""
    return random.Random(f"{kind} {run} {name}").lognormvariate(0, spread)


def run_of(own: Handed, name: str) -> Run:
    """The implementation and shape of a file."""
    return own.runs[name].implementation, Shape.of(own.runs[name])


@cache
def usual(named: str) -> Handed:
    """The lab's runs as a GPU usually has them: the roofline with usual efficiencies."""
    device, own = find_device(named), copy.deepcopy(recorded())
    for file in own.documents:
        run = implementation, shape = run_of(own, file)
        peak = (0.55 if implementation == FLASH2 else 0.35) * device.peak_tflops["float16"] * 1e12
        for name in PASSES:
            flops = costs.forward_flops(shape) * RATIOS[name] * (2 if shape.causal else 1)
            bound = max(flops / peak, bytes_moved(run, name, 0) / (0.75e9 * device.bandwidth))
            seconds = pattern(device.name, run, name, 0.05) * bound
            seconds += LAUNCHES[implementation][name] * LAUNCH_SECONDS
            own.rescale(file, seconds / own.seconds(file, name), [name])
        own.documents[file][MEMORY] = memory_of(*run, device.cublas_workspaces or 0)
    own.name_device(named)
    return own


def student(named: str, chance: random.Random) -> Handed:
    """One student's independent measurements."""
    level, scatter = chance.uniform(1, 1.15), 5e-4 * 40 ** chance.random()
    slope, offset = chance.gauss(0, 0.01), chance.gauss(0, 0.01)
    version = chance.choices([*VERSIONS], [*VERSIONS.values()])[0]
    wave, phase = [chance.gauss(0, 1.5) for _ in range(4)], chance.uniform(0, 2 * math.pi)
    own = copy.deepcopy(usual(named))
    for file in own.documents:
        run = _, shape = run_of(own, file)
        sizes = (shape.batch_size, shape.seq_len, shape.num_heads, shape.emb_dim)
        along = sum(w * math.log(size) for w, size in zip(wave, sizes, strict=True))
        common = 0.4 * chance.gauss(0, 1) + 0.4 * math.sqrt(2) * math.sin(phase + along)
        for name in PASSES:
            trend = slope * math.log(own.seconds(file, name) / 1e-3) + offset * (name == "backward")
            noise = scatter * (common + 0.82 * chance.gauss(0, 1))
            disturbed = chance.uniform(1.5, 4) if chance.random() < DISTURBED else 1
            factor = level * pattern(version + named, run, name, 0.01) * disturbed
            own.rescale(file, factor * math.exp(trend + noise), [name])
    return own


def alarms(own: Class) -> list[Line]:
    """What all checks say against a class."""
    checked = [check_alone(handed.submission(name)) for name, handed in own.items()]
    graded = grade_checked(checked, times_of(()).assign(owner=""))
    return [x for each in graded for x in each.lines if x.verdict in ("fail", "warn")]


def count_honest(classes: int, first: int) -> None:
    """Print how many honest students fail or are warned, and what is said of them."""
    told, codes = set[tuple[str, int, str]](), Counter[str]()
    for seed in range(first, first + classes):
        chance = random.Random(seed)
        lines = alarms({f"s{i:03}": student(gpu, chance) for i, gpu in enumerate(FIVE * 20)})
        told |= {(line.verdict, seed, line.submission) for line in lines}
        codes.update(f"{line.verdict} {line.code}" for line in lines)
    counts = dict(Counter(verdict for verdict, *_ in told))
    print(f"of {100 * classes} students, twenty of each of five devices: {counts}; {dict(codes)}")


def mean_of(others: Class, count: int, chance: random.Random) -> Handed:
    """Means of the times of so many others."""
    sources = chance.sample([*others.values()], count)
    made = copy.deepcopy(sources[0])
    for name in made.documents:
        documents = (each.documents[name] for each in sources)
        made.derive(name, lambda *seconds: statistics.fmean(seconds), *documents)
    return made


def one_scaled(own: Handed, factor: float, chance: random.Random) -> Handed:
    """The times of one run of at least 1 ms multiplied."""
    long = [name for name in own.documents if own.seconds(name, "forward") > 1e-3]
    own.rescale(chance.choice(long), factor)
    return own


def causal_of_full(own: Handed) -> Handed:
    """FlashAttention-2's causal runs, computed from those without the mask."""
    for n in (256, 512, 1024):
        full = own.document(f"flash2-b16-n{n}-h32-e2048-full")
        own.derive(f"flash2-b16-n{n}-h32-e2048-causal", lambda seconds: 0.57 * seconds, full)
    return own


CHEATS: dict[str, Callable[[Handed, Class, str, random.Random], Handed]] = {
    "an exact copy": lambda own, others, source, c: others[source].jittered(0),
    "a copy, all times × 0.97": lambda own, others, source, c: others[source].jittered(0, 0.97),
    "each changed by up to 0.01%": lambda own, others, source, c: others[source].jittered(
        1e-4, seed=c.getrandbits(32)
    ),
    "means of two others": lambda own, others, _, c: mean_of(others, 2, c),
    "means of three others": lambda own, others, _, c: mean_of(others, 3, c),
    "one run 2.2 times faster": lambda own, others, _, c: one_scaled(own, 1 / 2.2, c),
    "one run 2.2 times slower": lambda own, others, _, c: one_scaled(own, 2.2, c),
    "causal runs: full × 0.57": lambda own, *_: causal_of_full(own),
    "all times × 0.4": lambda own, others, _, c: own.jittered(0, 0.4),
}
"""What eve hands in, by her own measurements, the class, and the one whom she copies."""


def count_cheats(classes: int, first: int) -> None:
    """Print of each cheat in how many classes it fails, warns or is missed, and by which checks.

    A line counts if it would not be told of eve's honest measurements, nor of whom she copied.
    """
    for what, cheat in CHEATS.items():
        found, codes = Counter[str](), Counter[str]()
        for seed in range(first, first + classes):
            chance = random.Random(seed)
            gpu = chance.choice(FIVE)
            own = {f"s{i:03}": student(gpu, chance) for i in range(25)}
            source, eve = chance.choice([*own]), student(gpu, chance)
            told: list[dict[tuple[str, str], str]] = []
            for whose in ("eve", source), ("eve",):
                lines = alarms({**own, "eve": eve})
                told.append({(x.file, x.code): x.verdict for x in lines if x.submission in whose})
                eve = cheat(eve, own, source, chance)
            new = {key: verdict for key, verdict in told[1].items() if key not in told[0]}
            found[next((v for v in ("fail", "warn") if v in new.values()), "missed")] += 1
            codes.update({code for _, code in new})
        print(f"{what}: {dict(found)}; {dict(codes)}", flush=True)


if __name__ == "__main__":
    what, *numbers = sys.argv[1:]
    {"honest": count_honest, "cheats": count_cheats}[what](*([*map(int, numbers), 20, 1][:2]))
