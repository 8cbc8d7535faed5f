"""How often what is concluded is right: datasets with planted times, and a judge of statements.

Each dataset has the true time of each pass of each implementation at each setting: ties, winners by
6%, crossovers, winners by the mask alone, runs that failed. Its records are three processes with a
spread of 1%, or of 4%. Every statement of page one and of the sections on who is best and where
is judged by the values that it quotes: a choice is false if, at a setting that it covers, another
one is over 5% better. By hand: perf/conclusions.py.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from analysis.deriving import NO_CLAIMS
from planted.experiments import Planter

from flashlab.analysis.derive import derive
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Experiment, sections_of
from flashlab.analysis.finding import Finding
from flashlab.telling.values import Listed, Statement
from flashlab.telling.values import Setting as TellableSetting

NAMES = ("Pytorch", "Flash2", "Flash4", "FlashLab", "SdpaCudnn", "Flex")
SIZES = (128, 256, 512, 1024, 2048)
MARGIN = 1.05
PLAIN = 1.095
"""A lead that must be told; 10% as planted, less what three processes may be off."""

SPREAD, OFFSET, PROCESSES, CALLS = 0.01, 0.003, 3, 20
TOTAL = "forward_backward_time"
PASSES = ("forward_time", "backward_time")

Place = tuple[int, int, bool, int]
"""Sequence length, head dimension, mask, batch size."""

Times = dict[tuple[Place, str], tuple[float, float]]
"""True times of both passes, in units of 10 µs, of the runs that have numbers."""


@dataclass
class Planted:
    """A dataset: the experiments' places in the report's order, and what is true."""

    names: Sequence[str]
    experiments: Mapping[str, Sequence[Place]]
    times: Times
    failed: Mapping[tuple[Place, str], str]
    noise: float = 1.0

    @property
    def places(self) -> list[Place]:
        """All settings, once each, that have several implementations with numbers."""
        every = sorted({place for places in self.experiments.values() for place in places})
        return [place for place in every if len(self.able(place)) > 1]

    def able(self, place: Place) -> list[str]:
        return [name for name in self.names if (place, name) in self.times]

    def time(self, place: Place, name: str, metric: str) -> float:
        passes = self.times[place, name]
        return sum(passes) if metric == TOTAL else passes[PASSES.index(metric)]

    def price(self, place: Place, name: str, metric: str) -> float:
        """How many times as long as the fastest one takes; infinite for one without numbers."""
        if (place, name) not in self.times:
            return float("inf")
        fastest = min(self.time(place, other, metric) for other in self.able(place))
        return self.time(place, name, metric) / fastest

    def lead(self, place: Place, metric: str) -> tuple[str, float]:
        """The fastest and how many times as long the next one takes."""
        (first, name), (second, _) = sorted(
            (self.time(place, name, metric), name) for name in self.able(place)
        )[:2]
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


def plant(seed: int, names: Sequence[str] | None = None) -> Planted:
    """A dataset; its scenario changes never, by size, by mask, by head dimension, or everywhere."""
    random = np.random.default_rng(seed)
    if names is None:
        names = NAMES[: int(random.choice([2, 3, 4, 5, 6]))]
    sizes = SIZES[: int(random.integers(3, 6))]
    full, causal = ([(n, 64, mask, 2) for n in sizes] for mask in (False, True))
    wide, more = ([(n, d, True, b) for n in sizes[1:]] for d, b in ((128, 2), (64, 4)))
    several = {
        f"d{d}_{'causal' if mask else 'full'}": [(n, d, mask, 2) for n in sizes]
        for d in (64, 128)
        for mask in (False, True)
    }
    layouts: Mapping[str, Mapping[str, Sequence[Place]]] = {
        "sweep": {"sweep": full},
        "masks": {"masks": [*full, *causal]},
        "several": several,
        "all": {"sweep": full, "masks": [*full, *causal], "wide": wide, "more": more},
    }
    layout = layouts[str(random.choice(list(layouts)))]
    depends = str(random.choice(["nothing", "size", "mask", "width", "place", "place"]))
    known: dict[Any, dict[str, float]] = {}
    times: Times = {}
    failed: dict[tuple[Place, str], str] = {}
    naive, fast = names[0], list(names[1:])
    pool = fast if len(fast) > 1 else list(names)
    late = int(random.choice([0, 0, 0, *sizes]))
    for place in dict.fromkeys(place for places in layout.values() for place in places):
        n, d, mask, batch = place
        key = {"nothing": 0, "size": n > sizes[1], "mask": mask, "width": d, "place": place}
        factors = known.setdefault(key[depends], _advantages(random, pool))
        ratio = known.setdefault(("ratio", key[depends]), {"ratio": float(random.uniform(1.5, 3))})
        for name in names:
            if name not in factors:  # the naive one of several
                factors[name] = float(random.choice([0.98, 1.3, 3.0, 6.0]))
            base = 5 * batch * (n / 128) ** 1.5 * (d / 64) * (0.6 if mask else 1.0) * factors[name]
            skew = 1.0 if depends == "nothing" else float(random.uniform(0.97, 1.03))
            backward = base * ratio["ratio"] * (1.15 if name == pool[0] else 1.0)
            out = name == naive and late and n >= late
            if out or random.random() < 0.02:
                failed[place, name] = "oom" if out else str(random.choice(["error", "incorrect"]))
            else:
                times[place, name] = (base * skew, backward)
    return Planted(names, layout, times, failed, float(random.choice([1, 1, 1, 4])))


def _cell(planted: Planted, place: Place, name: str, random: np.random.Generator) -> Any:
    if (place, name) in planted.failed:
        return planted.failed[place, name]
    processes = []
    for _ in range(PROCESSES):
        off = random.lognormal(sigma=planted.noise * OFFSET)
        drawn = (
            random.lognormal(sigma=planted.noise * SPREAD, size=CALLS) * time * off * 1e-5
            for time in planted.times[place, name]
        )
        processes.append(
            dict(zip(("forward", "backward"), map(np.ndarray.tolist, drawn), strict=True))
        )
    return processes


def write(planted: Planted, folder: Path, seed: int, shuffled: bool = False) -> list[Experiment]:
    """The planted experiments as the findings read them."""
    planter, found = Planter(folder), []
    drawn: dict[tuple[Place, str], Any] = {}
    random = np.random.default_rng([seed, 1])
    for place in dict.fromkeys(p for places in planted.experiments.values() for p in places):
        for name in planted.names:
            drawn[place, name] = _cell(planted, place, name, random)
    for title, places in planted.experiments.items():
        runs: dict[Any, dict[int, Any]] = {}
        order = [(name, place) for name in planted.names for place in places]
        if shuffled:
            order = [order[int(i)] for i in np.random.default_rng(seed).permutation(len(order))]
        for name, place in order:
            runs.setdefault((name, place[2]), {})[place[0]] = drawn[place, name]
        fixed = {"emb_dim": 4 * places[0][1], "batch_size": places[0][3]}
        found.append(
            planter.experiment(
                runs,
                title,
                sizes=lambda n, fixed=fixed: {"seq_len": n, **fixed},
                dtype="float16",
                device="cuda",
            )
        )
    return found


# What is stated, judged


@dataclass
class Score:
    """Statements judged, those that are false, and planted leads that page one tells or not."""

    stated: Counter[str] = field(default_factory=Counter)
    false: Counter[str] = field(default_factory=Counter)
    plain: int = 0
    told: int = 0
    examples: list[str] = field(default_factory=list)

    def count(self, kind: str, is_right: bool, example: Any = "") -> None:
        self.stated[kind] += 1
        if not is_right:
            self.false[kind] += 1
            self.examples.append(f"{kind}: {example}")

    def text(self) -> str:
        lines = [
            f"{kind}: {self.false[kind]} of {n} false ({100 * self.false[kind] / n:.1f}%)"
            for kind, n in sorted(self.stated.items())
        ]
        total, false = self.stated.total(), self.false.total()
        lines.append(f"in all: {false} of {total} false ({100 * self.false_share():.2f}%)")
        lines.append(f"leads of 10% told on page one: {self.told} of {self.plain}")
        return "\n".join(lines)

    def false_share(self) -> float:
        return self.false.total() / max(1, self.stated.total())


Judged = Iterator[tuple[bool, Sequence[Place]]]
"""Whether each claim of a statement is right, and the places where it names one alone."""


def _items(value: Any) -> Sequence[Any]:
    return value.items if isinstance(value, Listed) else [value]


def _is_there(place: Place, where: Any, ordered: Sequence[int]) -> bool:
    """Whether a place is where a statement says: at all of some settings, in any of some ranges."""
    if isinstance(where, Listed):
        choose = any if isinstance(where.items[0], Statement) else all
        return choose(_is_there(place, each, ordered) for each in where.items)
    if isinstance(where, TellableSetting):
        have = {"seq_len": place[0], "head_dim": place[1], "causal": place[2]}
        return have[where.parameter] in where.values
    values, kind = where.values, where.key.rpartition(".")[2]
    if kind == "of":
        return all(_is_there(place, values[each], ordered) for each in ("where", "of"))
    low, high = values.get("low", min(ordered)), values.get("high", max(ordered))
    if kind == "at":
        return bool(place[0] == low)
    return kind == "all" or bool(low <= place[0] <= high)


@dataclass
class Judge:
    """Judges the conclusions of one planted dataset."""

    planted: Planted
    experiments: Sequence[Experiment]
    score: Score

    def conclusions(self, findings: Iterable[Finding]) -> None:
        """Judge every statement of page one and of the sections."""
        told: dict[str, set[Place]] = {TOTAL: set()}
        for finding in (f for f in findings if f.kind == "conclusion"):
            topic = finding.subject["topic"]
            if finding.rank is None:
                self._section(finding)
            elif topic == "map":
                for chart in finding.facts["charts"]:
                    told.setdefault(chart["metric"], set()).update(self._map(finding.facts, chart))
            else:
                metric = str(finding.metric)
                places = self._statements(finding, self.planted.places, metric, "front")
                told.setdefault(metric, set()).update(places)
        self._leads(told[TOTAL])

    def _leads(self, told: set[Place]) -> None:
        if len(self.planted.names) < 3 or self.planted.noise > 1:
            return
        for place in self.planted.places:
            if self.planted.lead(place, TOTAL)[1] >= PLAIN:
                self.score.plain += 1
                self.score.told += place in told

    def _fine(self, name: str, places: Iterable[Place], metric: str) -> bool:
        return all(self.planted.price(place, name, metric) <= MARGIN for place in places)

    # The map

    def _map(self, facts: Mapping[str, Any], chart: Mapping[str, Any]) -> Iterator[Place]:
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
            places = [place for place in planted.places if place[:3] == at]
            leads = [planted.lead(place, metric) for place in places]
            if state == "undecided":
                continue
            if state == "changes":
                right = not any(self._fine(name, places, metric) for name in planted.names)
            elif state == "alone":
                right = all(name == names[0] and lead > MARGIN for name, lead in leads)
            else:
                right = all(self._fine(name, places, metric) for name in names)
            self.score.count(f"map.{state}", right, (places, cell))
            if right and (state == "alone" or len(names) == 1):
                yield from places

    # Statements

    def _section(self, finding: Finding) -> None:
        groups = sections_of([e for e in self.experiments if not e.is_summary])
        (group,) = (g for g in groups if g[0].name == finding.experiment)
        places = [place for each in group for place in self.planted.experiments[each.name]]
        able = [place for place in places if len(self.planted.able(place)) > 1]
        self._statements(finding, able, str(finding.metric), "section")

    def _statements(
        self, finding: Finding, places: Sequence[Place], metric: str, where: str
    ) -> set[Place]:
        told: set[Place] = set()
        for statement in finding.statements:
            key = statement.key.removeprefix("conclusion.")
            for right, named in self._judged(key, statement, finding, places, metric):
                self.score.count(f"{where}: {key}", right, (statement.values, self._true(places)))
                told |= set(named if right else ())
        return told

    def _true(self, places: Sequence[Place]) -> Any:
        return {p: {n: round(self.planted.price(p, n, TOTAL), 3) for n in self.planted.able(p)}
                for p in places}  # fmt: skip

    def _judged(
        self,
        key: str,
        statement: Statement,
        finding: Finding,
        places: Sequence[Place],
        metric: str,
    ) -> Judged:
        values, planted = statement.values, self.planted
        rows = sorted({place[0] for place in places})
        if key in ("front.choice.best", "front.choice.near") or key.startswith(
            ("choice.best", "choice.near")
        ):
            name = str(values["name"])
            yield self._fine(name, places, metric), places
            if key.endswith("choice.best"):
                yield all(planted.lead(p, metric)[0] == name for p in places), places
        if key == "variant.best":
            masked, name = [place for place in places if place[2]], str(values["name"])
            yield all(planted.lead(p, metric)[0] == name for p in masked), masked
        for listed in ("winners", "part_winners"):
            if listed not in values:
                continue
            if listed == "part_winners":
                metric = values["part"].of.metric  # type: ignore[union-attr]
            for each in _items(values[listed]):
                among = places
                if key.startswith("variant."):
                    among = [place for place in places if place[2]]
                yield from self._clause(each, among, metric, rows)
        for each in _items(values.get("near", Listed([]))):
            name, count = each.values["name"], each.values["count"]
            yield sum(self._fine(name, [p], metric) for p in places) >= count, ()
        for each in _items(values.get("leads", Listed([]))):
            leads = [planted.lead(p, metric) for p in places]
            ahead = [lead for who, lead in leads if who == each.values["name"] and lead > MARGIN]
            yield len(ahead) >= each.values["count"], ()
        if key.startswith("front.wrong"):
            name = str(values["wrong"])
            part = [p for p in places if self._fine(name, [p], PASSES[0])]
            part = part or [p for p in places if self._fine(name, [p], PASSES[1])]
            yield len(part) >= int(str(values["wrong_count"])), ()
            yield not any(self._fine(name, [p], TOTAL) for p in places), ()
        if key.startswith("front.avoid") and "avoid" in values:
            count = sum(self._is_slower(str(values["avoid"]), p, metric) for p in places)
            yield count >= int(str(values.get("avoid_count", values["avoid_of"]))), ()
        if key.startswith(("pair.", "front.pair.")):
            yield from self._pair(key, statement, finding, places, metric)
        if key == "variant":
            yield from self._variant(statement, places, metric)

    def _is_slower(self, name: str, place: Place, metric: str) -> bool:
        naive = self.planted.names[0]
        able = {name, naive} <= set(self.planted.able(place))
        return able and self._ratio(place, naive, name, metric) > MARGIN

    def _clause(
        self, each: Statement, places: Sequence[Place], metric: str, rows: Sequence[int]
    ) -> Judged:
        covered = [p for p in places if _is_there(p, each.values["where"], rows)]
        names = [str(name) for name in _items(each.values["names"])]
        right = bool(covered) and all(self._fine(name, covered, metric) for name in names)
        yield right, covered if len(names) == 1 else ()

    def _ratio(self, place: Place, name: str, other: str, metric: str) -> float:
        return self.planted.time(place, other, metric) / self.planted.time(place, name, metric)

    def _pair(
        self, key: str, statement: Statement, finding: Finding, places: Sequence[Place], metric: str
    ) -> Judged:
        name, other = (finding.subject[k] for k in ("implementation", "baseline"))
        ratios = {p: self._ratio(p, name, other, metric) for p in places}
        verdict = key.removeprefix("front.").removeprefix("pair.").partition(".")[0]
        holds: Mapping[str, Callable[[float], bool]] = {
            "better": lambda r: r > MARGIN,
            "worse": lambda r: r < 1 / MARGIN,
            "equivalent": lambda r: 1 / MARGIN <= r <= MARGIN,
        }
        if verdict in holds:
            yield all(map(holds[verdict], ratios.values())), ()
        for each in _items(statement.values.get("standings", Listed([]))):
            standing = each.key.rpartition(".")[2]
            if standing in holds:
                count = sum(map(holds[standing], ratios.values()))
                yield count >= each.values["count"], ()
        if verdict == "mixed":
            for each in _items(statement.values.get("clauses", Listed([]))):
                standing = each.key.rpartition(".")[2].replace("equal", "equivalent")
                at = [p for p in places if p[0] in _items(each.values["values"])]
                if standing in holds:
                    yield all(holds[standing](ratios[p]) for p in at), ()

    def _variant(self, statement: Statement, places: Sequence[Place], metric: str) -> Judged:
        last = int(str(statement.values["last"]))
        _, width, _, batch = places[0]
        for each in _items(statement.values["outcomes"]):
            outcome = each.key.rpartition(".")[2]
            for name in _items(each.values["names"]):
                off, on = (last, width, False, batch), (last, width, True, batch)
                gain = self.planted.time(off, name, metric) / self.planted.time(on, name, metric)
                right = {
                    "gains": gain > MARGIN,
                    "loses": gain < 1 / MARGIN,
                    "level": 1 / MARGIN <= gain <= MARGIN,
                }
                yield right.get(outcome, True), ()


def score(seeds: Iterable[int], folder: Path, into: Score | None = None) -> Score:
    """The score of the datasets of these seeds."""
    found = into or Score()
    for seed in seeds:
        planted = plant(seed)
        with tempfile.TemporaryDirectory(dir=folder) as home:
            experiments = write(planted, Path(home), seed)
            findings = derive(experiments, Estimates(experiments), NO_CLAIMS, None)
        Judge(planted, experiments, found).conclusions(findings)
    return found
