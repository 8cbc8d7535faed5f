"""How often grading accuses honest students, and which cheats it finds: made classes, by hand.

A made student measured the lab's 36 runs alone: a level, a scatter between 0.05% and 2%, trends of
the machine (slower at short times, in one pass), and 3% of the times disturbed 1.5- to 4-fold. As
on real machines, a run's two passes and neighbouring runs deviate together (signs agree 0.2 above
chance), every GPU has a pattern of its own, and so has every version of the software.

A real student is a block of consecutive calls in a recording of an H200: each of two sittings in
this repository's history gives four, and a result of the course's protocol. Four blocks of one
sitting come from the same processes of the same card, closer together than any two students.

Usage: PYTHONPATH=workflow python perf/grading_alarms.py honest|cheats [CLASSES] [FIRST_SEED]
"""

from __future__ import annotations

import json
import math
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.course import FLASH2, FLOPS_RATIOS, NAIVE, Numbers
from flashlab.devices import Device, find_device
from flashlab_grading.copies import copies_between
from flashlab_grading.grade import check_alone, grade_checked
from flashlab_grading.identity import family_of
from flashlab_grading.model import Declaration, Line, Result, Submission
from flashlab_grading.physics import bytes_moved

RTX_3070, RTX_4090, A100, H100, RTX_3060, H200 = (
    *("NVIDIA GeForce RTX 3070", "NVIDIA GeForce RTX 4090", "NVIDIA A100-SXM4-80GB"),
    *("NVIDIA H100 80GB HBM3", "NVIDIA GeForce RTX 3060", "NVIDIA H200"),
)
ONE_EACH = (RTX_3070, RTX_4090, A100, RTX_3060, H200)
PASSES = ("forward", "backward")
BATCHES = (8, 16, 32, 64)
DISTURBED = 0.03
VERSIONS = ((0.6, "2.6"), (0.25, "2.5"), (0.1, "2.4"), (0.05, "2.3"))
SITTINGS = ("7c73ad8", "cde75be")
BLOCK = 5
LAUNCHES = {NAIVE: {"forward": 8, "backward": 14}, FLASH2: {"forward": 1, "backward": 3}}
LAUNCH_SECONDS = 6e-6

Class = dict[str, Submission]


@cache
def lab_shapes() -> list[Shape]:
    """The lab's five experiments, as in the recorded dataset."""
    shapes = {Shape(16, n, 32, 2048, mask) for n in (128, 256, 512, 1024) for mask in (True, False)}
    shapes |= {Shape(b, 512, 32, 2048, True) for b in BATCHES} | {Shape(32, 1024, 32, 2048, False)}
    shapes |= {Shape(32, 512, h, 2048, True) for h in (8, 16, 32, 64)}
    shapes |= {Shape(32, 512, 32, e, True) for e in (512, 1024, 2048, 4096)}
    return sorted(shapes)


@cache
def pattern(kind: str, implementation: str, shape: Shape, name: str, spread: float) -> float:
    """A factor that all machines of a kind share, another one for each run and pass."""
    return random.Random(f"{kind} {implementation} {shape} {name}").lognormvariate(0, spread)


@cache
def seconds_of(implementation: str, shape: Shape, name: str, device: Device) -> float:
    """A plausible time: the roofline with usual efficiencies, and the launches."""
    flops = costs.forward_flops(shape) * FLOPS_RATIOS[name] * (2 if shape.causal else 1)
    efficiency = 0.55 if implementation == FLASH2 else 0.35
    computing = flops / (efficiency * device.peak_tflops["float16"] * 1e12)
    moved = bytes_moved(family_of(implementation, shape), name, 0)
    moving = moved / (0.75 * device.bandwidth * 1e9)
    launches = LAUNCHES[implementation][name] * LAUNCH_SECONDS
    own = pattern(device.name, implementation, shape, name, 0.05)
    return own * max(computing, moving) + launches


