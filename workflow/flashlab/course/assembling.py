"""From a folder's files to runs: by declarations, by numbers, and by the folder as a whole.

FLOPs and memory leave each file a few runs (`identity`): mostly, how B·H splits is open. What names
and tables do not say, the folder does: its files are sweeps of one parameter at a time from a base
point, and both implementations were measured at the same shapes.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from operator import itemgetter
from typing import Any

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.course.declaration import ATTRIBUTES, Declaration, kind_of_device, of_row
from flashlab.course.folder import CourseFile, CourseFolder, Remark
from flashlab.course.identity import (
    Candidate,
    Identification,
    candidates,
    fits,
    identify,
    known_workspaces,
)
from flashlab.course.results import Claim
from flashlab.course.runs_csv import OPEN, OUT_OF_MEMORY, RUNS_CSV, RUNS_CSV_COLUMNS
from flashlab.course.words import COURSE_DTYPE, FLASH2, NAIVE, SIZES
from flashlab.devices import known_devices
from flashlab.records import STATUSES
from flashlab.runs import Run

SCRIPT_DEFAULTS = {"batch_size": 32, "num_heads": 32, "emb_dim": 2048}
"""The sizes that the course's script measures where a flag is not given."""

FLASH2_CAPABILITY = 8.0
"""The least compute capability that flash-attn 2 runs on."""

SHOWN = 5
"""Most files that a message lists."""

SHAPE = (*SIZES, "causal")

Option = tuple[str, Shape]
"""A run that a file can be: implementation and shape."""

Base = tuple[int, ...]
"""A point from which one parameter at a time is swept: B, N, H and E."""


class FolderError(Exception):
    """A folder whose files cannot be assigned to runs: the reason and the remedy."""


class OpenFolderError(FolderError):
    """Some files can be several runs: `table` is the ``runs.csv`` to complete."""

    def __init__(self, message: str, table: str) -> None:
        super().__init__(message)
        self.table = table


@dataclass(frozen=True)
class FoundRun:
    """A measurement of a run, or that it failed: `file` is empty where a row says so.

    `remarks` are for the reader of the report.
    """

    run: Run
    file: str
    status: str = "ok"
    device_name: str | None = None
    remarks: tuple[Remark, ...] = ()


@dataclass
class _Entry:
    """A file on its way to a run: the options that are left.

    `unassumed` are those that were left before the script's defaults were assumed of any; None
    where that made no difference.
    """

    file: CourseFile
    identified: Identification
    options: list[Option]
    unassumed: list[Option] | None = None
    remarks: list[Remark] = field(default_factory=list)

    @property
    def option(self) -> Option | None:
        """The run of the file, None while several are left or none is known."""
        return self.options[0] if len(self.options) == 1 else None


def _base_of(shape: Shape) -> Base:
    return tuple(getattr(shape, name) for name in SIZES)


# The runs of a file by itself


def _members(candidate: Candidate) -> Iterator[Shape]:
    """Every shape of a candidate's family."""
    for heads in range(1, candidate.groups + 1):
        if candidate.groups % heads == 0:
            b, d = candidate.groups // heads, candidate.head_dim
            yield Shape(b, candidate.seq_len, heads, heads * d, candidate.causal)


def _differs(shape: Shape, said: Declaration) -> bool:
    return any(getattr(shape, n) != value for n, value in said.stated.items() if n in SHAPE)


def _options(identified: Identification) -> list[Option]:
    """The runs that fit a file's numbers and its declaration; none where too little is declared."""
    said = identified.declared
    if said.run:
        return [said.run]
    return sorted(
        {
            (candidate.implementation, shape)
            for candidate in identified.fitting
            for shape in _members(candidate)
            if fits(candidate, replace(said, **shape.parameters)) and not _differs(shape, said)
        }
    )


