"""How often grading accuses honest students, and which cheats it finds: made classes, by hand.

A made student measured the lab's 36 runs alone: a level, a scatter between 0.05% and 2%, trends of
the machine (slower at short times, in one pass), and 3% of the times disturbed 1.5- to 4-fold. As
on real machines, a run's two passes and neighbouring runs deviate together (signs agree 0.2 above
chance), every GPU has a pattern of its own, and so has every version of the software.

A real student is a process of the recorded H200's, or its result of the course's protocol: all of
one card, closer together than any two students.

Usage: PYTHONPATH=workflow python perf/grading_alarms.py honest|cheats [CLASSES] [FIRST_SEED]
"""

from __future__ import annotations

import math
import random
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.course.declaration import of_record
from flashlab.course.identity import family_of
from flashlab.course.results import FLOPS_RATIOS, read_result
from flashlab.course.words import FLASH2, NAIVE
from flashlab.devices import Device, find_device
from flashlab.plan.datasets import read_dataset
from flashlab_grading.grade import check_alone, grade_checked
from flashlab_grading.model import PASSES, Line, Result, Submission
from flashlab_grading.physics import bytes_moved

RTX_3070, RTX_4090, A100, H100, RTX_3060, H200 = (
    *("NVIDIA GeForce RTX 3070", "NVIDIA GeForce RTX 4090", "NVIDIA A100-SXM4-80GB"),
    *("NVIDIA H100 80GB HBM3", "NVIDIA GeForce RTX 3060", "NVIDIA H200"),
)
ONE_EACH = (RTX_3070, RTX_4090, A100, RTX_3060, H200)
MIXED = (RTX_3070,) * 30 + (RTX_4090,) * 10 + (A100,) * 10 + (H100,) * 6 + (RTX_3060,) * 4
DATASET = Path(__file__).parents[1] / "data" / "h200"
BATCHES = (8, 16, 32, 64)
DISTURBED = 0.03
LAUNCHES = {NAIVE: {"forward": 8, "backward": 14}, FLASH2: {"forward": 1, "backward": 3}}
LAUNCH_SECONDS = 6e-6
VERSIONS = {"2.6": 0.6, "2.5": 0.25, "2.4": 0.1, "2.3": 0.05}

Run = tuple[str, Shape]
Runs = dict[Run, Result]
Class = dict[str, Submission]


def with_times(result: Result, factors: Mapping[str, float]) -> Result:
    """The file with its times multiplied, and the rates that follow."""
    seconds = {name: result.numbers.seconds[name] * factors[name] for name in PASSES}
    seconds["forward_backward"] = sum(seconds.values())
    work = {k: result.numbers.rates[k] * s for k, s in result.numbers.seconds.items()}
    rates = {name: work[name] / value for name, value in seconds.items()}
    return replace(result, numbers=replace(result.numbers, seconds=seconds, rates=rates))


@cache
def recorded() -> list[Runs]:
    """The lab's runs as recorded on an H200: by the course's protocol, and by each process."""
    found: dict[str, list[Result]] = defaultdict(list)
    for entry in read_dataset(DATASET).entries:
        protocol = entry.protocol["name"]
        if entry.run.implementation in (NAIVE, FLASH2) and protocol != "counters":
            read = read_result(entry.path.read_bytes())
            assert read.claim
            declared = of_record(read.claim)
            result = replace(Result.of(entry.path.name, read, declared), claim=None)
            found[f"{protocol} {declared.describe()}"].append(result)
    sittings: list[Runs] = [{}, {}, {}, {}]
    for key, results in found.items():
        first = results[0].declaration
        assert first.implementation and first.shape
        if f"lab5 {first.describe()}" in found:  # one of the lab's
            for sitting, result in zip(
                sittings[:1] if key.startswith("lab5") else sittings[1:], results, strict=False
            ):
                sitting[first.implementation, first.shape] = result
    return sittings


@cache
def pattern(kind: str, run: Run, name: str, spread: float) -> float:
    """A factor that all machines of a kind share, another one for each run and pass."""
    return random.Random(f"{kind} {run} {name}").lognormvariate(0, spread)