def result_of(
    implementation: str, shape: Shape, seconds: dict[str, float], named: str, declared: bool = True
) -> Result:
    """A file of these times, with the rates and the memory that they have."""
    device = find_device(named)
    assert device is not None
    seconds["forward_backward"] = seconds["forward"] + seconds["backward"]
    flops = costs.forward_flops(shape)
    rates = {k: FLOPS_RATIOS[k] * flops / s / 1e12 for k, s in seconds.items()}
    memory = costs.flash2_peak_memory(shape)
    if implementation == NAIVE:
        memory = costs.naive_peak_memory(shape, device.cublas_workspaces or 0)
    sizes = (shape.batch_size, shape.seq_len, shape.num_heads, shape.emb_dim, shape.causal)
    said = Declaration("runs.csv", implementation, *sizes, device_name=named if declared else None)
    numbers = Numbers(seconds, rates, memory / costs.MIB)
    return Result(f"{implementation}-{shape}.json".replace(" ", ""), numbers, said)


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
            chance.choices([v for _, v in VERSIONS], [share for share, _ in VERSIONS])[0],
        )


def student(
    named: str,
    chance: random.Random,
    declared: bool = True,
    versions: bool = True,
    machine: Machine | None = None,
) -> list[Result]:
    """One student's independent measurements."""
    device = find_device(named)
    assert device is not None
    on = machine or Machine.any_of(chance)
    level, scatter, slope, offset = on.level, on.scatter, on.slope, on.offset
    version = on.version if versions else VERSIONS[0][1]
    wave = [chance.gauss(0, 1.5) for _ in range(4)]
    phase = chance.uniform(0, 2 * math.pi)
    results = []
    for implementation in (NAIVE, FLASH2):
        for shape in lab_shapes():
            sizes = (shape.batch_size, shape.seq_len, shape.num_heads, shape.emb_dim)
            along = sum(w * math.log(size) for w, size in zip(wave, sizes, strict=True))
            common = 0.4 * chance.gauss(0, 1) + 0.4 * math.sqrt(2) * math.sin(phase + along)
            seconds = {}
            for name in PASSES:
                usual = seconds_of(implementation, shape, name, device)
                usual *= pattern(version + named, implementation, shape, name, 0.01)
                trend = slope * math.log(usual / 1e-3) + offset * (name == "backward")
                noise = scatter * (common + 0.82 * chance.gauss(0, 1))
                disturbed = chance.random() < DISTURBED
                factor = chance.uniform(1.5, 4) if disturbed else 1
                seconds[name] = usual * level * math.exp(trend + noise) * factor
            results.append(result_of(implementation, shape, seconds, named, declared))
    return results


def of_students(students: Iterable[tuple[str, list[Result]]]) -> Class:
    """A class of these students' results, each with the device that it names."""
    return {
        f"s{i:03}": Submission(f"s{i:03}", tuple(results), (), named or None)
        for i, (named, results) in enumerate(students)
    }


def made(
    devices: Sequence[str], declared: bool = True, versions: bool = True
) -> Callable[[random.Random], Class]:
    """Classes of one made student for each of these devices."""
    return lambda chance: of_students(
        (named if declared else "", student(named, chance, declared, versions)) for named in devices
    )


@cache
def recordings(commit: str) -> list[tuple[str, Shape, dict[str, list[float]], bool]]:
    """The lab's runs as recorded at a commit: samples in seconds; one of each for `lab5`."""
    files = git("ls-tree", "-r", "--name-only", commit, "data/h200/records").split()
    found = []
    for file in files:
        if not file.split("/")[-1].startswith(("pytorch-", "flash2-")):
            continue
        document = json.loads(git("show", f"{commit}:{file}"))
        record = document["record"]
        shape = Shape.of(record["run"])
        if shape not in lab_shapes() or record["status"] != "ok":
            continue
        if record["protocol"]["name"] == "lab5":
            samples = {name: [document[name]["time(s)"]] for name in PASSES}
        elif record["version"] == 1:
            samples = record["samples"]
        else:
            metrics = record["metrics"]
            samples = {n: [x / 1e3 for x in metrics[f"{n}_time"]["samples"]] for n in PASSES}
        whole = record["protocol"]["name"] == "lab5"
        found.append((record["run"]["implementation"], shape, samples, whole))
    return found