def _options_at(base: Base, entry: _Entry) -> list[Option]:
    """The runs of a file by its FLOPs alone, with a base point's sizes where none are declared."""
    said = entry.identified.declared
    if said.implementation is None:
        return []
    sizes = dict(zip(SIZES, base, strict=True)) | {
        name: value for name, value in said.stated.items() if name in SIZES
    }
    if sizes["emb_dim"] % sizes["num_heads"]:
        return []
    masks = (False, True) if said.causal is None else (said.causal,)
    shapes = [Shape(**sizes, causal=causal) for causal in masks]
    numbers = entry.file.numbers
    return [
        (said.implementation, shape)
        for shape in shapes
        if numbers.has_flops(costs.forward_flops(shape))
    ]


# Contradictions


def _is_in_milliseconds(identified: Identification) -> bool:
    """True if a file's numbers are of no run, but would be with its times divided by 1,000."""
    numbers, shape = identified.file.numbers, identified.declared.shape
    flops = numbers.forward_flops / 1e3
    if shape is not None:
        return math.isclose(flops, costs.forward_flops(shape), rel_tol=numbers.flops_error)
    memory = numbers.peak_mib * costs.MIB
    return not identified.possible and bool(candidates(flops, memory, known_workspaces()))


def _refuse_contradictions(file: CourseFile, identified: Identification) -> None:
    """FolderError where a file's declarations contradict one another, or its numbers."""
    declared = [*file.rows, *filter(None, [file.recorded])]
    for one, other in itertools.pairwise(declared):
        kinds = [kind_of_device(declaration.device_name) for declaration in (one, other)]
        if one.contradicts(other) or (None not in kinds and kinds[0] != kinds[1]):
            texts = [_described(declaration) for declaration in (one, other)]
            raise FolderError(
                f"{file.name}: {one.source} says {texts[0]}, but {_SOURCES[other.source]} says "
                f"{texts[1]}; correct the one that is wrong"
            )
    said, reading = identified.declared, identified.reading
    if _is_in_milliseconds(identified):
        raise FolderError(
            f"{file.name}: its times are 1,000 times what its rates leave for these runs, as "
            "milliseconds are; name the key time(ms) in place of time(s)"
        )
    stated = {name for name in said.stated if name not in said.hinted}
    if not stated or reading not in ("flops", "memory"):
        return
    if reading == "flops":
        wanted = f"{costs.forward_flops(said.shape):.9g}" if said.shape else ""
        problem = (
            f"time and rate make {file.numbers.forward_flops:.9g} FLOPs forward, and that run "
            f"takes {wanted}"
        )
    else:
        made = " or ".join(candidate.describe() for candidate in identified.possible[:SHOWN])
        problem = f"its FLOPs and memory are those of {made or 'no run that is known'}"
    raise FolderError(
        f"{file.name}: {_SOURCES[said.source]} says {_described(said)}, but {problem}; correct the "
        "row, or leave the file out"
    )


_SOURCES = {
    RUNS_CSV: RUNS_CSV,
    "record": "its own record",
    "file": "the file itself",
    "name": "its name",
}


def _described(said: Declaration) -> str:
    return ", ".join(filter(None, (said.describe(), said.device_name)))


# The folder as a whole


def _near(bases: Iterable[Base], entry: _Entry) -> list[Option]:
    """The options of a file that differ in at most one size from one of these bases."""

    def is_near(base: Base, shape: Shape) -> bool:
        return sum(a != b for a, b in zip(base, _base_of(shape), strict=True)) <= 1

    return [o for o in entry.options if any(is_near(base, o[1]) for base in bases)]


def _bases(entries: Sequence[_Entry]) -> list[Base]:
    """The base points that most files are near; several where they are level."""
    every = {_base_of(shape) for entry in entries for _, shape in entry.options}
    near = {base: sum(bool(_near([base], entry)) for entry in entries) for base in every}
    most = max(near.values(), default=0)
    return sorted(base for base, count in near.items() if count == most)


def _defaults(base: Base) -> int:
    """The number of a base's sizes that are the script's defaults."""
    return sum(size == SCRIPT_DEFAULTS.get(name) for name, size in zip(SIZES, base, strict=True))


