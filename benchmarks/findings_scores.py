"""How often the findings are right: scores over datasets whose truth is planted.

Each dataset is a sweep of two implementations with samples drawn around known medians: 5% of them
20% slow, each run with a drift of its own, some of the clock's resolution, some sweeps ending out
of memory. The findings are derived from its tables as from any other's, and each is held against
what was planted. Usage: python benchmarks/findings_scores.py [DATASETS] [SEED]
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.optimize
import scipy.stats

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))
from flashlab import costs
from flashlab.findings.claims import claims, read_claims
from flashlab.findings.derive import derive, read_sweep
from flashlab.findings.model import Estimates
from flashlab.findings.roofline import read_ceilings
from flashlab.records import Run, Shape
from flashlab.statistics import median_interval
from flashlab.tables import PASS_COLUMNS, RUN_COLUMNS, SAMPLE_COLUMNS, write_csv

CLAIMS = Path(__file__).parents[1] / "data" / "published" / "claims.yaml"
NAMES = ("Pytorch", "Flash2")
DEVICE = "NVIDIA H200"
MARGIN, BEND, OUTLIER = 0.05, 0.2, 1.25
SLOW_SHARE, SLOW = 0.05, 1.2
UNSTEADY = 0.1
"""A planted drift beyond this makes a pass unsteady."""

Key = tuple[str, Shape, str]
"""Implementation, shape and pass."""


@dataclass(frozen=True)
class Pass:
    """What is planted for one pass of one run: milliseconds, and how they vary."""

    median: float
    spread: float = 0.01
    drift: float = 0.0
    cap: int = 200
    resolution: float = 0.0


@dataclass
class Planted:
    """A dataset: its passes, what ran out of memory, and what is true of it."""

    kind: str
    passes: dict[Key, Pass] = field(default_factory=dict)
    peaks: dict[tuple[str, Shape], float] = field(default_factory=dict)
    oom: set[tuple[str, Shape]] = field(default_factory=set)
    exponents: dict[tuple[str, bool, str], float] = field(default_factory=dict)
    spikes: dict[Key, float] = field(default_factory=dict)
    identical: bool = False


@functools.cache
def mixture_median(spread: float) -> float:
    """Median of lognormal samples around 1 of which 5% are 20% slow."""

    def excess(x: float) -> float:
        fast = scipy.stats.norm.cdf(math.log(x) / spread)
        slow = scipy.stats.norm.cdf(math.log(x / SLOW) / spread)
        return float((1 - SLOW_SHARE) * fast + SLOW_SHARE * slow - 0.5)

    return float(scipy.optimize.brentq(excess, 0.5, 2.0, xtol=1e-12))


def draw(planted: Pass, random: np.random.Generator) -> list[float]:
    """Samples as the measuring takes them: until the interval is within 1%, or the time is spent.

    A drift of 0.02 lets the last call take 2% longer than the first.
    """
    count = planted.cap
    slow = np.where(random.random(count) < SLOW_SHARE, SLOW, 1.0)
    times = planted.median * random.lognormal(sigma=planted.spread, size=count) * slow
    for n in range(count if abs(planted.drift) > UNSTEADY else 20, count + 1, 10):
        taken = times[:n] * (1 + planted.drift * np.linspace(-0.5, 0.5, n))
        if planted.resolution:
            taken = np.maximum(np.round(taken / planted.resolution), 1) * planted.resolution
        found: list[float] = taken.tolist()
        if median_interval(found).relative_half_width <= 0.01:
            break
    return found


def true_median(planted: Pass) -> float:
    """Milliseconds around which a pass's measured median lies."""
    return planted.median * mixture_median(planted.spread)


# What is planted


def _sizes(random: np.random.Generator) -> list[int]:
    return [128 * 2**i for i in range(int(random.integers(4, 8)))]


def _shape(size: int, causal: bool = False, batch_size: int = 4) -> Shape:
    return Shape(batch_size, size, 8, 512, causal)


Curve = Callable[[int], float]