def git(*arguments: str) -> str:
    """What git prints."""
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def real(chance: random.Random, blocks: Sequence[int] = range(-1, 4)) -> Class:
    """Students of recordings, five of each sitting, and made ones with the same GPU."""
    students = []
    for commit in SITTINGS:
        for block in blocks:
            results = []
            for implementation, shape, samples, whole in recordings(commit):
                if whole != (block < 0):
                    continue
                seconds = {}
                for name, values in samples.items():
                    if whole:
                        seconds[name] = values[0]
                        continue
                    quarter = len(values) // 4
                    at = quarter * block + chance.randrange(quarter - BLOCK + 1)
                    seconds[name] = statistics.fmean(values[at : at + BLOCK])
                results.append(result_of(implementation, shape, seconds, H200))
            students.append((H200, results))
    return of_students([*students, *((H200, student(H200, chance)) for _ in range(10))])


def two_a_machine(chance: random.Random, least: float) -> Class:
    """Two students on each machine, in two sessions whose levels differ by 0.3%."""
    named = chance.choice(ONE_EACH)
    students = []
    for _ in range(25):
        machine = Machine.any_of(chance, least)
        for _ in range(2):
            drifted = replace(machine, level=machine.level * chance.lognormvariate(0, 3e-3))
            students.append((named, student(named, chance, machine=drifted)))
    return of_students(students)


MIXED = (RTX_3070,) * 30 + (RTX_4090,) * 10 + (A100,) * 10 + (H100,) * 6 + (RTX_3060,) * 4
CLASSES: dict[str, Callable[[random.Random], Class]] = {
    "one GPU, one version, 100 students": lambda chance: made(
        (chance.choice(ONE_EACH),) * 100, versions=False
    )(chance),
    "one GPU, four versions, 100 students": lambda chance: made((chance.choice(ONE_EACH),) * 100)(
        chance
    ),
    "30 RTX 3070, 10 RTX 4090, 10 A100, 6 H100, 4 RTX 3060": made(MIXED),
    "the same, no device declared": made(MIXED, declared=False),
    "four GPUs of twelve each": made([RTX_3070, RTX_4090, A100, H100] * 12),
    "seven students, one GPU, four versions": lambda chance: made((chance.choice(ONE_EACH),) * 7)(
        chance
    ),
    "10 real and 10 made students, H200": real,
    "two real ones of each sitting's processes, 10 made": lambda chance: real(chance, (0, 2)),
    "one GPU, two students on each of 25 machines": lambda chance: two_a_machine(chance, 5e-4),
    "the same, as quiet as the H200 at most": lambda chance: two_a_machine(chance, 2.5e-3),
}


def graded(own: Class) -> tuple[Line, ...]:
    """What all checks say of a class."""
    return grade_checked([check_alone(submission) for submission in own.values()], (), "", {}).lines


def count_honest(classes: int, first: int) -> None:
    """Print how many honest students the check for copies, and all checks, accuse."""
    for what, make in CLASSES.items():
        begin = time.monotonic()
        told: Counter[str] = Counter()
        students = accused_in = 0
        for seed in range(first, first + classes):
            own = make(random.Random(seed))
            students += len(own)
            lines = [
                line
                for line in copies_between({name: s.results for name, s in own.items()}, {})
                if line.verdict in ("fail", "warn")
            ]
            accused_in += bool(lines)
            told.update({f"{verdict} {name} {seed}": 1 for verdict, name in
                         {(line.verdict, line.submission) for line in lines}})  # fmt: skip
        by_verdict = Counter(key.split()[0] for key in told)
        print(
            f"{what}: {classes} classes, accused in {accused_in}; of {students} students "
            f"{dict(by_verdict)}; {time.monotonic() - begin:.0f} s",
            flush=True,
        )
    for seed in range(first, first + 5):
        for what, make in CLASSES.items():
            lines = graded(make(random.Random(seed)))
            found = Counter(f"{x.verdict} {x.code}" for x in lines if x.verdict in ("fail", "warn"))
            print(f"all checks, seed {seed}, {what}: {dict(found)}", flush=True)


# Cheats: each makes eve's submission of the class, and names who may be told beside her


@dataclass
class Cheat:
    """A way to cheat: from the class and a student to what eve hands in."""

    make: Callable[[Class, str, random.Random], list[Result]]
    from_others: bool = True