def seconds_of(run: Run, name: str, device: Device) -> float:
    """A plausible time: the roofline with usual efficiencies, and the launches."""
    implementation, shape = run
    flops = costs.forward_flops(shape) * FLOPS_RATIOS[name] * (2 if shape.causal else 1)
    efficiency = 0.55 if implementation == FLASH2 else 0.35
    computing = flops / (efficiency * device.peak_tflops["float16"] * 1e12)
    moved = bytes_moved(family_of(implementation, shape), name, 0)
    moving = moved / (0.75 * device.bandwidth * 1e9)
    launches = LAUNCHES[implementation][name] * LAUNCH_SECONDS
    return pattern(device.name, run, name, 0.05) * max(computing, moving) + launches


@cache
def usual(named: str) -> Runs:
    """The lab's runs as a GPU usually has them, with the memory that they hold there."""
    device, found = find_device(named), {}
    assert device is not None
    for run, result in recorded()[0].items():
        seconds = result.numbers.seconds
        made = with_times(result, {n: seconds_of(run, n, device) / seconds[n] for n in PASSES})
        memory = costs.flash2_peak_memory(run[1])
        if run[0] == NAIVE:
            memory = costs.naive_peak_memory(run[1], device.cublas_workspaces or 0)
        numbers = replace(made.numbers, peak_mib=memory / costs.MIB)
        declared = replace(made.declaration, device_name=named)
        found[run] = replace(made, numbers=numbers, declaration=declared)
    return found


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


def student(named: str, chance: random.Random, machine: Machine | None = None) -> Runs:
    """One student's independent measurements."""
    on = machine or Machine.any_of(chance)
    wave = [chance.gauss(0, 1.5) for _ in range(4)]
    phase = chance.uniform(0, 2 * math.pi)
    runs = {}
    for run, result in usual(named).items():
        shape = run[1]
        sizes = (shape.batch_size, shape.seq_len, shape.num_heads, shape.emb_dim)
        along = sum(w * math.log(size) for w, size in zip(wave, sizes, strict=True))
        common = 0.4 * chance.gauss(0, 1) + 0.4 * math.sqrt(2) * math.sin(phase + along)
        factors = {}
        for name in PASSES:
            trend = on.slope * math.log(result.numbers.seconds[name] / 1e-3)
            trend += on.offset * (name == "backward")
            noise = on.scatter * (common + 0.82 * chance.gauss(0, 1))
            disturbed = chance.uniform(1.5, 4) if chance.random() < DISTURBED else 1
            version = pattern(on.version + named, run, name, 0.01)
            factors[name] = version * on.level * math.exp(trend + noise) * disturbed
        runs[run] = with_times(result, factors)
    return runs


def of_students(students: Iterable[Runs]) -> Class:
    """A class of these students' results."""
    return {f"s{i:03}": submission_of(f"s{i:03}", runs) for i, runs in enumerate(students)}


def submission_of(name: str, runs: Runs) -> Submission:
    """A student's submission, of the device that the files name."""
    results = tuple(runs.values())
    return Submission(name, results, (), results[0].declaration.device_name)


def made(devices: Sequence[str], chance: random.Random) -> Class:
    """A class of one made student for each of these devices."""
    return of_students(student(named, chance) for named in devices)


def one_gpu(count: int, chance: random.Random) -> Class:
    """A class of so many made students with the same GPU."""
    return made((chance.choice(ONE_EACH),) * count, chance)


def undeclared(chance: random.Random) -> Class:
    """A class of several GPUs that are not named."""
    runs = [student(named, chance) for named in MIXED]
    return of_students(
        {k: replace(r, declaration=replace(r.declaration, device_name=None)) for k, r in x.items()}
        for x in runs
    )


def real(chance: random.Random) -> Class:
    """The recorded students, and made ones with the same GPU."""
    return of_students([*recorded(), *(student(H200, chance) for _ in range(10))])


def two_a_machine(least: float, chance: random.Random) -> Class:
    """Two students on each machine, in two sessions whose levels differ by 0.3%."""
    named = chance.choice(ONE_EACH)
    students = []
    for _ in range(25):
        machine = Machine.any_of(chance, least)
        for _ in range(2):
            drifted = replace(machine, level=machine.level * chance.lognormvariate(0, 3e-3))
            students.append(student(named, chance, drifted))
    return of_students(students)