def _family(option: Option) -> tuple[int, int, int, bool]:
    """B·H, N, d and the mask: what remains of a shape if B and H are not told apart."""
    shape = option[1]
    return shape.batch_size * shape.num_heads, shape.seq_len, shape.head_dim, shape.causal


def _settle(entries: Sequence[_Entry]) -> None:
    """Leave each file the options that the folder as a whole allows.

    Those near the base that most files are near; what is near none of them has another base. Where
    several bases are level that split B·H differently, the one with the most of the script's
    defaults is assumed. Of a file that is still open, those that the other implementation has too.
    """
    while _settle_by_pairs(entries, _family):
        pass
    context = [entry for entry in entries if entry.options]
    settled: list[_Entry] = []
    while context:
        bases = _bases(context)
        most = max(map(_defaults, bases))
        chosen = [base for base in bases if _defaults(base) == most]
        for entry in context:
            near, every = _near(chosen, entry), _near(bases, entry)
            if near and len(near) < len(every):
                families = {*map(_family, near)}
                near += [option for option in every if _family(option) not in families]
                if len(near) == 1:
                    entry.remarks.append(Remark(entry.file.name, "form.assumed"))
            entry.options = near or entry.options
            if len(chosen) < len(bases):
                entry.unassumed = every or None
        here = [entry for entry in context if _near(chosen, entry)]
        settled += here if len(chosen) == 1 else []
        context = [entry for entry in context if entry not in here]
    while _settle_by_pairs(settled, itemgetter(1)):
        pass


def _settle_by_pairs(entries: Sequence[_Entry], of: Callable[[Option], Any]) -> bool:
    """Leave open files the options that are also possible for the other implementation.

    Only where that leaves one, which it may have as often. Whether anything has changed.
    """
    possible = [{(option[0], of(option)) for option in entry.options} for entry in entries]
    often = Counter(itertools.chain.from_iterable(possible))
    names = {who for who, _ in often}
    changed = False
    for entry, options in zip(entries, possible, strict=True):
        paired = [
            (who, what)
            for who, what in options
            if any(often[other, what] >= often[who, what] for other in names - {who})
        ]
        if len(paired) == 1 < len(options):
            entry.options = [o for o in entry.options if (o[0], of(o)) == paired[0]]
            changed = True
    return changed


def _settle_by_flops(entries: Sequence[_Entry]) -> None:
    """The runs of files whose memory identifies nothing, from the base of all others."""
    others = [entry for entry in entries if entry.options]
    bases = _bases(others)
    for entry in entries:
        if not entry.options:
            options = {option for base in bases for option in _options_at(base, entry)}
            entry.options = sorted(options)


# Questions to the user


def _open_row(entry: _Entry) -> list[str]:
    """A row of runs.csv with the values that all options of a file share; other cells are open."""
    said = entry.identified.declared
    cells = []
    for name in ATTRIBUTES:
        values = {
            who if name == "implementation" else getattr(shape, name)
            for who, shape in entry.unassumed or entry.options
        } or {said.stated.get(name)}
        value = values.pop() if len(values) == 1 else None
        cells.append(OPEN if value is None else str(value).lower() if name == "causal" else value)
    return [entry.file.name, *map(str, cells), said.device_name or ""]


def _missing_ends(shapes: dict[str, set[Shape]]) -> list[Shape]:
    """The runs of the naive implementation that others have beyond the end of one of its sweeps.

    They would take more memory than all that it has of the sweep, at least two.
    """
    naive = shapes.get(NAIVE, set())
    others = {shape for name, own in shapes.items() if name != NAIVE for shape in own} - naive
    sweeps: dict[tuple[str, Shape], list[Shape]] = defaultdict(list)
    for shape in naive:
        for name in SIZES:
            sweeps[name, _without(name, shape)].append(shape)

    def ends_before(shape: Shape, sweep: Sequence[Shape]) -> bool:
        peaks = [costs.naive_peak_memory(own, 0) for own in sweep]
        return len(sweep) > 1 and max(peaks) < costs.naive_peak_memory(shape, 0)

    return sorted(
        shape
        for shape in others
        if any(ends_before(shape, sweeps[name, _without(name, shape)]) for name in SIZES)
    )


