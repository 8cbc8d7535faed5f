"""From a folder's results to runs: by what is said, by their numbers, and by the folder as a whole.

A result's FLOPs (rate × time) are 4·B·H·N²·d, half of that when causal, and its peak memory
in float16 on CUDA is known to the byte (`costs`). They leave a few runs of each file: mostly, how
B·H splits is open. What names and tables do not say, the folder does: its files are sweeps of one
parameter at a time from a base point, and both implementations were measured at the same shapes.
Grading checks results one by one by the same functions.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache, lru_cache
from itertools import permutations
from math import isclose, isqrt
from typing import Any, Literal

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.devices import find_device, known_devices
from flashlab.lab5 import words
from flashlab.lab5.results import EXACT, RATIOS, FolderError, Result, listed
from flashlab.lab5.words import ATTRIBUTES, FLASH2, HEAD_DIM, NAIVE, SIZES, Said, described

Option = tuple[str, Shape]
"""A run that a result can be: implementation and shape."""

MOST, MAX_LENGTH = 5000, 2**17
"""Most sequence lengths of a head's size that are tried (numbers that allow more tell nothing), and
the longest."""

COARSE = 0.02
"""Relative rounding above which numbers determine no run."""


@cache
def known_workspaces() -> frozenset[int]:
    """The bytes of the two cuBLAS workspaces on known devices."""
    return frozenset(d.cublas_workspaces for d in known_devices() if d.cublas_workspaces)


def workspaces_of(shape: Shape, memory: int) -> int:
    """The bytes of the cuBLAS workspaces if the naive implementation took `memory` at a shape."""
    return memory - costs.naive_peak_memory(shape, 0)


def _takers(shape: Shape, memory: int) -> Iterator[str]:
    """The implementations that take these bytes at a shape."""
    if costs.has_memory_model(shape):
        if costs.flash2_peak_memory(shape) == memory:
            yield FLASH2
        if workspaces_of(shape, memory) in known_workspaces():
            yield NAIVE


@lru_cache(65536)
def _of_product(product: float, error: float, memory: int, causal: bool) -> list[Option] | None:
    """Every run with B·H·N²·d = `product`, within an `error`, of `memory` bytes; None of many."""
    import numpy as np  # calls that import no folder do not wait for it

    found: list[Option] = []
    for d in costs.HEAD_DIMS:
        quotient = product / d
        # Every run has at least q, k, v and three outputs: 12 bytes for each of B·N·E elements.
        least_length = max(2 * d, int(12 * product / memory))
        lengths = np.arange(least_length, min(isqrt(int(quotient)), MAX_LENGTH) + 2)
        squares = lengths.astype(float) ** 2
        many = np.rint(quotient / squares)
        fits = (many > 0) & (np.abs(many * squares - quotient) <= error * quotient)
        if np.count_nonzero(fits) > MOST:
            return None
        for n, groups in zip(lengths[fits].tolist(), many[fits].astype(int).tolist(), strict=True):
            least = next((f for f in range(2, isqrt(groups) + 1) if groups % f == 0), groups)
            # How B·H splits matters only in that the naive one copies where both are above 1.
            probes = [Shape(groups // h, n, h, h * d, causal) for h in {1, least}]
            if any(who for probe in probes for who in _takers(probe, memory)):
                heads = (h for h in range(1, groups + 1) if groups % h == 0)
                shapes = (Shape(groups // h, n, h, h * d, causal) for h in heads)
                found += [(who, shape) for shape in shapes for who in _takers(shape, memory)]
    return found


def possible_runs(result: Result) -> list[Option]:
    """Every run that takes the FLOPs, within rounding, and the memory of a result, to the byte."""
    memory, flops, options = result.peak_mib * costs.MIB, result.forward_flops, list[Option]()
    if memory % 1 or flops < 32 or result.error > COARSE:
        return []
    for causal, operations in ((False, 4), (True, 2)):
        product = flops / operations
        if result.error <= EXACT:  # a whole multiple of 8, as d is
            product = round(product / 8) * 8.0
        if isclose(product * operations, flops, rel_tol=EXACT):
            if (found := _of_product(product, result.error, int(memory), causal)) is None:
                return []
            options += found
    return options


def has_flops(result: Result, shape: Shape) -> bool:
    """True if a result has the operations of a shape, within its rounding."""
    return isclose(result.forward_flops, costs.forward_flops(shape), rel_tol=result.error)


SCRIPT_DEFAULTS = {"batch_size": 32, "num_heads": 32, "emb_dim": 2048}
"""The sizes that the course's script measures where a flag is not given."""