def with_times(result: Result, factors: dict[str, float]) -> Result:
    """The file with its times multiplied, and the rates that follow."""
    seconds = {n: result.numbers.seconds[n] * factors.get(n, 1.0) for n in PASSES}
    seconds["forward_backward"] = sum(seconds.values())
    work = {k: result.numbers.rates[k] * s for k, s in result.numbers.seconds.items()}
    rates = {name: work[name] / value for name, value in seconds.items()}
    return replace(result, numbers=replace(result.numbers, seconds=seconds, rates=rates))


def jittered(jitter: float, level: float = 1.0) -> Cheat:
    """A copy of which every time is changed by up to `jitter` either way."""

    def make(own: Class, source: str, chance: random.Random) -> list[Result]:
        return [
            with_times(r, {n: level * (1 + chance.uniform(-jitter, jitter)) for n in PASSES})
            for r in own[source].results
        ]

    return Cheat(make)


def mean_of(weight: float, third: bool = False, geometric: bool = False) -> Cheat:
    """Weighted means of two others' times, or of three others'."""

    def make(own: Class, source: str, chance: random.Random) -> list[Result]:
        same = [n for n, s in own.items() if s.device_name == own[source].device_name != n]
        one, other, more = chance.sample(same, 3)
        found = []
        for results in zip(*(own[name].results for name in (one, other, more)), strict=True):
            factors = {}
            for name in PASSES:
                a, b, c = (r.numbers.seconds[name] for r in results)
                mean = weight * a + (1 - weight) * b
                if third:
                    mean = (a + b + c) / 3
                if geometric:
                    mean = math.sqrt(a * b)
                factors[name] = mean / a
            found.append(with_times(results[0], factors))
        return found

    return Cheat(make)


def altered(change: Callable[[dict[tuple[str, Shape], Result], random.Random], None]) -> Cheat:
    """Own measurements, of which some are altered."""

    def make(own: Class, source: str, chance: random.Random) -> list[Result]:
        named = own[source].device_name
        assert named
        runs = {}
        for result in student(named, chance):
            shape = result.declaration.shape
            assert shape and result.declaration.implementation
            runs[result.declaration.implementation, shape] = result
        change(runs, chance)
        return list(runs.values())

    return Cheat(make, from_others=False)


Runs = dict[tuple[str, Shape], Result]


def one_run(factor: float, where: Callable[[Shape], bool] = lambda shape: True) -> Cheat:
    """One run of at least 1 ms, `factor` times as long."""

    def change(runs: Runs, chance: random.Random) -> None:
        long = [k for k, r in runs.items() if r.numbers.seconds["forward"] > 1e-3 and where(k[1])]
        key = chance.choice(long)
        runs[key] = with_times(runs[key], dict.fromkeys(PASSES, factor))

    return altered(change)


def one_experiment(factor: float) -> Cheat:
    """The batch sizes of one implementation, all `factor` times as long."""

    def change(runs: Runs, chance: random.Random) -> None:
        implementation = chance.choice((NAIVE, FLASH2))
        for b in BATCHES:
            key = implementation, Shape(b, 512, 32, 2048, True)
            runs[key] = with_times(runs[key], dict.fromkeys(PASSES, factor))

    return altered(change)


def causal_from_full(factor: float, jitter: float = 0.0) -> Cheat:
    """The causal runs of one implementation computed from the full ones."""

    def change(runs: Runs, chance: random.Random) -> None:
        for n in (256, 512, 1024):
            full, causal = (runs[FLASH2, Shape(16, n, 32, 2048, mask)] for mask in (False, True))
            factors = {
                name: full.numbers.seconds[name] / causal.numbers.seconds[name]
                * factor * (1 + chance.uniform(-jitter, jitter))
                for name in PASSES
            }  # fmt: skip
            runs[FLASH2, Shape(16, n, 32, 2048, True)] = with_times(causal, factors)

    return altered(change)


def interpolated(jitter: float) -> Cheat:
    """Batch size 32 from its neighbours."""

    def change(runs: Runs, chance: random.Random) -> None:
        low, own, high = (runs[NAIVE, Shape(b, 512, 32, 2048, True)] for b in BATCHES[1:])
        factors = {}
        for name in PASSES:
            a, x, b = (r.numbers.seconds[name] for r in (low, own, high))
            factors[name] = (a + (b - a) / 3) / x * (1 + chance.uniform(-jitter, jitter))
        runs[NAIVE, Shape(32, 512, 32, 2048, True)] = with_times(own, factors)

    return altered(change)


