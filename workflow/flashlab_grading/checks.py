"""What grading speaks of, and the checks of one submission's own results (arithmetic: `lab5`).

An unknown device is taken for the fastest one known, so that no sound result fails; no ceiling of a
CPU is known. **Plausibility** warns, since another process on the machine makes any time longer and
a kernel may be slow at one size; only samples that are all equal, or the same noise everywhere, are
impossible. Times under 0.3 ms, or of few steps of a coarse clock, prove nothing by their order.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations, product

import pandas as pd

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.devices import find_device, kind_of_device, known_devices
from flashlab.lab5.assigning import File, Line, Option, Verdict, stated
from flashlab.lab5.results import Result, is_cpu
from flashlab.lab5.words import FLASH2, NAIVE, SIZES, TIMED, described
from flashlab.records import Record

OWN_CHECKS = ("form", "arithmetic", "identity", "physics", "plausibility", "coverage")
CHECKS, PASSES = (*OWN_CHECKS, "copies", "reproduction"), TIMED
BADGES = ("available", "functional", "reproduced")  # in the sense of the ACM's
LAUNCH_SECONDS = 0.3e-3
"""Shorter times are mostly kernel launches: they have no order, and vary between sessions."""

VERDICTS: tuple[Verdict, ...] = ("fail", "warn", "not_checked", "pass")
"""From the worst on; a whole check's verdict is the worst of its lines. What was not checked has
not passed, so it outweighs a pass."""


@dataclass
class Submission:
    """One subfolder or archive: its results, its device, the lines on it, its times, what failed.

    Of its `times` (`copies.times_of`), those `is_sound` whose run is known and that no check of its
    own speaks against.
    """

    name: str
    results: Sequence[Result] = ()
    device: str | None = None
    lines: list[Line] = field(default_factory=list)
    times: pd.DataFrame = field(default_factory=pd.DataFrame)
    failed: Sequence[Result] = ()

    def add(self, lines: Iterable[Line]) -> None:
        """Add lines on this submission, in the order of files and checks."""
        self.lines += [replace(line, submission=self.name) for line in lines]
        self.lines.sort(key=lambda line: (line.file, CHECKS.index(line.check)))

    def of(self, check: str) -> list[Verdict]:
        """The verdicts of a check's lines."""
        return [line.verdict for line in self.lines if line.check == check]

    def verdict(self, check: str) -> Verdict:
        """The worst verdict of a check, ``not_checked`` where there is no line."""
        return min(self.of(check), key=VERDICTS.index, default="not_checked")

    def part(self, check: str) -> tuple[int, int] | None:
        """Of how many lines a check was made, and of how many in all, where it was made in part."""
        done = [verdict != "not_checked" for verdict in self.of(check)]
        is_part = self.verdict(check) == "not_checked" and any(done)
        return (sum(done), len(done)) if is_part else None

    @property
    def badges(self) -> tuple[str, ...]:
        """The badges that it has earned; each requires those before it."""
        passed = {x for x in CHECKS if self.of(x) and {*self.of(x)} <= {"pass", "warn"}}
        earned = (
            {*self.of("form")} == {"pass"} and "coverage" in passed,
            {*OWN_CHECKS[1:5]} <= passed and "fail" not in self.of("copies"),
            "reproduction" in passed,
        )
        return BADGES[: (*earned, False).index(False)]


# Physics


CLOCK_ALLOWANCE, BANDWIDTH_ALLOWANCE = 1.25, 1.1
"""Largest clock over the stated boost clock (an RTX 3070 reaches 2.1 GHz of 1.73), and bandwidth
over that of the data sheet."""

SCORE_PASSES = 4
"""Least number of times that the naive implementation moves N × N numbers in each pass: scores and
probabilities forward, their gradients backward, each written and read once."""


def bytes_moved(option: Option, name: str, l2_bytes: float) -> float:
    """The least bytes that pass between chip and memory in the pass `name`, in float16.

    Each tensor moves once (`costs.compulsory_tensors`), and the naive implementation's scores move
    as well. As much of each as the L2 cache can hold is taken to stay there.
    """
    who, shape = option
    tensors = list(costs.compulsory_tensors(shape)[name])
    tensors += [costs.naive_scores(shape)] * SCORE_PASSES if who == NAIVE else []
    return sum(max(0.0, size - l2_bytes) for size in tensors)