def plant(
    dataset: Planted,
    curves: Mapping[tuple[str, bool], Curve],
    sizes: Sequence[int],
    random: np.random.Generator,
    resolution: float = 0.0,
    batch_size: int = 4,
) -> None:
    """Plant a sweep over seq_len with these milliseconds of an implementation and a mask.

    Each run is off by up to 1%, and drifts by up to 2%; backward takes 2.5 times the forward.
    """
    spread = float(random.choice([0.003, 0.01, 0.02, 0.04]))
    share, power = float(random.choice([0.4, 1.0, 1.7])), float(random.uniform(0, 2))
    for (name, causal), curve in curves.items():
        for size in sizes:
            shape = _shape(size, causal, batch_size)
            for timed, factor in (("forward", 1.0), ("backward", 2.5)):
                median = curve(size) * factor * (1 + float(random.uniform(-0.01, 0.01)))
                drift = float(random.uniform(-0.02, 0.02))
                dataset.passes[name, shape, timed] = Pass(
                    median, spread, drift, resolution=resolution
                )
            peak = 64 * (size / 128) ** power + (name == "Pytorch") * float(random.choice([0, 90]))
            dataset.peaks[name, shape] = peak * (share if name == "Flash2" else 1)


def _power(scale: float, exponent: float) -> Curve:
    return lambda n: scale * (n / 128) ** exponent


def _remember(dataset: Planted, exponents: dict[tuple[str, bool], float]) -> None:
    for (name, causal), exponent in exponents.items():
        for timed in ("forward", "backward"):
            dataset.exponents[name, causal, timed] = exponent


def identical(random: np.random.Generator) -> Planted:
    """The same implementation twice, and masks that change nothing: only the drift differs."""
    dataset = Planted("identical", identical=True)
    exponent = float(random.uniform(0, 2))
    keys = [(name, mask) for name in NAMES for mask in (False, True)]
    plant(dataset, dict.fromkeys(keys, _power(0.05, exponent)), _sizes(random), random)
    _remember(dataset, dict.fromkeys(keys, exponent))
    return dataset


def faster(random: np.random.Generator) -> Planted:
    """One implementation faster by a factor that may change along the sweep; causal too."""
    dataset = Planted("faster")
    exponent, ratio = float(random.uniform(0.5, 2)), float(np.exp(random.uniform(-1.2, 1.2)))
    growth = float(random.choice([0.0, random.uniform(-0.3, 0.3)]))
    gain = float(np.exp(random.uniform(-0.5, 0.7)))
    exponents, curves = {}, {}
    for name, mask in itertools.product(NAMES, (False, True)):
        own = exponent - growth * (name == "Flash2")
        scale = 0.05 / (ratio if name == "Flash2" else 1) / (gain if mask else 1)
        curves[name, mask], exponents[name, mask] = _power(scale, own), own
    plant(dataset, curves, _sizes(random), random)
    _remember(dataset, exponents)
    return dataset


def crossing(random: np.random.Generator) -> Planted:
    """One overtakes the other somewhere along the sweep."""
    dataset = Planted("crossing")
    sizes = _sizes(random)
    where = float(random.uniform(sizes[0], sizes[-1]))
    steep, flat = float(random.uniform(1.2, 2.2)), float(random.uniform(0.2, 1.0))
    curves = {
        ("Pytorch", False): _power(0.05 * (where / 128) ** (flat - steep), steep),
        ("Flash2", False): _power(0.05, flat),
    }
    plant(dataset, curves, sizes, random)
    _remember(dataset, {("Pytorch", False): steep, ("Flash2", False): flat})
    return dataset


def launch(random: np.random.Generator) -> Planted:
    """A launch that costs more than the kernel at small sizes: no single exponent."""
    dataset = Planted("launch")
    sizes = _sizes(random)

    def curve(overhead: float, sharp: bool, scale: float) -> Curve:
        def time(n: int) -> float:
            work = scale * (n / 128) ** 2
            return max(overhead, work) if sharp else overhead + work

        return time

    curves = {
        (name, False): curve(
            float(np.exp(random.uniform(-4, 2))), bool(random.random() < 0.4), 0.05
        )
        for name in NAMES
    }
    plant(dataset, curves, sizes, random)
    return dataset


def cliff(random: np.random.Generator) -> Planted:
    """A step, up or down, between two sizes, as where a cache ends: no record is wrong."""
    dataset = Planted("cliff")
    sizes = _sizes(random)
    edge, height = int(random.choice(sizes[1:])), float(np.exp(random.uniform(-1.2, 1.1)))
    exponent = float(random.uniform(0, 2))

    def step(n: int) -> float:
        return _power(0.05, exponent)(n) * (height if n >= edge else 1)

    plant(dataset, {("Pytorch", False): step, ("Flash2", False): step}, sizes, random)
    return dataset