def _without(name: str, shape: Shape) -> Shape:
    """A shape without one of its sizes."""
    return Shape.of({**asdict(shape), name: 0})


def _table(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[*RUNS_CSV_COLUMNS, "device"], *rows])
    return text.getvalue()


def _ask(entries: Sequence[_Entry], folder: CourseFolder, failed: Iterable[FoundRun]) -> None:
    """OpenFolderError where a file can be several runs, or a sweep of the naive one ends early."""
    undecided = [entry for entry in entries if entry.option is None]
    shapes: dict[str, set[Shape]] = defaultdict(set)
    for entry in entries:
        if entry.option:
            shapes[entry.option[0]].add(entry.option[1])
    for failure in failed:
        shapes[failure.run.implementation].add(Shape.of(failure.run))
    ends = [] if folder.tables else _missing_ends(shapes)
    if not undecided and not ends:
        return
    rows = [_open_row(entry) for entry in entries]
    rows += [
        [OPEN, NAIVE, *(str(getattr(s, n)) for n in SIZES), str(s.causal).lower(), ""] for s in ends
    ]
    names = ", ".join(entry.file.name for entry in undecided[:SHOWN])
    more = f" and {len(undecided) - SHOWN} more" if len(undecided) > SHOWN else ""
    problems = []
    if undecided:
        problems.append(f"which runs {names}{more} are cannot be told from names and numbers")
    if ends:
        shapes_named = (Declaration("", **shape.parameters).describe() for shape in ends[:SHOWN])
        listed = ", ".join(shapes_named)
        problems.append(
            f"{NAIVE} has no file for {listed}, where another implementation has one (write "
            f"{OUT_OF_MEMORY} as its file if it ran out of memory, or delete the row)"
        )
    raise OpenFolderError("; ".join(problems), _table(rows))


# The whole


def class_of_device(workspaces: Collection[int], ran_flash2: bool) -> str | None:
    """The name, by compute capability, of a GPU whose cuBLAS workspaces have one of these sizes.

    None where no known device has them.
    """
    ccs = {
        float(device.compute_capability)
        for device in known_devices()
        if device.cublas_workspaces in workspaces
        and not (ran_flash2 and float(device.compute_capability) < FLASH2_CAPABILITY)
    }
    if not ccs:
        return None
    low, high = int(min(ccs)), int(max(ccs))
    span = f"{min(ccs)}" if len(ccs) == 1 else f"{low}.x" if low == high else f"{low}.x–{high}.x"
    return f"NVIDIA GPU (compute capability {span})"


def _device_of(entries: Sequence[_Entry], given: str | None) -> str | None:
    """The device of files that name none: the given one, that of all others, or a class of GPUs."""
    named = {entry.file.declaration.device_name for entry in entries} - {None}
    if given or named:
        return given or (named.pop() if len(named) == 1 else None)
    settled = [(entry, entry.option) for entry in entries if entry.option]
    workspaces = {
        candidate.workspaces
        for entry, option in settled
        for candidate in entry.identified.fitting
        if option[0] == NAIVE and candidate.workspaces is not None
    }
    return class_of_device(workspaces, any(option[0] == FLASH2 for _, option in settled))


def _run_of(entry: _Entry, option: Option) -> Run:
    """The run, on the device and in the number format that its record states."""
    claim: Claim | None = entry.file.read.claim
    if claim:
        return claim.run
    on_gpu = entry.file.declaration.gpu
    kind = (COURSE_DTYPE, "cuda") if on_gpu else ("float32", "cpu")
    return attention_run(*option, *kind)


