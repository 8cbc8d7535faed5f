"""How often a choice that is told is right: datasets with planted times, and a judge of statements.

Each dataset has the true time of each pass of each implementation at each setting: ties, winners by
6%, crossovers, winners by the mask alone, runs that failed. Its records are three processes with a
spread of 1%, or of 4%. Every choice that page one, its map or a section names is judged by the
values that its statement quotes: it is false if, at a setting that it covers, another one is over
5% better. By hand: perf/findings_right.py.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from analysis.deriving import NO_CLAIMS
from analysis.study.planted import Pass, Planted, records_of
from analysis.study.scores import Scores
from analysis.study.truth import MARGIN, Truth
from planted.experiments import Planter

from flashlab.analysis.derive import derive
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Experiment, sections_of
from flashlab.analysis.finding import Finding
from flashlab.benchmarks.attention.shape import Shape
from flashlab.telling.values import Listed, Statement
from flashlab.telling.values import Setting as TellableSetting

NAMES = ("Pytorch", "Flash2", "Flash4", "FlashLab", "SdpaCudnn", "Flex")
SIZES = (128, 256, 512, 1024, 2048)
PLAIN = 1.095
"""A lead that must be told; 10% as planted, less what three processes may be off."""

SPREAD, CALLS = 0.01, 20
TOTAL = "forward_backward_time"


class Choices(Truth):
    """The truth of a dataset of experiments: each one's shapes by its name, in their order."""

    def __init__(self, dataset: Planted, experiments: Mapping[str, Sequence[Shape]]) -> None:
        super().__init__(dataset)
        self.experiments = experiments

    @property
    def shapes(self) -> list[Shape]:
        """All shapes, once each, at which several implementations have numbers."""
        every = {shape for shapes in self.experiments.values() for shape in shapes}
        return [shape for shape in sorted(every) if len(self.names(shape)) > 1]

    def price(self, shape: Shape, name: str, metric: str) -> float:
        """How many times as long as the fastest one takes; infinite for one without numbers."""
        times = {other: self.time(other, shape, metric) for other in self.names(shape)}
        return times[name] / min(times.values()) if name in times else math.inf

    def lead(self, shape: Shape, metric: str) -> tuple[str, float]:
        """The fastest and how many times as long the next one takes."""
        times = sorted((self.time(name, shape, metric), name) for name in self.names(shape))
        (first, name), (second, _) = times[:2]
        return name, second / first


# What is planted


def _advantages(random: np.random.Generator, names: Sequence[str]) -> dict[str, float]:
    """Factors of the time of all but the naive one, of one scenario at one place."""
    fast = list(names)
    random.shuffle(fast)
    others = {name: float(random.uniform(1.12, 2.5)) for name in fast}
    kind = random.choice(["lead", "tie", "six", "ten", "near"])
    if kind == "lead" or len(fast) == 1:
        return {**others, fast[0]: 1.0}
    second = {
        "tie": random.uniform(1.0, 1.015),
        "six": random.uniform(1.055, 1.07),
        "ten": random.uniform(1.1, 1.12),
        "near": random.uniform(1.02, 1.06),
    }[str(kind)]
    return {**others, fast[0]: 1.0, fast[1]: float(second)}