def spiked(random: np.random.Generator) -> Planted:
    """One record far from the power law of the others."""
    dataset = faster(random)
    dataset.kind = "spiked"
    dataset.exponents.clear()
    name, timed = str(random.choice(NAMES)), str(random.choice(["forward", "backward"]))
    inner = sorted({shape.seq_len for _, shape, _ in dataset.passes})[1:-1]
    key = (name, _shape(int(random.choice(inner)), bool(random.random() < 0.5)), timed)
    factor = float(random.uniform(1.3, 3.0)) ** float(random.choice([-1, 1]))
    planted = dataset.passes[key]
    dataset.passes[key] = Pass(planted.median * factor, planted.spread, planted.drift)
    dataset.spikes[key] = factor
    return dataset


def unsteady(random: np.random.Generator) -> Planted:
    """Some passes that drift by 25% to 60%, or scatter so that the median is hardly known."""
    dataset = faster(random)
    dataset.kind = "unsteady"
    dataset.exponents.clear()
    keys = list(dataset.passes)
    for index in random.choice(len(keys), size=3, replace=False):
        key = keys[int(index)]
        median = dataset.passes[key].median
        if random.random() < 0.5:
            drift = float(random.uniform(0.25, 0.6)) * float(random.choice([-1, 1]))
            dataset.passes[key] = Pass(median, 0.01, drift, 60)
        else:
            dataset.passes[key] = Pass(median, float(random.uniform(0.5, 0.8)), 0.0, 20)
    return dataset


def out_of_memory(random: np.random.Generator) -> Planted:
    """The naive implementation ends before the sweep does."""
    dataset = faster(random)
    dataset.kind = "out of memory"
    sizes = sorted({shape.seq_len for _, shape, _ in dataset.passes})
    first = int(random.choice(sizes))
    dataset.oom = {
        (name, shape)
        for name, shape, _ in dataset.passes
        if name == "Pytorch" and shape.seq_len >= first
    }
    return dataset


def tied(random: np.random.Generator) -> Planted:
    """A clock so coarse that most samples are equal."""
    dataset = Planted("tied")
    ratio = float(random.choice([1.0, 1.5, 2.0]))
    curves = {
        ("Pytorch", False): _power(0.064, 1.0),
        ("Flash2", False): _power(0.064 / ratio, 1.0),
    }
    plant(dataset, curves, _sizes(random), random, resolution=0.0005)
    return dataset


LAB = (
    *(Shape(16, n, 32, 2048, mask) for n in (128, 256, 512, 1024) for mask in (False, True)),
    *(Shape(b, 512, 32, 2048, True) for b in (8, 32, 64)),
    *(Shape(32, 512, h, 2048, True) for h in (8, 16, 64)),
    *(Shape(32, 512, 32, e, True) for e in (512, 1024, 4096)),
)
"""The shapes that the published claims are about."""


def lab(random: np.random.Generator) -> Planted:
    """The lab's shapes with times by some powers of their parameters: claims hold or do not."""
    dataset = Planted("lab")
    for name in NAMES:
        powers = random.uniform([0, 0, 0, 0], [1.2, 2, 1.2, 1.2])
        peaks = random.uniform([0.5, 0.5, 0, 0.1], [1, 2, 1, 1])
        scale, masked = np.exp(random.uniform([-1.5, -0.7], [1, 0.7]))
        for shape in LAB:
            size = np.log2(
                [
                    *(shape.batch_size / 16, shape.seq_len / 512),
                    *(shape.num_heads / 32, shape.emb_dim / 2048),
                ]
            )
            dataset.peaks[name, shape] = float(f"{500 * scale * 2 ** (peaks @ size):.6g}")
            time = scale * 2 ** (powers @ size) * (masked if shape.causal else 1)
            for timed, factor in (("forward", 1.0), ("backward", 2.5)):
                own = factor * float(random.uniform(0.97, 1.03))
                dataset.passes[name, shape, timed] = Pass(float(time * own), 0.01)
    return dataset


PLANTS = (
    *(identical, faster, crossing, launch, cliff, spiked, unsteady, out_of_memory, tied),
    *(identical, faster, crossing),
)