def check_physics(file: File, step: float = 0.0) -> Line:
    """A line for the first pass that the device could not have done, or that all were possible.

    Each time may be a `step` of its clock longer. Where no run is known, only the rates are
    compared with the ceiling.
    """
    result, named = file.result, file.result.said.get("device")
    known, highest = find_device(named), max(result.rates[name] for name in PASSES)
    device = known or max(known_devices(), key=lambda device: device.peak_tflops["float16"])
    ceiling = device.peak_tflops["float16"] * CLOCK_ALLOWANCE
    most = f"≤ {ceiling:.4g} TFLOP/s"
    for name in PASSES:
        params, seconds = {"device": device.name, "pass": name}, result.seconds[name] + step
        if (rate := result.rates[name]) * result.seconds[name] / seconds > ceiling:
            return Line("fail", "physics.rate", result.name, params, most, f"{rate:.6g} TFLOP/s")
        moved = (bytes_moved(option, name, device.l2_bytes) for option in file.options)
        least = min(moved, default=0.0) / (device.bandwidth * 1e9 * BANDWIDTH_ALLOWANCE)
        if seconds < least and not is_cpu(named):
            texts = f"≥ {least * 1e3:.4g} ms", f"{seconds * 1e3:.4g} ms"
            return Line("fail", "physics.bytes", result.name, params, *texts)
    if is_cpu(named):
        return Line("not_checked", "physics.cpu", result.name, found=f"{highest:.4g} TFLOP/s")
    code, params = "pass" if known else "pass_unknown", {"device": device.name}
    return Line("pass", f"physics.{code}", result.name, params, most, f"{highest:.4g} TFLOP/s")


# Plausibility


STEPS = 20
"""Fewest steps of a clock in a time that is compared with another."""

TWICE, LONG_SECONDS = 1.99, 1e-3
"""With so many times another's operations and bytes (what a process holds anyway keeps these below
twice) a run must not be faster, from the time on whose launches cannot turn the order around."""

INVERSION, LAUNCH_SCATTER = 1.1, 0.15e-3
"""So many times faster, and so many seconds, a shorter one may be: an H200 took 0.44 ms
for a naive backward of a dozen kernels, and 0.36 for one of twice the work."""

PASS_RATIO, ENOUGH = (0.25, 9.5), 8
"""Range of backward over forward time, which one disturbed pass seldom leaves (0.9 to 4 on the GPUs
measured); fewest samples judged."""


CLASS_SIZE, CLASS_FACTOR = 5, 1.9
"""Fewest submissions with the same point, of the same device, for its median to count; and the
factor by which a point, relative to the level of its submission, or that level may be off."""