CLASSES: dict[str, Callable[[random.Random], Class]] = {
    "one GPU, 100 students": partial(one_gpu, 100),
    "30 RTX 3070, 10 RTX 4090, 10 A100, 6 H100, 4 RTX 3060": partial(made, MIXED),
    "the same, no device declared": undeclared,
    "four GPUs of twelve each": partial(made, (RTX_3070, RTX_4090, A100, H100) * 12),
    "seven students, one GPU": partial(one_gpu, 7),
    "4 real and 10 made students, H200": real,
    "one GPU, two students on each of 25 machines": partial(two_a_machine, 5e-4),
    "the same, as quiet as the H200 at most": partial(two_a_machine, 2.5e-3),
}


def alarms(own: Class) -> list[Line]:
    """What all checks say against a class."""
    checked = [check_alone(submission) for submission in own.values()]
    lines = grade_checked(checked, (), "", {}).lines
    return [line for line in lines if line.verdict in ("fail", "warn")]


def count_honest(classes: int, first: int) -> None:
    """Print how many honest students are accused of copying, and what else is said of them."""
    for what, make in CLASSES.items():
        begin, students = time.monotonic(), 0
        copies: Counter[str] = Counter()
        codes: Counter[str] = Counter()
        for seed in range(first, first + classes):
            own = make(random.Random(seed))
            students += len(own)
            lines = alarms(own)
            copies.update(v for v, _ in {(x.verdict, x.submission) for x in lines
                                         if x.check == "copies"})  # fmt: skip
            codes.update(f"{line.verdict} {line.code}" for line in lines)
        taken = time.monotonic() - begin
        print(f"{what}: of {students} students {dict(copies)} of copying; {dict(codes)}; "
              f"{taken:.0f} s", flush=True)  # fmt: skip


# Cheats: each alters eve's own runs, with those of somebody in the class

Cheat = Callable[[Runs, Class, str, random.Random], None]


def jittered(jitter: float, level: float = 1.0) -> Cheat:
    """A copy of which every time is changed by up to `jitter` either way."""

    def cheat(runs: Runs, own: Class, source: str, chance: random.Random) -> None:
        for key, result in zip(runs, own[source].results, strict=True):
            factors = {n: level * (1 + chance.uniform(-jitter, jitter)) for n in PASSES}
            runs[key] = with_times(result, factors)

    return cheat


def computed_of(law: Callable[[float], float]) -> Cheat:
    """A copy of which every time is a function of the source's, in seconds."""

    def cheat(runs: Runs, own: Class, source: str, chance: random.Random) -> None:
        for key, result in zip(runs, own[source].results, strict=True):
            seconds = result.numbers.seconds
            runs[key] = with_times(result, {n: law(seconds[n]) / seconds[n] for n in PASSES})

    return cheat


def mean_of(mean: Callable[..., float], count: int) -> Cheat:
    """Means of so many others' times."""

    def cheat(runs: Runs, own: Class, source: str, chance: random.Random) -> None:
        others = chance.sample([submission.results for submission in own.values()], count)
        for key, *results in zip(runs, *others, strict=True):
            seconds = [result.numbers.seconds for result in results]
            factors = {n: mean(*(s[n] for s in seconds)) / seconds[0][n] for n in PASSES}
            runs[key] = with_times(results[0], factors)

    return cheat


def scaled(factor: float, keys: Callable[[Runs, random.Random], Iterable[Run]]) -> Cheat:
    """Some of the own times multiplied."""

    def cheat(runs: Runs, own: Class, source: str, chance: random.Random) -> None:
        for key in keys(runs, chance):
            runs[key] = with_times(runs[key], dict.fromkeys(PASSES, factor))

    return cheat


def one_run(runs: Runs, chance: random.Random) -> list[Run]:
    """One run of at least 1 ms."""
    return [chance.choice([k for k, r in runs.items() if r.numbers.seconds["forward"] > 1e-3])]