# From what is planted to findings


def write_dataset(
    dataset: Planted,
    folder: Path,
    random: np.random.Generator,
    device: str = DEVICE,
    name: str = "sweep",
) -> Path:
    """Plan and tables of a planted sweep over seq_len; the plan's file."""
    tables = folder / "tables" / name
    runs, passes, samples = [], [], []
    shapes = sorted({shape for _, shape, _ in dataset.passes})
    for implementation, shape in itertools.product(NAMES, shapes):
        run = Run(implementation, shape, "float16", "cuda").to_json()
        status = "oom" if (implementation, shape) in dataset.oom else "ok"
        row = {
            **run,
            "head_dim": shape.head_dim,
            "status": status,
            "peak_memory_MiB": dataset.peaks[implementation, shape] if status == "ok" else None,
            "protocol": "sampled",
            "device_name": device,
            "record": "planted.json",
            "sha256": "0" * 64,
        }
        runs.append(dict.fromkeys(RUN_COLUMNS) | row)
        for timed in ("forward", "backward"):
            drawn = draw(dataset.passes[implementation, shape, timed], random)
            median = float(np.median(drawn)) if status == "ok" else None
            row = {**run, "pass": timed, "status": status, "time_ms": median}
            passes.append(dict.fromkeys(PASS_COLUMNS) | row)
            if status == "ok":
                samples += [
                    {**run, "pass": timed, "index": i, "time_ms": t} for i, t in enumerate(drawn)
                ]
    for table, columns, rows in (
        ("runs", RUN_COLUMNS, runs),
        ("passes", PASS_COLUMNS, passes),
        ("samples", SAMPLE_COLUMNS, samples),
    ):
        write_csv(tables / f"{table}.csv", columns, rows)
    plan = folder / f"{name}.json"
    implementations = [{"name": name} for name in NAMES]
    plan.write_text(
        json.dumps(
            {
                "name": name,
                "sweep": "seq_len",
                "baseline": NAMES[0],
                "implementations": implementations,
            }
        )
    )
    return plan


def plant_ceilings(dataset: Planted, random: np.random.Generator) -> dict[str, Any]:
    """Ceilings of which some run of the dataset reaches a share between 20% and 130%."""
    chosen = list(dataset.passes)[int(random.integers(len(dataset.passes)))]
    seconds = true_median(dataset.passes[chosen]) / 1e3
    _, shape, timed = chosen
    rate = costs.flops(shape)[timed] / seconds / float(random.uniform(0.2, 1.3))
    moved = costs.compulsory_bytes(shape, "float16")[timed]
    bandwidth = moved / seconds / float(random.uniform(0.2, 1.3))
    size, copied = 8192, 2**32

    def record(seconds: float, **more: Any) -> dict[str, Any]:
        median = seconds / mixture_median(0.004)
        return {"samples": draw(Pass(median, 0.004), random), "time(s)": seconds, **more}

    return {
        "matrix_product": {"float16": record(2 * size**3 / rate, size=size)},
        "copy": record(2 * copied / bandwidth, bytes=copied),
        "environment": {"device_name": DEVICE},
        "truth": {"rate": rate, "bandwidth": bandwidth},
    }


# Scores


UNDECIDED = {
    *("inconclusive", "imprecise", "too_few_sizes", "withheld"),
    *("none", "not_tested", "other_device"),
}
"""Verdicts that state nothing that could be false."""


@dataclass
class Score:
    """Of one kind: findings, false ones, misses of those that ought to be found, intervals held."""

    findings: int = 0
    decided: int = 0
    false: int = 0
    plain: int = 0
    missed: int = 0
    intervals: int = 0
    held: int = 0

    def add(
        self,
        verdict: str,
        false: bool,
        missed: bool | None = None,
        intervals: Sequence[tuple[float, dict[str, Any]]] = (),
    ) -> None:
        """One finding, or "" for one that ought to have been there.

        `missed` is None where the effect is not plain enough to ask for it.
        """
        self.findings += bool(verdict)
        self.decided += bool(verdict) and verdict not in UNDECIDED
        self.false += false
        if missed is not None:
            self.plain += 1
            self.missed += missed
        for truth, interval in intervals:
            if interval["low"] is not None:
                self.intervals += 1
                self.held += interval["low"] <= truth <= interval["high"]

    @property
    def false_share(self) -> float:
        return self.false / self.decided if self.decided else 0.0

    @property
    def missed_share(self) -> float:
        return self.missed / self.plain if self.plain else 0.0

    @property
    def held_share(self) -> float:
        return self.held / self.intervals if self.intervals else 1.0


