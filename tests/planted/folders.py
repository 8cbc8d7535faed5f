"""Folders of results as students make them: any lab, by any names, with what happens to files."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from planted.course import result_of

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.lab5.importing import import_plan
from flashlab.lab5.results import FolderError, OpenRunsError
from flashlab.lab5.words import FLASH2, NAIVE, SIZES

KNOWN = (NAIVE, FLASH2, "SdpaMath")
SHORT = {"batch_size": "bs", "seq_len": "sl", "num_heads": "nh", "emb_dim": "ed"}
BY = {NAIVE: "pth", FLASH2: "fl2"}

Option = tuple[str, Shape]


@dataclass(frozen=True)
class Measured:
    """A file that a student has made: which parameter was swept, the run, and its seconds."""

    swept: str
    implementation: str
    shape: Shape
    forward: float

    @property
    def value(self) -> int:
        return int(getattr(self.shape, self.swept))

    @property
    def option(self) -> Option:
        return self.implementation, self.shape

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(getattr(self.shape, name) for name in SIZES)

    @property
    def document(self) -> dict[str, Any]:
        return result_of(self.implementation, self.shape, self.forward, 2.6 * self.forward)


def measured(points: Sequence[tuple[str, Shape]]) -> list[Measured]:
    """Both implementations at each point, each timed anew."""
    found: list[Measured] = []
    for swept, shape in points:
        for implementation, rate in ((NAIVE, 3e12), (FLASH2, 2e13)):
            seconds = costs.forward_flops(shape) / rate * (1 + len(found) / 1000)
            found.append(Measured(swept, implementation, shape, seconds))
    return found


Quarters = Mapping[str, tuple[int, ...]]
"""Of each swept parameter, its values in quarters of the base's size."""


def lab(base: Shape, swept: Quarters) -> list[Measured]:
    """Each sweep by itself; the base point in each of them, timed anew."""
    steps = [(name, getattr(base, name) * f // 4) for name, each in swept.items() for f in each]
    return measured([(name, Shape(**{**asdict(base), name: size})) for name, size in steps])


def grid(base: Shape, swept: Quarters) -> list[Measured]:
    """Every combination of the sizes of these sweeps."""
    sizes = [[getattr(base, name) * f // 4 for f in each] for name, each in swept.items()]
    shapes = [replace(base, **dict(zip(swept, each, strict=True))) for each in product(*sizes)]
    return measured([("seq_len", shape) for shape in shapes])


def _letters(i: int, one: Measured) -> str:
    b, n, h, e = one.sizes
    return f"b{b}_s{n}_h{h}_e{e}_{one.implementation.lower()}_{i}.json"


def _positions(order: Sequence[int]) -> Callable[[int, Measured], str]:
    def name(i: int, one: Measured) -> str:
        numbers = "_".join(str(one.sizes[place]) for place in order)
        mask = str(one.shape.causal).lower()
        return f"{one.swept}/{one.implementation}_{numbers}_{mask}.json"

    return name


SCHEMES: dict[str, Callable[[int, Measured], str]] = {
    "the swept one": lambda _, one: (
        f"benchmark_result_{SHORT[one.swept]}{one.value}_{BY[one.implementation]}.json"
    ),
    "all sizes": _letters,
    "a folder a sweep": lambda _, one: f"{one.swept}/{one.value}_{BY[one.implementation]}.json",
    "flags": lambda _, one: f"--{one.swept}={one.value} --impl={one.implementation}.json",
    "a folder an implementation": lambda _, one: (
        f"{one.implementation}/{one.swept}{one.value}.json"
    ),
    "in the order of the flags": _positions((0, 1, 2, 3)),
    "in another order": _positions((1, 0, 2, 3)),
    "numbers alone": lambda i, _: f"result{i}.json",
}


def write(folder: Path, files: Mapping[str, Any]) -> Path:
    for name, document in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = document if isinstance(document, str) else json.dumps(document)
        path.write_text(text, encoding="utf-8")
    return folder


def rounded(document: Mapping[str, Any], digits: int) -> dict[str, Any]:
    """A document whose numbers of passes have so many digits."""

    def short(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: float(f"{number:.{digits}g}") for key, number in value.items()}

    return {key: short(value) for key, value in document.items()}


HAPPENINGS = ("nothing", "missing", "exchanged", "rounded", "gridded", "heads alone")


@dataclass
class Planted:
    """The documents of a folder by their names, and the run that each is."""

    documents: dict[str, dict[str, Any]]
    truth: dict[str, Option]


def planted(rng: random.Random, happening: str, scheme: str) -> Planted:
    """A random folder."""
    b, h = (2 ** rng.randint(3, 6) for _ in range(2))
    n, d = rng.choice([512, 768, 1024]), rng.choice([32, 64])
    base = Shape(b, n, h, h * d, rng.random() < 0.5)
    swept = {"batch_size": (2, 4, 8), "num_heads": (2, 4, 8)}
    swept |= {name: (2, 4, 8) for name in ("seq_len", "emb_dim") if rng.random() < 0.5}
    files = lab(base, swept)
    if happening == "gridded":
        files = grid(base, {name: swept[name] for name in rng.sample([*swept], 2)})
    if happening == "heads alone":  # the size of each head fixed, so that E grows too
        files = [one for one in files if one.swept != "num_heads"]
        shapes = [replace(base, num_heads=n, emb_dim=n * d) for n in (h // 4, h // 2, h, 2 * h)]
        files += measured([("num_heads", shape) for shape in shapes])
    names = {SCHEMES[scheme](i, one): one for i, one in enumerate(files)}
    documents = {name: one.document for name, one in names.items()}
    truth = {name: one.option for name, one in names.items()}
    if happening == "missing":
        for name in rng.sample(sorted(documents), 3):
            del documents[name]
    if happening == "exchanged":
        one, other = rng.sample(sorted(documents), 2)
        for of in (documents, truth):
            of[one], of[other] = of[other], of[one]
    if happening == "rounded":
        documents = {name: rounded(each, 6) for name, each in documents.items()}
    return Planted(documents, truth)


SAID = {"form.assumed", "form.name_refuted"}


def runs_of(entries: Sequence[Mapping[str, Any]]) -> dict[str, Option]:
    """The run of each file."""
    return {e["file"]: (e["run"]["implementation"], Shape.of(e["run"])) for e in entries}


def silently_wrong(folder: Path, truth: Mapping[str, Option]) -> dict[str, Option] | str:
    """The files that are read as another run without a remark; else what was asked or refused."""
    try:
        entries, _ = import_plan(folder, KNOWN)
    except OpenRunsError:
        return "asked"
    except FolderError as error:
        return f"refused: {error}"
    remarks = {e["file"]: {remark["code"] for remark in e["remarks"]} for e in entries}
    return {
        name: option
        for name, option in runs_of(entries).items()
        if option != truth[name] and not remarks[name] & SAID
    }