@dataclass
class File:
    """A result on its way to a run: the `options` that are left, and remarks for its reader.

    `possible` are the runs that its numbers allow with its device's cuBLAS `workspaces`.
    `allowed` are the options before the folder was looked at, `unassumed` those that were left
    before the script's defaults were assumed of any.
    One that `is_open` is asked for, whatever the folder would make of it.
    """

    result: Result
    possible: list[Option]
    workspaces: frozenset[int] = frozenset()
    options: list[Option] = field(default_factory=list)
    unassumed: list[Option] = field(default_factory=list)
    allowed: list[Option] = field(default_factory=list)
    is_open: bool = False
    remarks: list[tuple[str, dict[str, str]]] = field(default_factory=list)


def describe(option: Option) -> str:
    """A run's family in one line: ``Flash2 B·H=512 N=1024 d=64 full``."""
    who, s = option
    mask = "causal" if s.causal else "full"
    return f"{who} B·H={s.batch_size * s.num_heads} N={s.seq_len} d={s.head_dim} {mask}"


def _values(option: Option) -> dict[str, Any]:
    return {"implementation": option[0], HEAD_DIM: option[1].head_dim, **option[1].parameters}


def matching(options: Iterable[Option], said: Said) -> list[Option]:
    """The options of which a statement is true."""
    wanted = {name: said[name] for name in (*ATTRIBUTES, HEAD_DIM) if name in said}
    return [option for option in options if wanted.items() <= _values(option).items()]


def stated(said: Said) -> Option | None:
    """The run that a statement is of, None if it leaves a part open."""
    return (said["implementation"], Shape.of(said)) if {*ATTRIBUTES} <= said.keys() else None


def memories(file: File, option: Option) -> list[int]:
    """The bytes that a run takes by the model of its memory, with each of a file's workspaces."""
    if option[0] == NAIVE:
        return [costs.naive_peak_memory(option[1], size) for size in file.workspaces]
    return [costs.flash2_peak_memory(option[1])] if option[0] == FLASH2 else []


def has_exact_memory(option: Option) -> bool:
    """True if the model of a run's memory is exact to the byte."""
    exact = {NAIVE: costs.naive_memory_is_exact, FLASH2: costs.flash2_memory_is_exact}
    return option[0] in exact and exact[option[0]](option[1])


def contradiction(file: File, said: Said) -> tuple[str, str] | None:
    """The code and the text of why a result cannot be what is said of it: its FLOPs, or its memory.

    Of a run that is said in part, only runs that its numbers allow can tell.
    """
    result, option, is_elsewhere = file.result, stated(said), False
    if option and not has_flops(result, option[1]):
        made = f"time and rate make {result.forward_flops:.9g} FLOPs forward, and that run takes"
        return "flops", f"{made} {costs.forward_flops(option[1]):.9g}"
    if not result.is_on_gpu or said.get("implementation", NAIVE) not in (NAIVE, FLASH2):
        return None
    if option and has_exact_memory(option):
        mib = Decimal(repr(result.peak_mib)).normalize()  # rounded to one, or to four digits
        last = min(int(mib.as_tuple().exponent), max(mib.adjusted() - 3, 0))
        errors = [abs(size / costs.MIB - result.peak_mib) for size in memories(file, option)]
        if min(errors) <= 0.501 * 10.0**last:
            return None
        is_elsewhere = option[0] == NAIVE and option in possible_runs(result)
    elif option or not file.possible or matching(file.possible, said):
        return None
    makers = {maker for maker, _ in file.possible}
    is_shape = said.get("implementation") in {*makers, None}
    code = "workspace" if is_elsewhere else "shape" if is_shape else "implementation"
    made = listed(sorted({*map(describe, file.possible)}), " or ", " or {} more")
    made = f"its FLOPs and memory are those of {made or 'no run that is known'}"
    return code if makers or is_elsewhere else "memory", made