class Judge:
    """What is true of a planted dataset, and what of its findings is not."""

    def __init__(self, dataset: Planted, ceilings: dict[str, float]) -> None:
        self.dataset = dataset
        self.ceilings = ceilings
        self.times = {key: true_median(planted) for key, planted in dataset.passes.items()}

    def time(self, name: str, causal: bool, timed: str) -> dict[int, float]:
        """True milliseconds of the runs that are ok, by size."""
        return {
            shape.seq_len: time
            for (own, shape, own_pass), time in sorted(self.times.items())
            if (own, shape.causal, own_pass) == (name, causal, timed)
            and (own, shape) not in self.dataset.oom
        }

    def peak(self, name: str, causal: bool) -> dict[int, float]:
        """True MiB of the runs that are ok, by size."""
        return {
            shape.seq_len: peak
            for (own, shape), peak in sorted(self.dataset.peaks.items())
            if (own, shape.causal) == (name, causal) and (own, shape) not in self.dataset.oom
        }

    def ratio(
        self, above: tuple[str, bool], below: tuple[str, bool], timed: str
    ) -> dict[int, float]:
        a, b = (self.time(*side, timed) for side in (above, below))
        return {size: a[size] / b[size] for size in a if size in b}

    # Each kind: whether it is false, whether it misses what is plain, and its intervals' truths

    def _difference(self, finding: dict[str, Any], truth: dict[int, float]) -> Any:
        params = finding["params"]
        false = (
            any(truth[size] <= 1 + MARGIN for size in params["faster_at"])
            or any(truth[size] >= 1 - MARGIN for size in params["slower_at"])
            or any(abs(truth[size] - 1) > MARGIN for size in params["equal_at"])
        )
        trend = params.get("trend", "none")
        if trend != "none":
            change = truth[params["last"]] / truth[params["first"]]
            false |= change <= 1 + MARGIN if trend == "widens" else change >= 1 - MARGIN
        plain = bool(truth) and all(
            ratio >= 1 + 2 * MARGIN or ratio <= 1 - 2 * MARGIN for ratio in truth.values()
        )
        found = set(params["faster_at"]) | set(params["slower_at"])
        intervals = [(truth[e["value"]], e) for e in finding["evidence"]["estimates"]]
        return false, (found != set(truth)) if plain else None, intervals

    def speedup(self, finding: dict[str, Any]) -> Any:
        subject = finding["subject"]
        causal, timed = subject["mask"] == "causal", subject["pass"]
        sides = ((subject["baseline"], causal), (subject["implementation"], causal))
        return self._difference(finding, self.ratio(*sides, timed))

    def causal_effect(self, finding: dict[str, Any]) -> Any:
        name, timed = (finding["subject"][key] for key in ("implementation", "pass"))
        return self._difference(finding, self.ratio((name, False), (name, True), timed))

    def crossover(self, finding: dict[str, Any]) -> Any:
        subject, params = finding["subject"], finding["params"]
        causal, timed = subject["mask"] == "causal", subject["pass"]
        names = (subject["implementation"], subject["other"])
        truth = self.ratio((names[1], causal), (names[0], causal), timed)
        signs = [math.copysign(1, math.log(ratio)) for ratio in truth.values()]
        crosses = any(a != b for a, b in itertools.pairwise(signs))
        strong = [ratio for ratio in truth.values() if abs(math.log(ratio)) > math.log(1.1)]
        plain = min(strong, default=1) < 1 < max(strong, default=1)
        intervals = [(truth[e["value"]], e) for e in finding["evidence"]["estimates"]]
        false = False
        if finding["verdict"] == "crosses":
            sign = {names[0]: 1, names[1]: -1}
            false = any(
                sign[params[who]] * (truth[params[at]] - 1) <= 0
                for who, at in (("before", "low_at"), ("after", "high_at"))
            )
            false |= not crosses
        elif finding["verdict"] == "none_in_range":
            far = [ratio for ratio in truth.values() if abs(ratio - 1) > MARGIN]
            false = min(far, default=1) < 1 < max(far, default=1)
        return false, (finding["verdict"] != "crosses") if plain else None, intervals

    def scaling(self, finding: dict[str, Any]) -> Any:
        subject, verdict = finding["subject"], finding["verdict"]
        causal, quantity = subject["mask"] == "causal", subject["quantity"]
        if verdict == "too_few_sizes":
            return False, None, []
        memory = quantity == "memory"
        name = subject["implementation"]
        truth = self.peak(name, causal) if memory else self.time(name, causal, quantity)
        local = [
            math.log(truth[b] / truth[a]) / math.log(b / a) for a, b in itertools.pairwise(truth)
        ]
        bend = max(local) - min(local)
        exponent = self.dataset.exponents.get((subject["implementation"], causal, quantity))
        false = (
            (verdict in ("power_law", "flat") and bend > BEND)
            or (verdict == "curved" and max(local) - min(local) <= (0.1 if memory else BEND))
            or (verdict == "flat" and max(map(abs, local)) > 0.1 + BEND)
        )
        missed = None
        if exponent is not None and bend <= BEND / 2:
            missed = verdict not in ("power_law", "flat")
        elif bend >= 2 * BEND:
            missed = verdict != "curved"
        found = finding["evidence"]["estimates"][-1]
        known = exponent is not None and "exponent" in found
        return false, missed, [(exponent, found)] if known else []

    def monotonicity(self, finding: dict[str, Any]) -> Any:
        subject, verdict, params = finding["subject"], finding["verdict"], finding["params"]
        causal, quantity = subject["mask"] == "causal", subject["quantity"]
        memory, name = quantity == "memory", subject["implementation"]
        truth = self.peak(name, causal) if memory else self.time(name, causal, quantity)
        margin = 0.0 if memory else MARGIN
        steps = [truth[b] / truth[a] for a, b in itertools.combinations(truth, 2)]
        falls, rises = min(steps, default=1.0), max(steps, default=1.0)
        false = False
        if verdict == "broken":
            fall, rise = (
                truth[params[f"{name}_to"]] / truth[params[f"{name}_from"]]
                for name in ("fall", "rise")
            )
            false = fall >= 1 - margin or rise <= 1 + margin
        elif verdict == "monotone":
            false = {
                "rises": falls < 1 - margin,
                "falls": rises > 1 + margin,
                "level": falls < 1 - margin or rises > 1 + margin,
            }[params["direction"]]
        missed = None
        if falls < 1 - 2 * margin and rises > 1 + 2 * margin:
            missed = verdict != "broken"
        intervals = [
            (truth[e["value"]] / truth[e["start"]], e) for e in finding["evidence"]["estimates"]
        ]
        return false, missed, [] if memory else intervals

    def memory_ratio(self, finding: dict[str, Any]) -> Any:
        subject, verdict = finding["subject"], finding["verdict"]
        mine, theirs = (
            self.peak(subject[who], subject["mask"] == "causal")
            for who in ("implementation", "baseline")
        )
        sides = {"less": [], "more": [], "equal": []}
        for size in mine:
            if size in theirs:
                share = float(f"{mine[size] / theirs[size]:.3g}")
                sides["less" if share < 1 else "more" if share > 1 else "equal"].append(size)
        false = finding["params"].get("values", []) != sides.get(verdict, [])
        return false, false, []

    def out_of_memory(self, finding: dict[str, Any]) -> Any:
        subject = finding["subject"]
        failed = sorted(
            shape.seq_len
            for name, shape in self.dataset.oom
            if (name, shape.causal) == (subject["implementation"], subject["mask"] == "causal")
        )
        found = finding["params"]["failed"]
        return found != failed, (found != failed) if failed else None, []

    def roofline(self, finding: dict[str, Any]) -> Any:
        subject, verdict = finding["subject"], finding["verdict"]
        causal, timed = subject["mask"] == "causal", subject["pass"]
        truth = self.time(subject["implementation"], causal, timed)
        false = False
        missed: bool | None = None
        intervals = []
        for estimate in finding["evidence"]["estimates"]:
            size = estimate["value"]
            shape = _shape(size, causal)
            work = costs.flops(shape)[timed] / self.ceilings["rate"]
            moved = costs.compulsory_bytes(shape, "float16")[timed] / self.ceilings["bandwidth"]
            matrix, copy = (100 * share * 1e3 / truth[size] for share in (work, moved))
            right = (
                "model_error"
                if matrix > 100
                else "neither"
                if max(matrix, copy) < 50
                else "compute_bound"
                if matrix >= copy
                else "memory_bound"
            )
            # Above 100% is called an error only where the interval is wholly above it.
            wrong = verdict != right and not (100 < matrix <= 105 and verdict != "neither")
            false |= wrong
            margins = [abs(matrix / 100 - 1), abs(max(matrix, copy) / 50 - 1)]
            if min(margins) > 2 * MARGIN and abs(matrix / copy - 1) > 2 * MARGIN:
                missed = bool(missed) or verdict != right
            intervals += [
                (matrix, estimate["matrix_percent"]),
                (copy, estimate["copy_percent"]),
            ]
        return false, missed, intervals


