"""How often grading accuses honest students, and which cheats it finds: made classes, by hand.

A made student measured the lab's 36 runs alone: a level, a scatter between 0.05% and 2%, trends of
the machine (slower at short times, in one pass), and 3% of the times disturbed 1.5- to 4-fold. As
on real machines, a run's two passes and neighbouring runs deviate together (signs agree 0.2 above
chance), every GPU has a pattern of its own, and so has every version of the software.

A real student is a process of the recorded H200's, or its result of the course's protocol: all of
one card, closer together than any two students.

Usage: PYTHONPATH=workflow:tests python perf/grading_alarms.py honest|cheats [CLASSES] [FIRST_SEED]
"""

from __future__ import annotations

import copy
import math
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial

from planted.classes import MEMORY, Handed, lab, recorded
from planted.course import memory_of

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.devices import Device, find_device
from flashlab.lab5.results import RATIOS
from flashlab.lab5.words import FLASH2, NAIVE
from flashlab_grading.checks import PASSES, Line, bytes_moved
from flashlab_grading.copies import times_of
from flashlab_grading.submissions import check_alone, grade_checked

RTX_3070, RTX_4090, A100, H100, RTX_3060, H200 = (
    *("NVIDIA GeForce RTX 3070", "NVIDIA GeForce RTX 4090", "NVIDIA A100-SXM4-80GB"),
    *("NVIDIA H100 80GB HBM3", "NVIDIA GeForce RTX 3060", "NVIDIA H200"),
)
FIVE = (RTX_3070, RTX_4090, A100, RTX_3060, H200)
COARSE_STEPS = (1e-3, 2e-3, 5e-3, 10e-3, 15.6e-3)
MIXED = (RTX_3070,) * 30 + (RTX_4090,) * 10 + (A100,) * 10 + (H100,) * 6 + (RTX_3060,) * 4
BATCHES = (8, 16, 32, 64)
DISTURBED = 0.03
LAUNCHES = {NAIVE: {"forward": 8, "backward": 14}, FLASH2: {"forward": 1, "backward": 3}}
LAUNCH_SECONDS = 6e-6
VERSIONS = {"2.6": 0.6, "2.5": 0.25, "2.4": 0.1, "2.3": 0.05}

Run = tuple[str, Shape]
Class = dict[str, Handed]


@cache
def pattern(kind: str, run: Run, name: str, spread: float) -> float:
    """A factor that all machines of a kind share, another one for each run and pass."""
    return random.Random(f"{kind} {run} {name}").lognormvariate(0, spread)


def seconds_of(run: Run, name: str, device: Device) -> float:
    """A plausible time: the roofline with usual efficiencies, and the launches."""
    implementation, shape = run
    flops = costs.forward_flops(shape) * RATIOS[name] * (2 if shape.causal else 1)
    efficiency = 0.55 if implementation == FLASH2 else 0.35
    computing = flops / (efficiency * device.peak_tflops["float16"] * 1e12)
    moved = bytes_moved(run, name, 0)
    moving = moved / (0.75 * device.bandwidth * 1e9)
    launches = LAUNCHES[implementation][name] * LAUNCH_SECONDS
    return pattern(device.name, run, name, 0.05) * max(computing, moving) + launches


def run_of(own: Handed, name: str) -> Run:
    """The implementation and shape of a file."""
    run = own.runs[name]
    return run.implementation, Shape.of(run)


@cache
def usual(named: str) -> Handed:
    """The lab's runs as a GPU usually has them, with the memory that they hold there."""
    device, own = find_device(named), lab()
    assert device is not None
    for name in own.documents:
        run = run_of(own, name)
        for passed in PASSES:
            factor = seconds_of(run, passed, device) / own.seconds(name, passed)
            own.rescale(name, factor, [passed])
        own.documents[name][MEMORY] = memory_of(*run, device.cublas_workspaces or 0)
    own.name_device(named)
    return own