def _with_sizes(file: File, said: Said) -> list[Option]:
    """The runs of these sizes, as far as said of this implementation and mask, that a file can be.

    Where memory tells nothing, of an implementation that is said, by FLOPs alone.
    """
    if said["emb_dim"] % said["num_heads"]:
        return []
    names = [said["implementation"]] if "implementation" in said else [NAIVE, FLASH2]
    masks = [said["causal"]] if "causal" in said else [False, True]
    options = [(name, Shape.of({**said, "causal": mask})) for name in names for mask in masks]
    fitting = [o for o in matching(options, said) if contradiction(file, _values(o)) is None]
    # Of a run whose memory is modelled, though not exactly, another that takes these bytes tells.
    is_known = file.possible and all(o[0] in (NAIVE, FLASH2) for o in fitting)
    modelled = [o for o in fitting if is_known and costs.has_memory_model(o[1])]
    return [o for o in fitting if o not in modelled or o in file.possible]


def _by_position(file: File, said: Said) -> bool:
    """Leave a file the runs whose B, N, H and E four bare numbers of its name are, if it has four.

    In the order of the script's flags, else in another one if only one run comes of it, and its
    memory is exact. Of a name that has just the four, no other run is concluded.
    """
    numbers = words.numbers_in_name(file.result.name)
    fours = [numbers[i : i + 4] for i in range(len(numbers) - 3)]
    fours = [four for four in fours if 0 not in four and max(four) <= words.MAX_SIZE]
    for orders in fours, [order for four in fours for order in permutations(four)]:
        named = (dict(zip(SIZES, order, strict=True)) for order in orders)
        fitting = [option for sizes in named for option in _with_sizes(file, {**said, **sizes})]
        file.options = matching(dict.fromkeys(fitting), said)
        is_one = len(file.options) == 1 and file.options[0] in file.possible
        if file.options and (orders is fours or is_one):
            return True
    file.options = []
    is_run = len(numbers) == 4 and fours and numbers[3] % numbers[2] == 0
    file.is_open = bool(is_run and not said.keys() & {*SIZES})
    return file.is_open


def _choose_options(file: File) -> None:
    """Leave a file the runs that its numbers and statements allow.

    A name's implementation or mask that the numbers rule out is left out of account, and said. Of
    sizes in a name that they rule out no run is concluded: the file `is_open`.

    FolderError where what is said, not only hinted, contradicts the numbers.
    """
    result = file.result
    problem, option, said = contradiction(file, result.said), stated(result.said), result.told
    if option and not problem:
        file.options = [option]
    elif not option and not said.keys() >= {*SIZES} and _by_position(file, said):
        return
    hints = [name for name in ("causal", "implementation") if name in result.hinted]
    for dropped in [(), *((word,) for word in hints), tuple(hints)] if not option else ():
        kept = {name: value for name, value in said.items() if name not in dropped}
        has_sizes = kept.keys() >= {*SIZES}
        file.options = _with_sizes(file, kept) if has_sizes else matching(file.possible, kept)
        if file.options and dropped:
            named = described({name: result.hinted[name] for name in dropped})
            file.remarks.append(("form.name_refuted", {"named": named}))
        if file.options:
            return
    if problem:
        raise FolderError(
            f"{result.name}: {described(result.said)} is declared, but {problem[1]}; correct the "
            "declaration, or leave the file out"
        )
    file.is_open = bool(file.possible) and not file.options