def anomalies(
    dataset: Planted, findings: Sequence[dict[str, Any]]
) -> Iterator[tuple[str, bool, bool, bool | None]]:
    """Of each pass: which check, whether it was said, whether falsely, whether it was missed."""
    found = {
        (
            finding["verdict"],
            finding["subject"]["implementation"],
            _shape(finding["params"]["value"], finding["subject"]["mask"] == "causal"),
            finding["subject"]["pass"],
        )
        for finding in findings
        if finding["kind"] == "anomaly" and finding["verdict"] != "none"
    }
    for key, planted in dataset.passes.items():
        if key[:2] in dataset.oom:
            continue
        unsteady = abs(planted.drift) > UNSTEADY or planted.spread > 0.2
        said = ("unstable", *key) in found
        yield "anomaly: unstable", said, said and not unsteady, not said if unsteady else None
        factor = dataset.spikes.get(key, 1.0)
        said = ("outlier", *key) in found
        plain = abs(math.log(factor)) > math.log(2 * OUTLIER - 1)
        yield "anomaly: outlier", said, said and factor == 1.0, not said if plain else None


def judge_claim(finding: dict[str, Any], dataset: Planted, times: dict[Key, float]) -> Any:
    """Whether a claim's verdict is false, whether it misses what is plain, and the intervals."""
    params, verdict = finding["params"], finding["verdict"]
    least, most = params["wanted_least"] or 0.0, params["wanted_most"] or math.inf
    truths, intervals = [], []
    for estimate in finding["evidence"]["estimates"]:
        values = []
        for name, shape in map(_parsed, estimate["runs"]):
            timed, _, quantity = estimate["metric"].rpartition("_")
            if estimate["metric"] == "memory":
                values.append(dataset.peaks[name, shape])
            elif quantity == "time":
                values.append(times[name, shape, timed])
            else:
                values.append(costs.flops(shape)[timed] / 1e9 / times[name, shape, timed])
        truths.append(_true_figure(values, params["compare"]))
        if estimate["metric"] != "memory" and estimate["estimate"] is not None:
            intervals.append((truths[-1], estimate))
    holds = all(least <= truth <= most for truth in truths)
    false = (verdict == "confirmed" and not holds) or (verdict == "contradicted" and holds)
    missed = None
    if verdict != "other_device" and not any(map(math.isnan, truths)):
        room = 1 + 2 * MARGIN
        if all(least * room <= truth <= most / room for truth in truths):
            missed = verdict != "confirmed"
        elif any(truth < least / room or truth > most * room for truth in truths):
            missed = verdict != "contradicted"
    return false, missed, intervals


