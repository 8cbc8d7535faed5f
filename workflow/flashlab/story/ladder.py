"""The story of a ladder of kernels: what each step gains, what limits it, and what copies leave.

Three clocks: the kernel alone, with its copies, and the whole process, which not every run has. A
cause is told where counters of the same kernel bear it: a unit near its limit, a counter that fell.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, cast

import pandas as pd

from flashlab.analysis.experiment import IMPLEMENTATIONS, PREVIOUS
from flashlab.analysis.frames import Dataset
from flashlab.benchmarks.ladder.declaration import flops
from flashlab.devices import find_device
from flashlab.statistics import MARGIN
from flashlab.story.observation import Observation
from flashlab.story.speeds import (
    EQUAL,
    FASTER,
    OPEN,
    SLOWER,
    Numbers,
    Speed,
    by_verdict,
    records_of,
    warned,
)

KERNEL, HOST, PROCESS = "kernel_time", "host_time", "process_time"

LIMIT = 0.6
"""The share of a unit's limit from which on it is said to limit a kernel."""

MOVED, DEEP = 1.25, 4.0
"""By which factor a counter falls to be named, and to surprise where a kernel gains `SMALL`."""

SMALL = 1.15
ALIKE = 1.5
"""Within which factor of each other a counter and a time fall, where one follows the other."""

UNITS = ("dram", "shared", "issue", "fp32", "tensor")
COUNTED = ("global_load_bytes", "shared_bytes", "bank_conflicts", "instructions")
FOLLOWED = {"issue": "instructions", "shared": "shared_bytes"}
"""The counter of the work of a unit, where it has one."""

FORMATS = ("fp16", "tf32")
"""The number formats of products that a step's label may name."""