ALIKE, ALIKE_SHARE = 3, 0.8
"""Fewest naive files with the same unusual workspace for it to be a setting of CUBLAS, and their
least share among all that a name or a statement says are naive."""


def own_workspaces(result: Result) -> frozenset[int]:
    """The bytes that cuBLAS's workspaces can have on the device of a result, by default."""
    own = getattr(find_device(result.said.get("device")), "cublas_workspaces", None)
    return frozenset({own}) if own else known_workspaces()


def _workspaces_of(files: Sequence[File]) -> frozenset[int]:
    """The bytes of cuBLAS's workspaces in files of a device: those that most show, else its own.

    CUBLAS_WORKSPACE_CONFIG sets them.
    """
    sizes = Counter[int]()
    for result, option in ((file.result, stated(file.result.told)) for file in files):
        is_naive = option and option[0] == NAIVE and result.is_on_gpu
        if option and is_naive and has_exact_memory(option) and has_flops(result, option[1]):
            size = workspaces_of(option[1], round(result.peak_mib * costs.MIB))  # to 0.05 MiB
            sizes[next((own for own in known_workspaces() if abs(own - size) < 53e3), size)] += 1
    (size, count), *_ = sizes.most_common(1) or [(-1, 0)]
    is_shown = size >= 0 and count >= max(ALIKE, ALIKE_SHARE * sum(sizes.values()))
    return frozenset({size}) if is_shown else own_workspaces(files[0].result)


def read_numbers(results: Iterable[Result]) -> list[File]:
    """Each result with the runs that its numbers allow, those of a device with its workspaces."""
    files = [File(r, possible_runs(r) if r.is_on_gpu else []) for r in results]
    of_device = defaultdict[str | None, list[File]](list)
    for file in files:
        of_device[file.result.said.get("device")].append(file)
    for those in of_device.values():
        sizes = _workspaces_of(those)
        for file in those:
            took, left = int(file.result.peak_mib * costs.MIB), file.possible
            file.workspaces = sizes
            file.possible = [o for o in left if o[0] != NAIVE or workspaces_of(o[1], took) in sizes]
    return files


def _lines(shape: Shape) -> list[tuple[int, ...]]:
    """The four sweeps that a point is on: each size left out, after its place."""
    sizes = [getattr(shape, name) for name in SIZES]
    return [(i, *sizes[:i], *sizes[i + 1 :]) for i in range(len(sizes))]


def _near(bases: Iterable[Shape], file: File) -> list[Option]:
    """The options of a file that differ in at most one size from one of these base points."""
    lines = {line for base in bases for line in _lines(base)}
    return [option for option in file.options if not lines.isdisjoint(_lines(option[1]))]


def _best_bases(files: Sequence[File]) -> list[Shape]:
    """The points, without a mask, that most files are near; several where they are level."""
    on_line = defaultdict[tuple[int, ...], set[int]](set)
    for i, file in enumerate(files):
        for line in (line for _, shape in file.options for line in _lines(shape)):
            on_line[line].add(i)
    every = {replace(shape, causal=False) for file in files for _, shape in file.options}
    near = {base: len(set[int]().union(*map(on_line.__getitem__, _lines(base)))) for base in every}
    most = max(near.values(), default=0)
    return sorted(base for base, count in near.items() if count == most)


def _agree_in_pairs(files: Sequence[File]) -> None:
    """Leave open files what the other implementation can be too, where that is one thing."""
    often = Counter(option for file in files for option in file.options)
    names, changed = {who for who, _ in often}, False
    for file in files:
        own = [(w, often[w, s], s) for w, s in file.options]
        paired = [(w, s) for w, n, s in own if any(often[o, s] >= n for o in names - {w})]
        if len(paired) == 1 < len(file.options):
            file.options, changed = paired, True
    if changed:
        _agree_in_pairs(files)