def _work(option: Option) -> list[float]:
    """Operations and bytes held by a run; Flash2's with its padded head sizes."""
    who, shape = option
    if who == NAIVE:
        return [costs.forward_flops(shape), costs.naive_peak_memory(shape, workspaces=0)]
    padded = -(-shape.head_dim // 32) * 32 / shape.head_dim
    return [costs.forward_flops(shape) * padded, costs.flash2_peak_memory(shape)]


def check_plausibility(files: Sequence[File], step: float) -> list[Line]:
    """Contradictions among a submission's own files; a single line where there are none.

    A file that can be one of several runs is compared as each of them: they have the same work. One
    that takes longer than another of more work does so in all passes that are long; each is named
    once. Where no file's run is known there is no line. `step` is the clock's.
    """
    points = [(f.result, o) for f in files for o in f.options if o[0] in (NAIVE, FLASH2)]
    found, sweeps = dict[str, Line](), defaultdict[object, list[tuple[Result, list[float]]]](list)
    (low, high), least = PASS_RATIO, max(LAUNCH_SECONDS, STEPS * step)
    for result, (who, shape) in points:
        times = [result.seconds[name] for name in PASSES]
        is_long = max(times) >= least and min(times) >= STEPS * step
        ratio = float(f"{times[1] / times[0]:.3g}")  # as it is shown
        if is_long and not low <= ratio <= high:
            texts = f"{low:g} – {high:g}", f"{ratio:g}"
            found[result.name] = Line("warn", "plausibility.ratio", result.name, {}, *texts)
        for name in SIZES if result.name not in found else ():  # else it proves nothing of others
            others = who, name, Shape.of({**shape.parameters, name: 0})
            sweeps[others].append((result, _work((who, shape))))
    for (less, some), (other, more) in (x for s in sweeps.values() for x in permutations(s, 2)):
        is_more = min(b / a for a, b in zip(some, more, strict=True)) >= TWICE
        both = [(less.seconds[name], other.seconds[name]) for name in PASSES if is_more]
        both = [times for times in both if min(times) >= least]
        limits = (t if t >= LONG_SECONDS else INVERSION * t + LAUNCH_SCATTER for _, t in both)
        if both and all(t > limit for (t, _), limit in zip(both, limits, strict=True)):
            texts = f"< {both[-1][1] * 1e3:.4g} ms", f"{both[-1][0] * 1e3:.4g} ms"
            line = Line("warn", "plausibility.order", less.name, {"other": other.name}, *texts)
            found.setdefault(less.name, line)
    count = {"count": str(len({result.name for result, _ in points}))}
    passed = [Line("pass", "plausibility.pass", params=count)] if points else []
    return [found[name] for name in sorted(found)] or passed


def check_samples(results: Iterable[Result]) -> Iterator[Line]:
    """Lines for the records whose samples no measurement gives: all equal, or one noise in several.

    None for the others.
    """
    noises = defaultdict[tuple[float, ...], dict[str, None]](dict)
    for result in results:
        for name, own in result.samples.items():
            # A clock repeats short times.
            if len(own) >= ENOUGH and LAUNCH_SECONDS <= min(own) == max(own):
                yield Line("fail", "plausibility.identical", result.name, {"pass": name})
            elif len({*own}) >= ENOUGH:
                median = statistics.median(own)
                noises[tuple(float(f"{x / median:.6g}") for x in sorted(own))][result.name] = None
    for names in map(list, noises.values()):
        for file in names if len(names) > 1 else ():
            yield Line("fail", "plausibility.one_noise", file, {"other": names[file == names[0]]})


def class_outliers(times: pd.DataFrame) -> Iterator[Line]:
    """Warnings about points, and whole submissions, that are far from those of the same device.

    `times` are those of a class (`copies.times_of`), by `owner`. Each is compared relative to its
    submission's level, the median of its ratios to the class: fast in a pass, or slow in both, as
    another process makes one slow. Where no device is named, only levels are.
    """
    keys = ["device", "run", "pass"]
    least, low, high = LAUNCH_SECONDS, 1 / CLASS_FACTOR, CLASS_FACTOR
    points = times[times["seconds"].ge(STEPS * times["clock"])].drop_duplicates(["owner", *keys])
    of_class = points.groupby(keys)["seconds"]
    points = points.assign(median=of_class.transform("median"), size=of_class.transform("size"))
    points = points.query(f"size >= {CLASS_SIZE} and {least} <= median and {least} <= seconds")
    levels = (points["seconds"] / points["median"]).groupby(points["owner"]).median()
    for owner, level in levels[~levels.between(low, high)].items():
        params, texts = {"factor": f"{level:.3g}"}, (f"{low:.2g} – {high:g}", f"{level:.3g}")
        yield Line("warn", "plausibility.level", "", params, *texts, str(owner))
    points = points.assign(usual=points["median"] * points["owner"].map(levels))
    ratio = points["seconds"] / points["usual"]
    is_slow = ratio.gt(high).groupby([points["owner"], points["file"]]).transform("sum").eq(2)
    for point in points[(ratio.lt(low) | is_slow) & points["device"].ne("")].to_dict("records"):
        params = {"pass": point["pass"], "factor": f"{high:g}"}
        texts = f"{point['usual'] * 1e3:.4g} ms", f"{point['seconds'] * 1e3:.4g} ms"
        yield Line("warn", "plausibility.class", point["file"], params, *texts, point["owner"])


# Coverage


EXPERIMENTS, VALUES = ("seq_len", "causal", "batch_size", "num_heads", "emb_dim"), 3


def _count(options: Iterable[Option], who: str, experiment: str) -> int:
    """The values of an implementation's largest sweep; of masks, the shapes that have both."""
    found = defaultdict[tuple[object, ...], set[object]](set)
    for sizes in (dict(shape.parameters) for name, shape in options if name == who):
        varied = sizes.pop(experiment)
        found[*sizes.values()].add(varied)
    if experiment == "causal":
        return sum(len(masks) == 2 for masks in found.values())
    return max(map(len, found.values()), default=0)


def check_coverage(files: Sequence[File], doubted: Sequence[Result]) -> Iterator[Line]:
    """A line for each experiment and implementation: present, missing, or possibly present.

    A file that can be several runs may be any of them. `doubted` are the results that other checks
    refute or could not check: an experiment that lacks only these is not missing, because the cause
    is reported there; labels of implementations may have been exchanged among them.
    """
    sure = [f.options[0] for f in files if len(f.options) == 1 and len(f.unassumed) < 2]
    every = [option for file in files for option in file.unassumed or file.options]
    said = [option for r in doubted if (option := stated(r.told))]
    untold = len(doubted) - len(said) + sum(not file.options for file in files)
    for who, experiment in product((NAIVE, FLASH2), EXPERIMENTS):
        values, most, told = (_count(o, who, experiment) for o in (sure, every, [*sure, *said]))
        code = "pass" if values >= VALUES else "possible" if most >= VALUES else "doubted"
        if max(most, told) + untold < VALUES:
            code = "few_masks" if experiment == "causal" and values else "missing"
        verdicts: dict[str, Verdict] = {"pass": "pass", "few_masks": "warn", "missing": "fail"}
        verdict = verdicts.get(code, "not_checked")
        params = {"experiment": experiment, "implementation": who}
        yield Line(verdict, f"coverage.{code}", "", params, f"≥ {VALUES}", str(values))


# Reproduction (check 8): a sample of the declared runs, measured here by the course's protocol


TOLERANCE = 0.25
"""The share by which times on the device that a submission names may differ from those here."""

DISTURBANCES = {"cpu_load", "shared_device"}
"""Warnings in a record that mean that other processes were using the machine."""


def declared(result: Result, here: str) -> Option | None:
    """The run that a result is said to be, if of the device `here`: by a row, a record, a name."""
    is_here = kind_of_device(result.said.get("device")) == kind_of_device(here)
    return stated(result.told) if is_here else None


def _compared(result: Result, record: Record) -> Line:
    """A line for a file, whose run was measured on the same device, by its passes that are long."""
    code = "too_short" if record.status == "ok" else "not_measured"
    params, texts, most = {"run": described(result.told), "status": record.status}, ("", ""), -1.0
    for name in PASSES if record.status == "ok" else ():
        mine, theirs = record.metrics[f"{name}_time"].value / 1e3, result.seconds[name]
        if max(mine, theirs) >= LAUNCH_SECONDS and (off := abs(theirs / mine - 1)) > most:
            is_disturbed = any(warning["code"] in DISTURBANCES for warning in record.warnings)
            code = "pass" if off <= TOLERANCE else "disturbed" if is_disturbed else "fail"
            params |= {"tolerance": f"{TOLERANCE:.0%}", "pass": name}
            most, texts = off, (f"{mine * 1e3:.4g} ms", f"{theirs * 1e3:.4g} ms")
    verdict: Verdict = "pass" if code == "pass" else "fail" if code == "fail" else "not_checked"
    return Line(verdict, f"reproduction.{code}", result.name, params, *texts)


def check_reproduction(
    results: Iterable[Result], measured: Mapping[Option, Record], here: str
) -> list[Line]:
    """Lines that compare a submission's files with the runs `measured` on the device `here`."""
    runs = ((declared(result, here), result) for result in results)
    lines = [_compared(own, measured[run]) for run, own in runs if run and run in measured]
    code = "reproduction.none_sampled" if measured else "reproduction.not_asked"
    return lines or [Line("not_checked", code)]