def _true_figure(values: Sequence[float], compare: str) -> float:
    """What a claim's test comes to; not a number where there is no rise to compare with."""
    if compare == "times":
        first, *others = values
        return first * math.prod(v**p for v, p in zip(others, (-1, -1, 1), strict=False))
    a, b, c, d = values
    return (a - b) / (c - d) if c > d else math.nan


def _parsed(run: str) -> tuple[str, Shape]:
    name, b, n, h, e, mask, *_ = run.split()
    return name, Shape(int(b[1:]), int(n[1:]), int(h[1:]), int(e[1:]), mask == "causal")


def differences(findings: Sequence[dict[str, Any]]) -> int:
    """How many findings claim any difference between implementations, or between masks."""
    return sum(
        bool(finding["params"].get("faster_at") or finding["params"].get("slower_at"))
        or finding["params"].get("trend", "none") != "none"
        or finding["verdict"] == "crosses"
        for finding in findings
        if finding["kind"] in ("speedup", "causal_effect", "crossover")
    )


@dataclass
class Scores:
    """All kinds' scores, and what was claimed of implementations that are identical."""

    kinds: dict[str, Score] = field(default_factory=dict)
    datasets: dict[str, int] = field(default_factory=dict)
    identical_checks: int = 0
    identical_differences: int = 0

    def of(self, kind: str) -> Score:
        return self.kinds.setdefault(kind, Score())

    def text(self) -> str:
        """The scores as a table in Markdown."""
        lines = [
            "| kind | findings | decided | false | plain ones missed | intervals that hold |",
            "|---|---|---|---|---|---|",
        ]
        for kind, score in sorted(self.kinds.items()):
            missed = f"{score.missed} of {score.plain}" if score.plain else "–"
            held = (
                f"{score.held} of {score.intervals} ({100 * score.held_share:.1f}%)"
                if score.intervals
                else "–"
            )
            lines.append(
                f"| {kind} | {score.findings} | {score.decided} | "
                f"{score.false} ({100 * score.false_share:.1f}%) | {missed} | {held} |"
            )
        planted = ", ".join(f"{count} {kind}" for kind, count in sorted(self.datasets.items()))
        return "\n".join(
            [
                *lines,
                "",
                f"{sum(self.datasets.values())} datasets: {planted}.",
                f"Of identical implementations and masks, {self.identical_checks} findings, "
                f"{self.identical_differences} of which claim a difference.",
            ]
        )