def _doubt_strangers(files: Sequence[File]) -> None:
    """Open the files that by a part of their names stand alone, and without it among the others.

    Such as two whose names were exchanged: ``bs4`` can be of B 4 at twice the length with a mask.
    """
    bases = _best_bases(files)
    for file in files if len(bases) == 1 else ():
        hints = file.result.hinted.keys() & {*SIZES}
        if len(file.options) == 1 and 0 < len(hints) < len(SIZES):
            shapes = file.options[0][1], *bases  # of which the heads alone may differ
            own, base = ((s.batch_size, s.seq_len, s.head_dim) for s in shapes)
            others = File(file.result, [], options=matching(file.possible, file.result.said))
            if own != base and not _near(bases, file) and _near(bases, others):
                file.options, file.is_open = [], True


def _settle(files: Sequence[File]) -> None:
    """Leave each file the options that the folder allows: near the base that most files are near.

    What is near none has another base. Of bases that are level because B·H can split in several
    ways, the one with the most of the script's defaults is assumed.
    """
    left, settled = [file for file in files if file.options], list[File]()
    while left:
        level, others = _best_bases(left), list[File]()
        defaults = [sum(getattr(b, n) == v for n, v in SCRIPT_DEFAULTS.items()) for b in level]
        chosen = [b for b, count in zip(level, defaults, strict=True) if count == max(defaults)]
        for file in left:
            here, every = _near(chosen, file), _near(level, file)
            (settled if here and len(chosen) == 1 else [] if here else others).append(file)
            if here and len(here) < len(every):
                families = {*map(describe, here)}
                here += [option for option in every if describe(option) not in families]
            file.options = here or file.options
            file.unassumed = every if len(chosen) < len(level) else file.unassumed
        left = others if len(others) < len(left) else []
    _agree_in_pairs(settled)
    _doubt_strangers(files)


def assign(files: list[File]) -> list[File]:
    """The files of a folder (`read_numbers`), each with the runs that it can be.

    FolderError where what is said of one contradicts its numbers.
    """
    for file in files:
        _choose_options(file)
        file.allowed = file.options
    _settle(files)
    bases = [{name: getattr(base, name) for name in SIZES} for base in _best_bases(files)]
    for file in files:
        alike, said = Counter(map(describe, file.unassumed)), file.result.told
        if len(file.options) == 1 and alike[describe(file.options[0])] > 1:
            file.remarks.append(("form.assumed", {}))
        if not file.options and not file.is_open and "implementation" in said:
            file.options = [o for base in bases for o in _with_sizes(file, {**base, **said})]
    return files


# The checks of results one by one: arithmetic, identity


Verdict = Literal["pass", "warn", "fail", "not_checked"]


@dataclass(frozen=True)
class Line:
    """One check of one file, or of a whole submission if `file` is empty.

    `code` is the key of its message in the labels and begins with its check, `params` are that
    message's parameters. Names are verbatim: they are escaped where they are shown.
    """

    verdict: Verdict
    code: str
    file: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    expected: str = ""
    found: str = ""
    submission: str = ""

    @property
    def check(self) -> str:
        """The check that it belongs to."""
        return self.code.partition(".")[0]


def check_arithmetic(result: Result) -> Line:
    """Rates × times are F, 2.5 F and 3.5 F, times add up, and are the medians of their samples."""
    seconds, rates, error = result.seconds, result.rates, 2 * result.error

    def failed(code: str, name: str, expected: float, found: float) -> Line:
        texts = f"{expected:.9g}", f"{found:.9g}"
        return Line("fail", f"arithmetic.{code}", result.name, {"pass": name}, *texts)

    for name, ratio in RATIOS.items():
        found = rates[name] * seconds[name] * 1e12 / result.forward_flops
        if not isclose(found, ratio, rel_tol=error):
            return failed("flops", name, ratio, found)
        median = statistics.median(result.samples.get(name) or [seconds[name]])
        if not isclose(median, seconds[name], rel_tol=max(EXACT, result.error)):
            return failed("samples", name, median, seconds[name])
    total = seconds["forward"] + seconds["backward"]
    if not isclose(seconds["forward_backward"], total, rel_tol=error):
        return failed("sum", "forward_backward", total, seconds["forward_backward"])
    if result.error > COARSE:
        return Line("not_checked", "arithmetic.coarse", result.name)
    code = "arithmetic.rounded" if result.error > EXACT else "arithmetic.pass"
    return Line("pass", code, result.name)