def plant(seed: int, names: Sequence[str] | None = None) -> Choices:
    """A dataset; its scenario changes never, by size, by mask, by head dimension, or everywhere."""
    random = np.random.default_rng(seed)
    if names is None:
        names = NAMES[: int(random.choice([2, 3, 4, 5, 6]))]
    sizes = SIZES[: int(random.integers(3, 6))]
    full, causal = ([Shape(2, n, 4, 256, mask) for n in sizes] for mask in (False, True))
    wide, more = ([Shape(b, n, 4, e, True) for n in sizes[1:]] for e, b in ((512, 2), (256, 4)))
    several = {
        f"d{d}_{'causal' if mask else 'full'}": [Shape(2, n, 4, 4 * d, mask) for n in sizes]
        for d in (64, 128)
        for mask in (False, True)
    }
    layouts: Mapping[str, Mapping[str, Sequence[Shape]]] = {
        "sweep": {"sweep": full},
        "masks": {"masks": [*full, *causal]},
        "several": several,
        "all": {"sweep": full, "masks": [*full, *causal], "wide": wide, "more": more},
    }
    layout = layouts[str(random.choice(list(layouts)))]
    depends = str(random.choice(["nothing", "size", "mask", "width", "place", "place"]))
    known: dict[Any, dict[str, float]] = {}
    dataset = Planted("choices")
    naive, fast = names[0], list(names[1:])
    pool = fast if len(fast) > 1 else list(names)
    late = int(random.choice([0, 0, 0, *sizes]))
    for shape in dict.fromkeys(shape for shapes in layout.values() for shape in shapes):
        n, d, mask = shape.seq_len, shape.head_dim, shape.causal
        key = {"nothing": 0, "size": n > sizes[1], "mask": mask, "width": d, "place": shape}
        factors = known.setdefault(key[depends], _advantages(random, pool))
        ratio = known.setdefault(("ratio", key[depends]), {"ratio": float(random.uniform(1.5, 3))})
        for name in names:
            if name not in factors:  # the naive one of several
                factors[name] = float(random.choice([0.98, 1.3, 3.0, 6.0]))
            base = 0.05 * shape.batch_size * (n / 128) ** 1.5 * (d / 64) * (0.6 if mask else 1.0)
            base *= factors[name]
            skew = 1.0 if depends == "nothing" else float(random.uniform(0.97, 1.03))
            backward = base * ratio["ratio"] * (1.15 if name == pool[0] else 1.0)
            for timed, median in (("forward", base * skew), ("backward", backward)):
                dataset.passes[name, shape, timed] = Pass(median, SPREAD, cap=CALLS)
            out = name == naive and late and n >= late
            if out or random.random() < 0.02:
                status = "oom" if out else str(random.choice(["error", "incorrect"]))
                dataset.failed[name, shape] = status
    dataset.noise = float(random.choice([1, 1, 1, 4]))
    return Choices(dataset, layout)


def write(choices: Choices, folder: Path, seed: int, shuffled: bool = False) -> list[Experiment]:
    """The planted experiments as the findings read them."""
    planter = Planter(folder)
    records = [*records_of(choices.dataset, np.random.default_rng([seed, 1])).items()]
    if shuffled:
        records = [records[i] for i in np.random.default_rng(seed).permutation(len(records))]
    found = []
    for title, shapes in choices.experiments.items():
        mine = [record for (_, shape), each in records if shape in shapes for record in each]
        found.append(planter.read(planter.write_plan(mine, title)))
    return found


# What is stated, judged


Judged = Iterator[tuple[bool, Sequence[Shape]]]
"""Whether each claim of a statement is right, and the places where it names one alone."""


def _items(value: Any) -> Sequence[Any]:
    return value.items if isinstance(value, Listed) else [value]


def _is_there(shape: Shape, where: Any, ordered: Sequence[int]) -> bool:
    """Whether a shape is where a statement says: at all of some settings, in any of some ranges."""
    if isinstance(where, Listed):
        choose = any if isinstance(where.items[0], Statement) else all
        return choose(_is_there(shape, each, ordered) for each in where.items)
    if isinstance(where, TellableSetting):
        return getattr(shape, where.parameter) in where.values
    values, kind = where.values, where.key.rpartition(".")[2]
    if kind == "of":
        return all(_is_there(shape, values[each], ordered) for each in ("where", "of"))
    low, high = values.get("low", min(ordered)), values.get("high", max(ordered))
    if kind == "at":
        return bool(shape.seq_len == low)
    return kind == "all" or bool(low <= shape.seq_len <= high)