def _failed_runs(folder: CourseFolder, device: str | None) -> Iterator[FoundRun]:
    """Runs without numbers: records that say so, and rows of runs.csv."""
    for name, (status, claim) in folder.failed.items():
        if claim and status in STATUSES:
            yield FoundRun(claim.run, name, status, claim.device_name)
    for row in folder.out_of_memory:
        said = of_row(row)
        if said.run is None:
            raise FolderError(
                f"{RUNS_CSV}: line {row.line}: a run that ran out of memory has no file to tell "
                "what it is; fill in impl, batch_size, seq_len, num_heads, emb_dim and causal"
            )
        run = attention_run(*said.run, COURSE_DTYPE, "cuda")
        yield FoundRun(run, "", OUT_OF_MEMORY, said.device_name or device)


def assemble(
    folder: CourseFolder, known: Collection[str], device: str | None = None
) -> tuple[list[FoundRun], list[Remark]]:
    """The runs of a folder, one for each measurement, and the remarks on its files.

    Args:
        folder: what was read.
        known: the implementations that can be reported.
        device: the name of the GPU, where the user gives it.

    Raises:
        FolderError: a file is refused, a declaration contradicts another or its numbers, or
            nothing is left.
        OpenFolderError: something has to be asked.
    """
    if refused := [remark for remark in folder.remarks if remark.is_refusal]:
        shown = " ".join(f"{r.file}: {r.text}" for r in refused[:SHOWN])
        more = f" And {len(refused) - SHOWN} more." if len(refused) > SHOWN else ""
        raise FolderError(f"{shown}{more} Mend these files, or move them elsewhere.")
    remarks = [remark for remark in folder.remarks if remark.code != "form.pass"]
    files = []
    for file in folder.files.values():
        said = file.declaration.implementation
        if said is None or said in known:
            files.append(file)
        else:
            remarks.append(Remark(file.name, "form.unknown_kernel", {"kernel": said}))
    entries = []
    for file, identified in zip(files, identify(files)[0], strict=True):
        _refuse_contradictions(file, identified)
        entry = _Entry(file, identified, _options(identified))
        if dropped := file.declaration.hinted - identified.declared.hinted:
            refuted = Declaration("name", **{n: file.declaration.stated[n] for n in dropped})
            params = {"named": refuted.describe()}
            entry.remarks.append(Remark(file.name, "form.name_refuted", params))
        entries.append(entry)
    _settle(entries)
    _settle_by_flops(entries)
    named = _device_of(entries, device)
    failed = list(_failed_runs(folder, named))
    _ask(entries, folder, failed)
    by_key: dict[str, FoundRun] = {}
    for entry in entries:
        assert entry.option is not None
        run, own = _run_of(entry, entry.option), entry.file.declaration.device_name
        remarks += entry.remarks
        key = repr((run, entry.file.numbers, entry.file.read.samples))
        if other := by_key.get(key):
            double = Remark(entry.file.name, "form.double", {"other": other.file})
            remarks.append(double)
            by_key[key] = replace(other, remarks=(*other.remarks, double))
            continue
        if entry.identified.reading == "fits" and entry.option[0] in (NAIVE, FLASH2):
            entry.remarks.append(Remark(entry.file.name, "form.exact_memory"))
        device_name = device or own or named
        by_key[key] = FoundRun(run, entry.file.name, "ok", device_name, tuple(entry.remarks))
    for remark in folder.remarks:
        for key, other in by_key.items():
            if remark.code == "form.double" and remark.params["other"] == other.file:
                by_key[key] = replace(other, remarks=(*other.remarks, remark))
    runs = [*by_key.values(), *failed]
    if not runs:
        raise FolderError("there is no result of the course's script in it")
    kinds: dict[tuple[str, str], str] = {}
    for result in runs:
        kinds.setdefault((result.run.dtype, result.run.device), result.file or RUNS_CSV)
    if len(kinds) > 1:
        listed = ", ".join(f"{file} is {dtype} on {on}" for (dtype, on), file in kinds.items())
        raise FolderError(f"its results are of several kinds: {listed}; import each by itself")
    return runs, remarks