def everything(factor: float) -> Cheat:
    """All own times multiplied: a better GPU, or milliseconds for seconds."""

    def change(runs: Runs, chance: random.Random) -> None:
        for key, result in runs.items():
            runs[key] = with_times(result, dict.fromkeys(PASSES, factor))

    return altered(change)


CHEATS: dict[str, Cheat] = {
    "an exact copy": jittered(0.0),
    "a copy, all times × 0.97": jittered(0.0, 0.97),
    "a copy, each time changed by up to 0.01%": jittered(1e-4),
    "by up to 0.03%": jittered(3e-4),
    "by up to 0.1%": jittered(1e-3),
    "by up to 0.2%": jittered(2e-3),
    "by up to 0.3%": jittered(3e-3),
    "means of two others": mean_of(0.5),
    "weighted means of two others, 0.3 and 0.7": mean_of(0.3),
    "geometric means of two others": mean_of(0.5, geometric=True),
    "means of three others": mean_of(0.5, third=True),
    "one run 2.2 times faster": one_run(1 / 2.2),
    "one run 2.2 times slower": one_run(2.2),
    "one experiment twice as fast": one_experiment(0.5),
    "causal runs: full × 0.5": causal_from_full(0.5),
    "causal runs: full × 0.57": causal_from_full(0.57),
    "the same with 0.1% of jitter": causal_from_full(0.57, 1e-3),
    "a point interpolated": interpolated(0.0),
    "a point interpolated, 0.1% of jitter": interpolated(1e-3),
    "all times × 0.4": everything(0.4),
    "milliseconds for seconds": everything(1000.0),
}


def count_cheats(classes: int, first: int) -> None:
    """Print of each cheat in how many classes it fails, warns or is missed, and who else is told.

    A line counts if it is about eve's copying or, for alterations, about any altered or all files.
    Others are honest students, neither eve nor whom she copied from, with a line about copies.
    """
    for what, cheat in CHEATS.items():
        found: Counter[str] = Counter()
        codes: Counter[str] = Counter()
        others = 0
        for seed in range(first, first + classes):
            chance = random.Random(seed)
            own = made((chance.choice(ONE_EACH),) * 25)(chance)
            source = chance.choice(list(own))
            named = own[source].device_name
            before = {name: s for name, s in own.items()}
            own["eve"] = Submission("eve", tuple(cheat.make(own, source, chance)), (), named)
            lines = [x for x in graded(own) if x.verdict in ("fail", "warn")]
            eves = [x for x in lines if x.submission == "eve"]
            if cheat.from_others:
                eves = [x for x in eves if x.check == "copies"]
            elif what not in ("all times × 0.4", "milliseconds for seconds"):
                honest = graded({**before, "eve": honest_eve(own, source, seed, cheat)})
                usual = {(x.file, x.code) for x in honest if x.submission == "eve"}
                eves = [x for x in eves if (x.file, x.code) not in usual]
            verdicts = {x.verdict for x in eves}
            found["fail" if "fail" in verdicts else "warn" if "warn" in verdicts else "missed"] += 1
            codes.update({x.code for x in eves})
            told = {p for x in eves for p in (x.params.get("other"), x.params.get("one"))}
            others += len(
                {x.submission for x in lines if x.check == "copies"} - {"eve", source} - told
            )
        print(f"{what}: {dict(found)}, others {others}; {dict(codes)}", flush=True)


def honest_eve(own: Class, source: str, seed: int, cheat: Cheat) -> Submission:
    """What eve would have handed in without the alteration, from the same chance."""
    chance = random.Random(seed)
    made((chance.choice(ONE_EACH),) * 25)(chance)
    chance.choice(list(own)[:-1])
    named = own[source].device_name
    assert named
    return Submission("eve", tuple(student(named, chance)), (), named)


if __name__ == "__main__":
    what, *numbers = sys.argv[1:]
    {"honest": count_honest, "cheats": count_cheats}[what](*([*map(int, numbers), 20, 1][:2]))