class Ladder(Numbers):
    """A dataset as its steps: of the experiment that climbs them, at its last value."""

    @cached_property
    def others(self) -> dict[str, str]:
        """The experiments on growing problems (``size``) and on other ones (``cases``), if any."""
        found: dict[str, str] = {}
        for name in self.data.swept:
            if name != self.name and self.places(name):
                found.setdefault("cases" if self.is_of_problems(name) else "size", name)
        return found

    def is_of_problems(self, experiment: str) -> bool:
        """True if an experiment's values name whole problems, not a size."""
        return self.data.benchmark.parameter(self.data.swept[experiment]).stands_for is not None

    def speed(
        self, one: str, over: str, metric: str = KERNEL, at: int | None = None, experiment: str = ""
    ) -> Speed | None:
        """The speed of one step over another."""
        place = self.at if at is None else at
        key = (experiment or self.name, IMPLEMENTATIONS, "", metric, one, over, place)
        return self.speeds.get(key)

    def grown(self, experiment: str, name: str, at: int) -> Speed | None:
        """The speed of a step's kernel at a value over that at the value before."""
        return self.speeds.get((experiment, PREVIOUS, "", KERNEL, name, name, at))

    def over(self, pairs: Iterable[tuple[str, str]], metric: str = KERNEL) -> dict[str, Speed]:
        """The speeds of pairs of steps, by the first of each."""
        found = {one: self.speed(one, over, metric) for one, over in pairs}
        return {name: speed for name, speed in found.items() if speed is not None}

    @cached_property
    def kernels(self) -> dict[str, float]:
        """The kernels' times at the headline's problem, in ms."""
        return self.values(KERNEL)

    @cached_property
    def names(self) -> list[str]:
        """The steps that have such a time."""
        return [*self.kernels]

    @cached_property
    def gains(self) -> dict[str, Speed]:
        """Each kernel's speed over that of the step before it."""
        return self.over((one, before) for before, one in itertools.pairwise(self.names))

    def before(self, name: str) -> str:
        """The step before one, of those that have a time; of the first it is itself."""
        return self.names[max(0, self.names.index(name) - 1)]

    @cached_property
    def best(self) -> str:
        """The first step whose kernel is as fast as the fastest, within the margin."""
        fastest = min(self.names, key=lambda name: self.kernels[name])
        level = by_verdict(self.over((name, fastest) for name in self.names))[EQUAL]
        return next(name for name in self.names if name == fastest or name in level)

    @cached_property
    def counters(self) -> pd.DataFrame:
        """Counters of each counted step, and the share of its limit that each unit reaches.

        Columns: the counters of the benchmark, ``shared_bytes``, `UNITS`; missing where unknown.
        """
        columns = {name: self.values(f"kernel_{name}") for name in _NEEDED}
        table = pd.DataFrame(columns, index=self.names, columns=[*_NEEDED], dtype=float)
        table = table.dropna(subset="instructions")
        table["shared_bytes"] = table.shared_load_bytes + table.shared_store_bytes
        seconds = pd.Series(self.kernels)[table.index] / 1e3
        runs = self.runs(self.name)
        device = find_device(str(runs.device_name.iat[0])) if len(table) else None
        ceilings = self.data.ceilings
        copy = ceilings.copy.rate if ceilings else math.nan
        shared, issue = (device.shared_rate, device.issue_rate) if device else (math.nan, math.nan)
        return table.assign(
            dram=table.dram_bytes / seconds / copy,
            shared=table.shared_bytes / seconds / shared,
            issue=table.instructions / seconds / issue,
            fp32=table.fp32_activity / 100,
            tensor=table.matrix_activity / 100,
        )

    @cached_property
    def units(self) -> dict[str, str]:
        """The unit that is nearest to its limit, of each step where it is at `LIMIT` or above."""
        shares = self.counters[[*UNITS]].fillna(0.0).round(2)  # as they are printed
        near = shares[shares.max(axis=1) >= LIMIT]
        return {str(name): str(row.idxmax()) for name, row in near.iterrows()}

    @cached_property
    def falls(self) -> pd.DataFrame:
        """By which factor each of `COUNTED` falls with a step, since the counted one before."""
        counted = self.counters[[*COUNTED]]
        return (counted.shift() / counted).replace([math.inf, 0.0], math.nan)

    def fall(self, name: str) -> tuple[str, float] | None:
        """The counter that falls most with a step, and by which factor."""
        fell = {counter: float(self.falls[counter].get(name, math.nan)) for counter in COUNTED}
        known = {counter: by for counter, by in fell.items() if by == by}
        most = max(known, key=lambda counter: known[counter], default=None)
        return (most, known[most]) if most else None

    def runs(self, experiment: str) -> pd.DataFrame:
        """The runs of an experiment that are ok, with ``implementation`` and ``at``."""
        return self.data.runs.loc[experiment].reset_index()

    def place(self, experiment: str, at: int) -> str:
        """A value of a sweep: ``t28`` of a case, else ``N = 1024``."""
        if self.is_of_problems(experiment):
            return f"t{at:02d}"
        return f"{self.data.benchmark.parameter(self.data.swept[experiment]).symbol} = {at}"


_NEEDED = (
    *("dram_bytes", "global_load_bytes", "shared_load_bytes", "shared_store_bytes"),
    *("bank_conflicts", "instructions", "occupancy", "fp32_activity", "matrix_activity"),
)
_NAMES = [f"kernel_{name}" for name in _NEEDED]


def ladder_of(data: Dataset) -> Ladder | None:
    """The ladder of a dataset: its first experiment on problems, at the last of two steps."""
    problems = [n for n, p in data.swept.items() if data.benchmark.parameter(p).stands_for]
    for name in dict.fromkeys([*problems, *data.swept]):
        found = Ladder(data, name, 0)
        for at in reversed(found.places()):
            if len(found.values(KERNEL, at)) > 1:
                return Ladder(data, name, at)
    return None


# Page one


def stem(label: Mapping[str, str]) -> tuple[str, str]:
    """A step's label without its detail, as a part of a sentence: in Chinese, and in English."""
    zh, en = (re.split(r", | \(|，", label[language])[0] for language in ("zh_TW", "en"))
    return zh, en.lower().replace("tensor cores", "Tensor Cores")