def one_experiment(runs: Runs, chance: random.Random) -> list[Run]:
    """The batch sizes of one implementation."""
    implementation = chance.choice((NAIVE, FLASH2))
    return [(implementation, Shape(b, 512, 32, 2048, True)) for b in BATCHES]


def everything(runs: Runs, chance: random.Random) -> list[Run]:
    """All runs."""
    return [*runs]


def computed(
    targets: Mapping[Run, Sequence[Run]], mean: Callable[..., float], jitter: float = 0.0
) -> Cheat:
    """Runs whose times are computed from those of other own runs."""

    def cheat(runs: Runs, own: Class, source: str, chance: random.Random) -> None:
        for key, sources in targets.items():
            factors = {}
            for name in PASSES:
                values = [runs[other].numbers.seconds[name] for other in sources]
                wanted = mean(*values) * (1 + chance.uniform(-jitter, jitter))
                factors[name] = wanted / runs[key].numbers.seconds[name]
            runs[key] = with_times(runs[key], factors)

    return cheat


CAUSAL = {
    (FLASH2, Shape(16, n, 32, 2048, True)): [(FLASH2, Shape(16, n, 32, 2048, False))]
    for n in (256, 512, 1024)
}
_, LOW, MIDDLE, HIGH = ((NAIVE, Shape(b, 512, 32, 2048, True)) for b in BATCHES)
BETWEEN = {MIDDLE: [LOW, HIGH]}
CHEATS: dict[str, Cheat] = {
    "an exact copy": jittered(0.0),
    "a copy, all times × 0.97": jittered(0.0, 0.97),
    "a copy, 5 µs added to all times": computed_of(lambda t: t + 5e-6),
    "a copy, all times to the power 1.01": computed_of(lambda t: t**1.01),
    "a copy, each time changed by up to 0.01%": jittered(1e-4),
    "by up to 0.03%": jittered(3e-4),
    "by up to 0.1%": jittered(1e-3),
    "by up to 0.2%": jittered(2e-3),
    "means of two others": mean_of(lambda a, b: (a + b) / 2, 2),
    "weighted means of two others, 0.3 and 0.7": mean_of(lambda a, b: 0.3 * a + 0.7 * b, 2),
    "geometric means of two others": mean_of(lambda a, b: math.sqrt(a * b), 2),
    "means of three others": mean_of(lambda *values: statistics.fmean(values), 3),
    "one run 2.2 times faster": scaled(1 / 2.2, one_run),
    "one run 2.2 times slower": scaled(2.2, one_run),
    "one experiment twice as fast": scaled(0.5, one_experiment),
    "causal runs: full × 0.5": computed(CAUSAL, lambda full: 0.5 * full),
    "causal runs: full × 0.57": computed(CAUSAL, lambda full: 0.57 * full),
    "the same with 0.1% of jitter": computed(CAUSAL, lambda full: 0.57 * full, 1e-3),
    "a point interpolated": computed(BETWEEN, lambda a, b: a + (b - a) / 3),
    "a point interpolated, 0.1% of jitter": computed(BETWEEN, lambda a, b: a + (b - a) / 3, 1e-3),
    "all times × 0.4": scaled(0.4, everything),
    "milliseconds for seconds": scaled(1000.0, everything),
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
            named = own[source].device_name
            assert named
            runs = student(named, chance)
            told: list[dict[tuple[str, str], str]] = []
            for whose in ("eve", source), ("eve",):
                lines = alarms({**own, "eve": submission_of("eve", runs)})
                told.append({(x.file, x.code): x.verdict for x in lines if x.submission in whose})
                cheat(runs, own, source, chance)
            new = {key: verdict for key, verdict in told[1].items() if key not in told[0]}
            found[next((v for v in ("fail", "warn") if v in new.values()), "missed")] += 1
            codes.update({code for _, code in new})
        print(f"{what}: {dict(found)}; {dict(codes)}", flush=True)


if __name__ == "__main__":
    what, *numbers = sys.argv[1:]
    {"honest": count_honest, "cheats": count_cheats}[what](*([*map(int, numbers), 20, 1][:2]))