def score(
    datasets: int,
    seed: int,
    folder: Path,
    seen: Callable[[list[dict[str, Any]]], None] = lambda findings: None,
) -> Scores:
    """Plant datasets, derive their findings and hold each against the truth.

    To these come a twelfth as many of the lab's shapes, for the published claims. `seen` is called
    with each dataset's findings.
    """
    scores = Scores()
    published = read_claims(CLAIMS)
    none: dict[str, Any] = {"sources": {}, "claims": []}
    for index in range(datasets):
        random = np.random.default_rng([seed, index])
        dataset = PLANTS[index % len(PLANTS)](random)
        ceilings = plant_ceilings(dataset, random)
        home = folder / str(index)
        plan = write_dataset(dataset, home, random)
        estimates = Estimates()
        sweep = read_sweep(plan, home / "tables", estimates)
        found = [
            finding.to_json()
            for finding in derive([sweep], none, read_ceilings(ceilings, estimates))
        ]
        seen(found)
        scores.datasets[dataset.kind] = scores.datasets.get(dataset.kind, 0) + 1
        judge = Judge(dataset, ceilings["truth"])
        for finding in found:
            if finding["kind"] != "anomaly":
                judged = getattr(judge, finding["kind"])(finding)
                scores.of(finding["kind"]).add(finding["verdict"], *judged)
        for kind, said, false, missed in anomalies(dataset, found):
            scores.of(kind).add(kind if said else "", false, missed)
        if dataset.identical:
            scores.identical_checks += len(found)
            scores.identical_differences += differences(found)
    for index in range(datasets // 12):
        random = np.random.default_rng([seed, datasets + index])
        dataset = lab(random)
        device = ("NVIDIA GeForce RTX 3070", DEVICE)[index % 2]
        home = folder / f"lab{index}"
        plan = write_dataset(dataset, home, random, device)
        sweep = read_sweep(plan, home / "tables", Estimates())
        found = [finding.to_json() for finding in claims(published, [sweep])]
        seen(found)
        scores.datasets["lab"] = scores.datasets.get("lab", 0) + 1
        times = {key: true_median(planted) for key, planted in dataset.passes.items()}
        for finding in found:
            if finding["evidence"]["estimates"]:
                judged = judge_claim(finding, dataset, times)
                scores.of("claim").add(finding["verdict"], *judged)
    return scores


def main() -> None:
    """Print the scores."""
    datasets, seed = (int(value) for value in (*sys.argv[1:], *("360", "1")[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as folder:
        print(score(datasets, seed, Path(folder)).text())


if __name__ == "__main__":
    main()