def check_identity(file: File) -> Line:
    """A file must be able to be the run that a row or its record states; a name accuses nobody."""
    result, said, told = file.result, file.result.said, file.result.told
    option, fitting = stated(said), matching(file.possible, told)
    is_said, who = bool(said.keys() & {*ATTRIBUTES}), said.get("implementation", NAIVE)

    def line(verdict: Verdict, code: str, found: Iterable[Option] = (), **params: str) -> Line:
        families = listed([*dict.fromkeys(map(describe, found))], " | ")
        declared = described(said if is_said else told)
        return Line(verdict, f"identity.{code}", result.name, params, declared, families)

    if problem := contradiction(file, said):
        makers = {who for who, _ in file.possible} - {said.get("implementation")}
        sizes = " / ".join(f"{size / costs.MIB:g}" for size in sorted(file.workspaces))
        params = {"declared": described(said), "other": " / ".join(sorted(makers))}
        failed = line("fail", problem[0], file.possible, workspaces=sizes, **params)
        shown = {"flops": f"{result.forward_flops:.9g} FLOPs"}.get(problem[0], failed.found)
        return replace(failed, found=shown or f"{result.peak_mib!r} MiB")
    is_cpu = not result.is_on_gpu and (result.run is None or result.run.device == "cpu")
    if is_cpu and option in possible_runs(result):
        return line("warn", "cuda_memory", filter(None, [option]))
    if not result.is_on_gpu or who not in (NAIVE, FLASH2):
        return line("not_checked", "no_model")
    if option:
        is_exact = result.peak_mib * costs.MIB in memories(file, option)
        is_checked = is_exact or has_exact_memory(option)
        verdict: Verdict = "pass" if is_checked else "not_checked"
        code = "pass" if is_exact else "rounded_memory" if is_checked else "no_model"
        return line(verdict, code, [option])
    if not (possible := matching(file.possible, said)):
        return line("not_checked", "partly_unknown")
    if stated(told) and fitting:
        return line("pass", "pass", fitting)
    if is_said and len({*map(describe, possible)}) == 1:
        return line("pass", "pass_partly", possible)
    return line("not_checked", "open", possible)


def check_results(results: Iterable[Result]) -> tuple[list[Line], list[File]]:
    """The lines on results, and those that no line refutes, with the runs that their numbers allow.

    A result that fails a check is in no later one, so that a fault is told once.
    """
    lines, computed = list[Line](), list[Result]()
    for result in results:
        lines.append(line := check_arithmetic(result))
        computed += [result] if line.verdict == "pass" else []
        for code in ("identity.no_flops", "physics.no_flops") if line.verdict != "pass" else ():
            lines.append(Line("not_checked", code, result.name))
    files = read_numbers(computed)
    unusual = {size for f in files for size in f.workspaces - own_workspaces(f.result)}
    for size in sorted(unusual):
        verdict: Verdict = "warn" if size in known_workspaces() else "pass"
        code = f"identity.workspace_{'of_another' if verdict == 'warn' else 'unusual'}"
        lines.append(Line(verdict, code, "", {"size": f"{size / costs.MIB:g}"}))
    judged = [check_identity(file) for file in files]
    sound = [f for f, line in zip(files, judged, strict=True) if line.verdict != "fail"]
    return lines + judged, sound