@dataclass(frozen=True)
class Machine:
    """What one student's machine has: a level, a scatter, trends, and a version of the software."""

    level: float
    scatter: float
    slope: float
    offset: float
    version: str

    @classmethod
    def any_of(cls, chance: random.Random, least: float = 5e-4) -> Machine:
        """A machine that scatters by `least` at least."""
        return cls(
            chance.uniform(1, 1.15),
            math.exp(chance.uniform(math.log(least), math.log(2e-2))),
            *(chance.gauss(0, 0.01), chance.gauss(0, 0.01)),
            chance.choices([*VERSIONS], [*VERSIONS.values()])[0],
        )


def student(named: str, chance: random.Random, machine: Machine | None = None) -> Handed:
    """One student's independent measurements."""
    on = machine or Machine.any_of(chance)
    wave = [chance.gauss(0, 1.5) for _ in range(4)]
    phase = chance.uniform(0, 2 * math.pi)
    own = copy.deepcopy(usual(named))
    for file in own.documents:
        run = run_of(own, file)
        shape = run[1]
        sizes = (shape.batch_size, shape.seq_len, shape.num_heads, shape.emb_dim)
        along = sum(w * math.log(size) for w, size in zip(wave, sizes, strict=True))
        common = 0.4 * chance.gauss(0, 1) + 0.4 * math.sqrt(2) * math.sin(phase + along)
        for name in PASSES:
            trend = on.slope * math.log(own.seconds(file, name) / 1e-3)
            trend += on.offset * (name == "backward")
            noise = on.scatter * (common + 0.82 * chance.gauss(0, 1))
            disturbed = chance.uniform(1.5, 4) if chance.random() < DISTURBED else 1
            version = pattern(on.version + named, run, name, 0.01)
            own.rescale(file, version * on.level * math.exp(trend + noise) * disturbed, [name])
    return own


def of_students(students: Iterable[Handed]) -> Class:
    """A class of these students."""
    return {f"s{i:03}": own for i, own in enumerate(students)}


def made(devices: Sequence[str], chance: random.Random) -> Class:
    """A class of one made student for each of these devices."""
    return of_students(student(named, chance) for named in devices)


def one_gpu(count: int, chance: random.Random) -> Class:
    """A class of so many made students with the same GPU."""
    return made((chance.choice(FIVE),) * count, chance)


def undeclared(chance: random.Random) -> Class:
    """A class of several GPUs that are not named."""
    own = made(MIXED, chance)
    for handed in own.values():
        handed.name_device("")
    return own


def real(chance: random.Random) -> Class:
    """The recorded students, and made ones with the same GPU."""
    return of_students([*recorded(), *(student(H200, chance) for _ in range(10))])


def by_coarse_clocks(chance: random.Random) -> Class:
    """Thirty students whose times are means of 30 calls by clocks of 1 to 15.6 ms."""
    students = []
    for i in range(30):
        own, step = student(FIVE[i % 5], chance), COARSE_STEPS[i % 5]
        for file in own.documents:
            for name in PASSES:
                total = 30 * own.seconds(file, name)
                ticks = max(1, int(total / step + chance.random()))
                own.rescale(file, ticks * step / total, [name])
        students.append(own)
    return of_students(students)


CLASSES: dict[str, Callable[[random.Random], Class]] = {
    "twenty students of each of five devices": partial(made, FIVE * 20),
    "the same sixty students, no device declared": undeclared,
    "4 real and 10 made students, H200": real,
    "clocks of 1 to 15.6 ms, 30 students": by_coarse_clocks,
}


def alarms(own: Class) -> list[Line]:
    """What all checks say against a class."""
    checked = [check_alone(handed.submission(name)) for name, handed in own.items()]
    owns = grade_checked(checked, times_of(()).assign(owner=""))
    lines = (line for own in owns for line in own.lines)
    return [line for line in lines if line.verdict in ("fail", "warn")]


def count_honest(classes: int, first: int) -> None:
    """Print how many honest students fail or are warned, and what is said of them."""
    for what, make in CLASSES.items():
        begin, students = time.monotonic(), 0
        told: set[tuple[str, int, str]] = set()
        codes: Counter[str] = Counter()
        for seed in range(first, first + classes):
            own = make(random.Random(seed))
            students += len(own)
            lines = alarms(own)
            told |= {(line.verdict, seed, line.submission) for line in lines}
            codes.update(f"{line.verdict} {line.code}" for line in lines)
        counts = Counter(verdict for verdict, *_ in told)
        taken = time.monotonic() - begin
        print(f"{what}: of {students} students {dict(counts)}; {dict(codes)}; {taken:.0f} s",
              flush=True)  # fmt: skip