def _most(d: Ladder) -> tuple[dict[tuple[str, str], float], dict[str, list[str]]]:
    """The three ideas that gain most, the largest first; and their words in the steps' order.

    An idea is shown to gain; steps that differ in a detail are one.
    """
    ideas: dict[tuple[str, str], float] = {}
    for name, speed in d.gains.items():
        if speed.verdict == FASTER:
            idea = stem(d.data.declared[name]["label"])
            ideas[idea] = ideas.get(idea, 1.0) * speed.x
    most = sorted(ideas, key=lambda idea: -ideas[idea])[:3]
    return {idea: ideas[idea] for idea in most}, _said(idea for idea in ideas if idea in most)


def _said(ideas: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    both = [*ideas]
    return {"zh_TW": [zh for zh, _ in both], "en": [en for _, en in both]}


def answer(d: Ladder) -> Observation:
    """The fastest kernel over the first, and the three ideas that make most of the way."""
    first, speed = d.names[0], d.speed(d.best, d.names[0])
    facts: dict[str, Any] = {"case": d.place(d.name, d.at), "first": first, "best": d.best}
    if speed is None or speed.verdict != FASTER:
        return d.observe("answer", facts, [speed], "answer", variant="none")
    most, _ = _most(d)
    share = sum(map(math.log, most.values())) / math.log(speed.x)
    facts |= {"x": speed.x, "share": share, "ideas": _said(most)}
    rows = [speed, *(each for each in d.gains.values() if each.verdict == FASTER)]
    variant = "ideas" if len(most) > 2 else "factor"
    return d.observe("answer", facts, rows, "answer", variant=variant)


def conclusion(d: Ladder) -> Observation:
    """The ideas that gain most, in the order of the steps, and what to look at before each."""
    (most, ideas), hosts, idle = _most(d), d.values(HOST), _idle(d)
    facts = {
        "ideas": ideas,
        "counted": bool(d.units),
        "idle": idle["name"] if idle and idle["unit"] else None,
        "copies": bool(hosts.get(d.best, 0.0) > 2 * d.kernels[d.best]),
    }
    rows = [speed for speed in d.gains.values() if speed.verdict == FASTER]
    return d.observe("conclusion", facts, rows, "conclusion", variant="ideas" if most else "none")


def pays(d: Ladder) -> Observation | None:
    """Which steps shorten the kernel, and which of the others show once the copies are timed."""
    told = by_verdict(d.gains)
    with_copies = d.over(((name, d.before(name)) for name in told[EQUAL]), HOST)
    copied = [name for name, speed in with_copies.items() if speed.verdict == FASTER]
    facts = {"of": len(d.gains), **told, "copied": copied}
    rows = [*d.gains.values(), *with_copies.values()]
    return d.observe("pays", facts, rows, "answer") if rows else None


def _precision(d: Ladder) -> dict[str, Any] | None:
    """The number format of the fastest kernel's products, its error, and what is allowed."""
    label = d.data.declared[d.best]["label"]["en"]
    form = next((each for each in FORMATS if each in label), None)
    runs, records = d.runs(d.name), records_of(d.data, d.name)
    run = runs[(runs.implementation == d.best) & (runs["at"] == d.at)]
    keys = ["implementation", *(p.name for p in d.data.benchmark.given)]
    gates = [json.loads(gate) for gate in records.merge(run[keys], on=keys).gate.dropna()]
    if form is None or not gates:
        return None
    error = max(max(gate["errors"].values()) for gate in gates)
    return {"format": form, "error": error, "tolerance": gates[0]["tolerance"]}


def clock(d: Ladder) -> Observation | None:
    """What the copies leave of the kernel's gain, and the whole process; what to use then."""
    first, hosts = d.names[0], d.values(HOST)
    if d.best not in hosts or first not in hosts:
        return None
    gain, host = d.speed(d.best, first), d.speed(d.best, first, HOST)
    start, whole = d.values("process_start"), d.values(PROCESS)
    processes = d.over(((name, first) for name in whole if name != first), PROCESS)
    told = by_verdict(processes)
    slower = [name for name in told[SLOWER] if name in start and first in start]
    late = [2 * (start[n] - start[first]) > whole[n] - whole[first] for n in slower]
    spent = d.values("process_compilation")
    overhead = [(start[n] + spent.get(n, 0.0)) / whole[n] for n in start if n in whole]
    others = d.over(((n, d.best) for n in hosts if n != d.best), HOST)
    places = [d.names.index(name) for name in told[SLOWER] if name in d.names]
    facts = {
        "gain": gain is not None and gain.verdict == FASTER,
        "host": host.x if host is not None and host.verdict == FASTER else None,
        **{"best": d.best, "first": first, "case": d.place(d.name, d.at), "process": told},
        **{"overhead": overhead, "all": len(told[FASTER]) == len(d.names) - 1},
        "row": 2 < len(places) == len(told[SLOWER]) and places[-1] - places[0] == len(places) - 1,
        "by_start": bool(slower) and slower == told[SLOWER] and all(late),
        "level": [name for name, speed in others.items() if speed.verdict in OPEN],
        "precision": _precision(d),
    }
    rows = [gain, host, *processes.values(), *others.values()]
    return d.observe("clock", facts, rows, "answer")


def notice(d: Ladder) -> Observation | None:
    """Steps without a time, runs with warnings, and the verdict that would be lost first."""
    failed: dict[Any, dict[str, Any]] = {}
    for key, status in d.data.failed.status.items():
        experiment, _, name, at = cast(tuple[str, str, str, int], key)
        if experiment in d.data.swept:
            of = failed.setdefault((name, status), {"name": name, "status": status, "places": []})
            of["places"] += {d.place(experiment, int(at))} - {*of["places"]}
    doubts = d.data.comparisons.doubts.fillna("")
    doubtful = {n: s for n, s in d.gains.items() if doubts.iat[s.row] and s.verdict == FASTER}
    weakest = min(doubtful, key=lambda name: doubtful[name].low, default=None)
    facts: dict[str, Any] = {
        "failed": [*failed.values()],
        **warned(d.data),
        "weakest": weakest,
        "room": doubtful[weakest].low / (1 + MARGIN) if weakest else None,
    }
    if not facts["failed"] and not facts["warned"]:
        return None
    return d.observe("notice", facts, [doubtful[weakest]] if weakest else [], "notice")


# Step by step


def limit(d: Ladder) -> Observation | None:
    """Neighbouring steps with the same unit at its limit, and the counter that fell with them."""
    groups: list[dict[str, Any]] = []
    rows: list[Speed | None] = []
    for unit, part in itertools.groupby(d.counters.index, key=d.units.get):
        names = [*map(str, part)]
        if unit is None:
            continue
        first, last, fell = names[0], names[-1], d.fall(names[0])
        gain, over, counter = d.gains.get(first), d.speed(last, first), FOLLOWED.get(unit)
        group: dict[str, Any] = {"unit": unit, "names": names, "shares": [*d.counters[unit][names]]}
        group |= {"entered": None, "chain": None}
        if fell and fell[1] >= MOVED and gain is not None and gain.verdict == FASTER:
            group |= {"entered": fell[0], "by": fell[1]}
        if counter and len(names) > 2 and over is not None and over.verdict == FASTER:
            by = float(d.counters[counter][first] / d.counters[counter][last])
            if by >= MOVED and 1 / ALIKE <= over.x / by <= ALIKE:
                group["chain"] = {"counter": counter, "by": by, "x": over.x}
        groups.append(group)
        rows += [gain, over if group["chain"] else None]
    if not groups:
        return None
    named = itertools.chain.from_iterable(group["names"] for group in groups)
    return d.observe("limit", {"groups": groups}, rows, measured=d.measured(_NAMES, [*named]))


def _idle(d: Ladder) -> dict[str, Any] | None:
    """The first step whose counter falls far and whose kernel gains little or nothing."""
    for name, speed in d.gains.items():
        fell = d.fall(name)
        if fell and fell[1] >= DEEP and speed.verdict in (FASTER, EQUAL) and speed.x < SMALL:
            counted = [*d.falls.index]
            before = d.units.get(counted[counted.index(name) - 1])
            unit = before if FOLLOWED.get(before or "") != fell[0] else None
            facts = {"name": name, "counter": fell[0], "by": fell[1], "x": speed.x, "unit": unit}
            return {**facts, "gains": speed.verdict == FASTER}
    return None


def beside(d: Ladder) -> Observation | None:
    """A counter that fell far for little time; what is near its limit in the fastest kernel."""
    counted, idle = d.counters, _idle(d)
    facts: dict[str, Any] = {"idle": idle, "best": d.best, "slower": 0, "nearest": None}
    rows: list[Speed | None] = [d.gains[idle["name"]]] if idle else []
    if d.best in counted.index:
        own = counted.loc[d.best]
        over = d.over((n, d.best) for n in map(str, counted.index) if n != d.best)
        busier = counted.occupancy >= 2 * own["occupancy"]
        slower = [name for name in by_verdict(over)[SLOWER] if busier[name]]
        shares = pd.Series({u: own[u] for u in UNITS}, dtype=float).dropna()
        facts |= {"slower": len(slower), "shares": [*(counted.occupancy[slower] / 100)]}
        facts |= {"occupancy": float(counted.occupancy[d.best]) / 100 if slower else None}
        if d.best not in d.units and len(shares):
            facts |= {"nearest": str(shares.idxmax()), "share": float(shares.max())}
        rows += [over[name] for name in slower]
    if not (idle or facts["slower"] or facts["nearest"]):
        return None
    return d.observe("beside", facts, rows, measured=d.measured(_NAMES, [d.best]))


# Growing problems and other cases


def size(d: Ladder) -> Observation | None:
    """How the rates grow with the problem, and where the last step pays."""
    name = d.others.get("size", "")
    times = {at: d.values(KERNEL, at, name) for at in d.places(name)} if name else {}
    places = [*times]
    steps = [n for n in d.planned(name) if all(n in of for of in times.values())] if places else []
    if len(places) < 2 or len(steps) < 2:
        return None
    runs = d.runs(name).drop_duplicates("at").set_index("at")
    work = {at: flops({str(k): v for k, v in runs.loc[at].items()}) for at in places}
    first, before, last = places[0], places[-2], places[-1]
    more = [work[b] / work[a] for a, b in itertools.pairwise(places)]
    grown = {n: [d.grown(name, n, at) for at in places[1:]] for n in steps}
    margin = 1 + MARGIN
    # By how much a rate rises from each value to the next, at least and at most.
    rises = {
        n: [
            (w * s.low, w * s.high) if s else (0.0, math.inf) for w, s in zip(more, of, strict=True)
        ]
        for n, of in grown.items()
    }
    full = dict[str, int]()  # since when the rate has stayed within the margin
    for n, of in rises.items():
        flat = [*itertools.takewhile(lambda e: e[0] > 1 / margin and e[1] < margin, of[::-1])]
        full[n] = places[-1 - len(flat)]
    split, over = steps[-1], steps[-2]
    best = max(steps[:-1], key=lambda n: 1 / times[last][n])
    found = {at: d.speed(split, over, at=at, experiment=name) for at in places}
    pairs = {at: speed for at, speed in found.items() if speed is not None}
    steady = min((n for n in steps if full[n] < last), key=lambda n: full[n], default=best)
    slower = d.speed(best, steady, at=last, experiment=name)
    shares = [d.values("kernel_sm_efficiency", at, name) for at in (first, last)]
    active = [[of[n] / 100 for n in steps if n in shares[0] and n in shares[1]] for of in shares]
    is_faster = slower is not None and slower.verdict == FASTER
    facts = {
        "p": d.data.benchmark.parameter(d.data.swept[name]).symbol,
        **{"first": first, "before": before, "last": last, "work": work[last] / work[first]},
        "times": [times[last][n] / times[first][n] for n in steps],
        "share": max(times[last][n] / times[first][n] for n in steps) * work[first] / work[last],
        "active": active if active[0] else None,
        "steady": [steady, full[steady]] if is_faster else None,
        **{"best": best, "rises": rises[best][-1][0] > margin, "split": split},
        **by_verdict(pairs),
    }
    rows = [*pairs.values(), *itertools.chain(*grown.values()), slower]
    return d.observe("size", facts, rows, section=name)


def copies(d: Ladder) -> Observation | None:
    """Among the cases: where a step of the copies pays, where copies hide a faster kernel."""
    name, told = d.others.get("cases"), pays(d)
    if name is None or told is None:
        return None
    runs = d.runs(name).drop_duplicates("at").set_index("at")
    sizes = runs[[p.name for p in d.data.benchmark.given]].prod(axis=1)
    order = [*map(int, sizes.sort_values(ascending=False, kind="stable").index)]
    best, other = d.best, d.before(d.best)
    hidden, rows = None, list[Speed | None]()
    for at in order:
        kernel, host = (d.speed(best, other, m, at, name) for m in (KERNEL, HOST))
        times = [d.values(metric, at, name).get(best, 0.0) for metric in (HOST, KERNEL)]
        if not kernel or not host or not all(times):
            continue
        if kernel.verdict == FASTER and host.verdict in OPEN:
            hidden = {"case": d.place(name, at), "times": times[0] / times[1], "kernel": kernel.x}
            hidden |= {"best": best, "other": other, "equal": host.verdict == EQUAL}
            rows += [kernel, host]
            break
    streams = next(iter(told.facts["copied"]), None)
    found = {a: d.speed(streams, d.before(streams), HOST, a, name) for a in order if streams}
    speeds = {at: speed for at, speed in found.items() if speed is not None}
    won, lost = (by_verdict(speeds)[verdict] for verdict in (FASTER, SLOWER))
    gains = None
    if won:
        most = max(won, key=lambda at: speeds[at].x)
        gains = {"name": streams, "won": len(won), "of": len(speeds), "case": d.place(name, most)}
        gains |= {"x": speeds[most].x, "largest": most == order[0], "lost": bool(lost)}
        gains["small"] = all(order.index(at) > max(map(order.index, won)) for at in lost)
        rows += speeds.values()
    facts = {"hidden": hidden, "streams": gains}
    return d.observe("copies", facts, rows, section=name) if hidden or gains else None


def simulated(data: Dataset) -> Observation:
    """The number of correct runs of those that a simulator supports, which has no times."""
    sizes = [p.name for p in data.benchmark.given]
    runs = pd.concat([data.runs, data.failed]).reset_index("implementation")
    runs = runs[runs.status != "unsupported"].drop_duplicates(["implementation", *sizes])
    wrong = [*dict.fromkeys(map(str, runs.implementation[runs.status == "incorrect"]))]
    facts = {"right": int((runs.status == "ok").sum()), "of": len(runs), "wrong": wrong}
    return Observation("simulated", None, facts, place="answer")


KINDS = (answer, pays, clock, notice, limit, beside, size, copies, conclusion)
"""The kinds of sentences in the report's order."""


def story(data: Dataset) -> Iterator[Observation]:
    """All observations of a dataset, in the report's order; of a simulator no times."""
    if data.device in data.benchmark.simulated:
        yield simulated(data)
    elif (d := ladder_of(data)) is not None:
        yield from filter(None, (kind(d) for kind in KINDS))