@dataclass
class Judge:
    """Judges the conclusions of one planted dataset."""

    planted: Choices
    experiments: Sequence[Experiment]
    scores: Scores

    def _count(self, kind: str, is_right: bool, example: Any) -> None:
        self.scores.add(kind, "told", not is_right, None)
        if not is_right:
            self.scores.examples.append(f"{kind}: {example}")

    def conclusions(self, findings: Iterable[Finding]) -> None:
        """Judge every statement of page one and of the sections."""
        told: dict[str, set[Shape]] = {TOTAL: set()}
        for finding in (f for f in findings if f.kind == "conclusion"):
            topic = finding.subject["topic"]
            if finding.rank is None:
                self._section(finding)
            elif topic == "map":
                for chart in finding.facts["charts"]:
                    told.setdefault(chart["metric"], set()).update(self._map(finding.facts, chart))
            else:
                metric = str(finding.metric)
                places = self._statements(finding, self.planted.shapes, metric, "front")
                told.setdefault(metric, set()).update(places)
        self._leads(told[TOTAL])

    def _leads(self, told: set[Shape]) -> None:
        if len(self.planted.dataset.names) < 3 or self.planted.dataset.noise > 1:
            return
        for place in self.planted.shapes:
            if self.planted.lead(place, TOTAL)[1] >= PLAIN:
                self.scores.add("front: leads of 10%", "", False, place not in told)

    def _fine(self, name: str, places: Iterable[Shape], metric: str) -> bool:
        return all(self.planted.price(place, name, metric) <= MARGIN for place in places)

    # The map

    def _map(self, facts: Mapping[str, Any], chart: Mapping[str, Any]) -> Iterator[Shape]:
        metric, columns = chart["metric"], [tuple(column) for column in facts["columns"]]
        cells = [
            ((row, *column), cell)
            for row, of_row in zip(facts["rows"], chart["cells"], strict=True)
            for column, cell in zip(columns, of_row, strict=True)
            if cell is not None
        ]
        cells += [((rare["row"], *rare["column"]), rare) for rare in chart["rare"]]
        planted = self.planted
        for at, cell in cells:
            names, state = cell["names"], cell["state"]
            places = [s for s in planted.shapes if (s.seq_len, s.head_dim, s.causal) == at]
            leads = [planted.lead(place, metric) for place in places]
            if state == "undecided":
                continue
            if state == "changes":
                right = not any(self._fine(name, places, metric) for name in planted.dataset.names)
            elif state == "alone":
                right = all(name == names[0] and lead > MARGIN for name, lead in leads)
            else:
                right = all(self._fine(name, places, metric) for name in names)
            self._count(f"map.{state}", right, (places, cell))
            if right and (state == "alone" or len(names) == 1):
                yield from places

    # Statements

    def _section(self, finding: Finding) -> None:
        groups = sections_of([e for e in self.experiments if not e.is_summary])
        (group,) = (g for g in groups if g[0].name == finding.experiment)
        places = [place for each in group for place in self.planted.experiments[each.name]]
        able = [place for place in places if len(self.planted.names(place)) > 1]
        self._statements(finding, able, str(finding.metric), "section")

    def _statements(
        self, finding: Finding, places: Sequence[Shape], metric: str, where: str
    ) -> set[Shape]:
        told: set[Shape] = set()
        for statement in finding.statements:
            key = statement.key.removeprefix("conclusion.")
            for right, named in self._judged(key, statement.values, places, metric):
                self._count(f"{where}: {key}", right, (statement.values, places))
                told |= set(named if right else ())
        return told

    def _judged(
        self, key: str, values: Mapping[str, Any], places: Sequence[Shape], metric: str
    ) -> Judged:
        """The choices that a statement names, and how often it says that one is good."""
        planted = self.planted
        if key.startswith("variant."):
            places = [place for place in places if place.causal]
        if key.removeprefix("front.") in ("choice.best", "choice.near", "variant.best"):
            name = str(values["name"])
            yield self._fine(name, places, metric), places
            if key.endswith("best"):
                yield all(planted.lead(p, metric)[0] == name for p in places), places
        ordered = sorted({place.seq_len for place in places})
        for listed in {"winners", "part_winners"} & values.keys():
            by = values["part"].of.metric if listed == "part_winners" else metric
            for each in _items(values[listed]):
                covered = [p for p in places if _is_there(p, each.values["where"], ordered)]
                names = [str(name) for name in _items(each.values["names"])]
                right = bool(covered) and all(self._fine(name, covered, by) for name in names)
                yield right, covered if len(names) == 1 else ()
        for each in _items(values.get("near", Listed([]))):
            name, count = each.values["name"], each.values["count"]
            yield sum(self._fine(name, [p], metric) for p in places) >= count, ()
        for each in _items(values.get("leads", Listed([]))):
            leads = [planted.lead(p, metric) for p in places]
            ahead = [lead for who, lead in leads if who == each.values["name"] and lead > MARGIN]
            yield len(ahead) >= each.values["count"], ()


def score(seeds: Iterable[int], folder: Path) -> Scores:
    """The scores of the datasets of these seeds."""
    found = Scores()
    for seed in seeds:
        planted = plant(seed)
        found.datasets[planted.dataset.kind] += 1
        with tempfile.TemporaryDirectory(dir=folder) as home:
            experiments = write(planted, Path(home), seed)
            findings = derive(experiments, Estimates(experiments), NO_CLAIMS, None)
        Judge(planted, experiments, found).conclusions(findings)
    return found