# Cheats: what eve hands in, by her own measurements, the class, and the one whom she copies

Cheat = Callable[[Handed, Class, str, random.Random], Handed]


def jittered(jitter: float, level: float = 1.0) -> Cheat:
    """A copy of which every time is changed by up to `jitter` either way."""
    return lambda own, others, source, chance: others[source].jittered(jitter, chance, level)


def mean_of(count: int) -> Cheat:
    """Means of so many others' times."""

    def cheat(own: Handed, others: Class, source: str, chance: random.Random) -> Handed:
        sources = chance.sample([*others.values()], count)
        made = copy.deepcopy(sources[0])
        for name in made.documents:
            documents = (each.documents[name] for each in sources)
            made.derive(name, lambda *seconds: statistics.fmean(seconds), *documents)
        return made

    return cheat


def scaled(factor: float, files: Callable[[Handed, random.Random], Iterable[str]]) -> Cheat:
    """Some of the own times multiplied."""

    def cheat(own: Handed, others: Class, source: str, chance: random.Random) -> Handed:
        for name in files(own, chance):
            own.rescale(name, factor)
        return own

    return cheat


def one_run(own: Handed, chance: random.Random) -> list[str]:
    """One run of at least 1 ms."""
    return [chance.choice([n for n in own.documents if own.seconds(n, "forward") > 1e-3])]


def one_experiment(own: Handed, chance: random.Random) -> list[str]:
    """The batch sizes of one implementation."""
    implementation = chance.choice((NAIVE, FLASH2)).lower()
    return [f"{implementation}-b{b}-n512-h32-e2048-causal" for b in BATCHES]


def causal_of_full(factor: float, jitter: float = 0.0) -> Cheat:
    """FlashAttention-2's causal runs, computed from those without the mask."""

    def cheat(own: Handed, others: Class, source: str, chance: random.Random) -> Handed:
        def law(full: float) -> float:
            return factor * full * (1 + chance.uniform(-jitter, jitter))

        for n in (256, 512, 1024):
            full = own.document(f"flash2-b16-n{n}-h32-e2048-full")
            own.derive(f"flash2-b16-n{n}-h32-e2048-causal", law, full)
        return own

    return cheat


CHEATS: dict[str, Cheat] = {
    "an exact copy": jittered(0.0),
    "a copy, all times × 0.97": jittered(0.0, 0.97),
    "a copy, each time changed by up to 0.01%": jittered(1e-4),
    "by up to 0.03%": jittered(3e-4),
    "means of two others": mean_of(2),
    "means of three others": mean_of(3),
    "one run 2.2 times faster": scaled(1 / 2.2, one_run),
    "one run 2.2 times slower": scaled(2.2, one_run),
    "one experiment twice as fast": scaled(0.5, one_experiment),
    "causal runs: full × 0.5": causal_of_full(0.5),
    "causal runs: full × 0.57": causal_of_full(0.57),
    "the same with 0.1% of jitter": causal_of_full(0.57, 1e-3),
    "all times × 0.4": scaled(0.4, lambda own, chance: [*own.documents]),
    "milliseconds for seconds": scaled(1000.0, lambda own, chance: [*own.documents]),
}


def count_cheats(classes: int, first: int) -> None:
    """Print of each cheat in how many classes it fails, warns or is missed, and by which checks.

    A line counts if it would not be told of eve's honest measurements, nor of whom she copied.
    """
    for what, cheat in CHEATS.items():
        found: Counter[str] = Counter()
        codes: Counter[str] = Counter()
        for seed in range(first, first + classes):
            chance = random.Random(seed)
            own = one_gpu(25, chance)
            source = chance.choice([*own])
            eve = student(own[source].submission(source).device or "", chance)
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
