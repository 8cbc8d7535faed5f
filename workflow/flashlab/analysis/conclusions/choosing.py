"""Which one to use where, as far as it is decided: what several places amount to together.

A place is a setting with the evidence of the choice there (`kinds.choice`): who decidedly suffices,
being the best or within the margin of whoever is, and of whom it is not decided. Several places are
told by stretches of the row, such as N. Where nobody suffices at all places of a row, the parameter
that decides it splits the row. A choice is never told of a place where it is not decided.

Over the whole dataset, places make a map: a row is a value of the size that has the most values and
fills the most cells; a column is a value of each derived size and variant, for which a kernel is
written. A cell of the map holds all settings with its row and column, whatever their other sizes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.analysis.conclusions.quoting import Told, tell
from flashlab.analysis.finding import Finding
from flashlab.benchmarks.model import Benchmark, Parameter
from flashlab.telling.stretches import neighbours
from flashlab.telling.values import (
    Heading,
    Listed,
    Range,
    Short,
    Statement,
    Tellable,
    clauses,
    percent,
    say,
    settings,
)

Column = tuple[str, Any] | None
"""A parameter and its value, by which a row is split; None where it is not."""

MOST_CLAUSES = 4
"""Most implementations, or groups of them, of which a sentence says where to use them."""

MOST_STRETCHES = 4
"""Most stretches that a sentence on page one names; more are left to the map."""

MOST_NAMED = 3
"""Most of which a sentence says where they win, or that they cannot be told apart."""


@dataclass(frozen=True)
class Place:
    """The choice at one setting: the row's value, and what may tell it from others of the row."""

    row: int
    where: Mapping[str, Any]
    choice: Mapping[str, Any]

    @property
    def level(self) -> Sequence[str]:
        """Who decidedly suffices."""
        found: Sequence[str] = self.choice["level"]
        return found

    @property
    def possible(self) -> set[str]:
        """Who suffices, or may."""
        return {*self.level, *self.choice["undecided"]}

    @property
    def is_alone(self) -> bool:
        """Whether the best is decidedly better than all others by more than the margin."""
        return self.possible == {self.choice["best"]}

    @property
    def lead(self) -> float:
        """By what share the best median leads."""
        return float(self.choice["estimate"]) - 1


def sufficient(places: Sequence[Place]) -> list[str]:
    """Who decidedly suffices at all places, the most often best one first, then by the medians."""
    wins = Counter(place.choice["best"] for place in places)
    everywhere = set.intersection(*(set(place.level) for place in places))

    def rank(name: str) -> tuple[int, int, str]:
        return -wins[name], sum(place.level.index(name) for place in places), name

    return sorted(everywhere, key=rank)


def _told_lead(places: Sequence[Place]) -> Statement:
    """The lowest and highest lead by the medians, in percent, or as factors where one doubles."""
    leads = [place.lead for place in places]
    if max(leads) >= 1:
        return say("conclusion.each.times", range=Range(*(Short(1 + f(leads)) for f in (min, max))))
    return say("conclusion.each.percent", range=Range(*(percent(f(leads)) for f in (min, max))))


def cell(places: Sequence[Place]) -> dict[str, Any]:
    """Several places as one cell of a map: who suffices, and the range of the leads in percent.

    ``alone``: one is decidedly the best by more than the margin at all of them; ``level``: these
    suffice at all, and ``maybe`` the runners-up too; ``partly``: one does, and is the best at all,
    though not by more than the margin; ``changes``: it is decided that nobody does;
    ``undecided`` otherwise, with those that have the best medians.
    """
    names, wins = sufficient(places), Counter(place.choice["best"] for place in places)
    possible = set.intersection(*(place.possible for place in places))
    maybe = [place.choice["runner_up"] for place in places]
    maybe = [name for name in dict.fromkeys(maybe) if name in possible and name not in names]
    if names:
        alone = all(place.is_alone for place in places)
        state = "alone" if alone else "partly"
        if len(wins) > 1 or len(names) > 1 or (maybe and not alone):
            state = "level"
    else:
        state = "undecided" if possible else "changes"
        names = sorted(wins, key=lambda name: (-wins[name], name))
        maybe = [name for name in maybe if name not in names]
    leads = [place.lead for place in places]
    ends = {"lead_low": percent(min(leads)).text, "lead_high": percent(max(leads)).text}
    return {"names": names, "maybe": maybe, "state": state, **ends}


# By stretches of the row


@dataclass(frozen=True)
class Clause:
    """One or several of which each suffices, and the places where that is told."""

    names: Sequence[str]
    where: Sequence[Statement]
    places: Sequence[Place]

    @property
    def in_part(self) -> list[str]:
        """Those who decidedly suffice at some of the places, but not at all."""
        some = {name for place in self.places for name in place.level}
        return sorted(some.difference(self.names))


@dataclass(frozen=True)
class Decided:
    """What is decided of places: the clauses, and the places that none of them covers."""

    benchmark: Benchmark
    row: Parameter
    places: Sequence[Place]
    clauses: Sequence[Clause]

    @property
    def is_brief(self) -> bool:
        """Whether few stretches tell at least half of the places."""
        stretches = sum(len(clause.where) for clause in self.clauses)
        return stretches <= MOST_STRETCHES and 2 * len(self.rest) <= len(self.places)

    @property
    def names(self) -> set[str]:
        """Those who suffice anywhere."""
        return {name for clause in self.clauses for name in clause.names}

    @property
    def rest(self) -> list[Place]:
        """The places that no clause covers."""
        covered = {id(place) for clause in self.clauses for place in clause.places}
        return [place for place in self.places if id(place) not in covered]

    def winners(self) -> Listed:
        """``SdpaCudnn up to N = 1024 (in part also Flash3); Flash4 from N = 2048 (causal)``."""
        return clauses(
            say(
                "conclusion.each.winner.shared" if clause.in_part else "conclusion.each.winner",
                names=Listed(clause.names, "conclusion.or"),
                where=Listed(clause.where, "and"),
                others=Listed(clause.in_part, "conclusion.or"),
            )
            for clause in self.clauses
        )

    def where(self, places: Sequence[Place]) -> Listed:
        """The rows of places, by stretches; of a row that has others too, what tells them apart."""
        every, told = sorted({place.row for place in self.places}), list[Statement]()
        for column, mine in self._apart(places).items():
            rows = _told_rows(sorted({place.row for place in mine}), every, self.row)
            if column is not None:
                of = Listed(settings(self.benchmark, dict([column])))
                rows = [say("conclusion.stretch.of", where=each, of=of) for each in rows]
            told += rows
        return Listed(told, "and")

    def _apart(self, places: Sequence[Place]) -> dict[Column, list[Place]]:
        """Places by the parameter that tells them from the others of their rows, if one does."""
        chosen = {id(place) for place in places}
        others = [place for place in self.places if id(place) not in chosen]
        mixed = [p for p in places if p.row in {other.row for other in others}]
        for name in mixed[0].where if mixed else ():
            theirs = {(place.row, place.where[name]) for place in others}
            if not any((place.row, place.where[name]) in theirs for place in mixed):
                found: dict[Column, list[Place]] = {}
                for place in places:
                    column = (name, place.where[name]) if place in mixed else None
                    found.setdefault(column, []).append(place)
                return found
        return {None: list(places)}

    def open_rows(self) -> Statement | None:
        """Where no clause decides, and who cannot be told apart there, if they are few."""
        rest = self.rest
        if not rest:
            return None
        names = sorted(set().union(*(place.possible for place in rest)))
        key = "conclusion.each.open" if len(names) <= MOST_NAMED else "conclusion.each.open.many"
        return say(key, where=self.where(rest), names=Listed(names))


def _columns(places: Sequence[Place]) -> dict[Column, list[Place]]:
    """The places of a row by who suffices: together, or by the parameter that decides the most."""
    if sufficient(places):
        return {None: list(places)}
    best: dict[Column, list[Place]] = {}
    for name in places[0].where:
        found: dict[Column, list[Place]] = {}
        for place in sorted(places, key=lambda place: place.where[name]):
            found.setdefault((name, place.where[name]), []).append(place)
        found = {column: mine for column, mine in found.items() if sufficient(mine)}
        if sum(map(len, found.values())) > sum(map(len, best.values())):
            best = found
    return best


_Stretch = tuple[Column, list[Place]]
"""The places in neighbouring rows of one column."""


def _stretches(places: Sequence[Place]) -> list[_Stretch]:
    """Who suffices where: neighbouring rows of a column are one as long as anyone does at all."""
    found: list[_Stretch] = []
    open_ones: dict[Column, list[Place]] = {}
    for row in sorted({place.row for place in places}):
        columns = _columns([place for place in places if place.row == row])
        for column in [*open_ones]:
            if column not in columns or not sufficient([*open_ones[column], *columns[column]]):
                found.append((column, open_ones.pop(column)))
        for column, mine in columns.items():
            open_ones.setdefault(column, []).extend(mine)
    return [*found, *open_ones.items()]


def _told_rows(rows: Sequence[int], every: Sequence[int], parameter: Parameter) -> list[Statement]:
    """Where rows are, by stretches: up to one, from one on, between two, or at one."""
    symbol, told = parameter.symbol, []
    for stretch in neighbours(map(every.index, rows)):
        first, last = every[stretch[0]], every[stretch[-1]]
        if first == last:
            told.append(say("conclusion.stretch.at", symbol=symbol, low=first))
        elif (first, last) == (every[0], every[-1]):
            told.append(say("conclusion.stretch.all", symbol=symbol))
        elif first == every[0]:
            told.append(say("conclusion.stretch.to", symbol=symbol, high=last))
        elif last == every[-1]:
            told.append(say("conclusion.stretch.from", symbol=symbol, low=first))
        else:
            told.append(say("conclusion.stretch.span", symbol=symbol, low=first, high=last))
    return told


def decide(benchmark: Benchmark, row: Parameter, places: Sequence[Place]) -> Decided:
    """Who to use where, at most `MOST_CLAUSES` of them, those of the most places first chosen."""
    grouped: dict[tuple[str, ...], list[_Stretch]] = {}
    for column, stretch in _stretches(places):
        grouped.setdefault(tuple(sufficient(stretch)), []).append((column, stretch))
    found = []
    for names, stretches in grouped.items():
        where, mine = [], []
        for column, stretch in stretches:
            rows, of_column = sorted({place.row for place in stretch}), list(places)
            if column is not None:
                of_column = [p for p in places if p.where[column[0]] == column[1]]
            mine += stretch
            told = _told_rows(rows, sorted({place.row for place in of_column}), row)
            if column is not None:
                of = Listed(settings(benchmark, dict([column])))
                told = [say("conclusion.stretch.of", where=each, of=of) for each in told]
            where += told
        found.append(Clause(names, where, mine))
    most = sorted(found, key=lambda clause: -len(clause.places))[:MOST_CLAUSES]
    return Decided(benchmark, row, places, [clause for clause in found if clause in most])


def _told_wins(places: Sequence[Place]) -> list[Statement]:
    """Who is decidedly the best at how many places, by how much."""
    wins: dict[str, list[Place]] = {}
    for place in places:
        if place.is_alone:
            wins.setdefault(place.choice["best"], []).append(place)
    most = sorted(wins.items(), key=lambda item: (-len(item[1]), item[0]))[:MOST_NAMED]
    return [
        say("conclusion.each.lead", name=name, count=len(mine), range=_told_lead(mine))
        for name, mine in most
    ]


FRONT = {
    "best": "conclusion.front.choice.best",
    "near": "conclusion.front.choice.near",
    "tied": "conclusion.front.choice.tied",
    "changes": "conclusion.front.choice.by_size",
    "varies": "conclusion.front.choice.varies",
}
"""What page one says of places: one is best at all, or suffices, or several do; who where; or that
nobody wins."""

SECTION = {
    "best": "conclusion.choice.best",
    "near": "conclusion.choice.near",
    "tied": "conclusion.choice.tied",
    "changes": "conclusion.choice.changes",
    "varies": "conclusion.choice.varies",
}
"""The same of a section."""


def told_decision(
    decided: Decided,
    messages: Mapping[str, str],
    about: Sequence[str],
    sources: Sequence[Finding],
    *,
    brief: bool = False,
    **values: Tellable,
) -> tuple[str, list[Told]]:
    """What is decided of places, with the verdict: the heading, the clear wins, and the rest.

    Where `brief` is asked, sizes are told only if that is.
    """
    places, names = decided.places, sufficient(decided.places)
    values |= {"of": len(places), "symbol": decided.row.symbol}
    said = ""
    if names:
        verdict, values["name"] = "near", names[0]
        if len(names) > 1:
            said, values["names"] = "tied", Listed(names)
        if all(place.is_alone for place in places):
            verdict, values["lead"] = "best", _told_lead(places)
    elif decided.is_brief if brief else decided.clauses:
        verdict, values["winners"] = "changes", decided.winners()
    else:
        count = Counter(name for place in places for name in place.level)
        most = sorted(count, key=lambda name: (-count[name], name))[:MOST_NAMED]
        near = [say("choice.count", name=name, count=count[name]) for name in most]
        verdict, values["near"] = "varies", Listed(near)
    told = [tell(messages[said or verdict], *about, sources=sources, **values)]
    if (wins := _told_wins(places)) and verdict != "best":
        told.append(tell("conclusion.choice.wins", leads=Listed(wins), of=len(places)))
    if verdict == "changes" and (rest := decided.open_rows()):
        told.append(tell("conclusion.choice.open", rest=Heading(rest)))
    return verdict, told


# The map

Cell = tuple[tuple[Any, ...], int]
"""A column, by its values of derived sizes and variants, and a row."""


def _cells(
    benchmark: Benchmark, row: Parameter, estimates: Sequence[Mapping[str, Any]]
) -> dict[Cell, list[Mapping[str, Any]]]:
    """The evidence of each column and row."""
    found: dict[Cell, list[Mapping[str, Any]]] = {}
    for each in estimates:
        columns = [*benchmark.derived_parameters, *benchmark.variants]
        column = tuple(each["setting"][p.name] for p in columns)
        found.setdefault((column, each["setting"][row.name]), []).append(each)
    return found


class ChoiceMap:
    """The settings of the choice over the whole dataset, by row and column.

    The rarer columns have only one row.
    """

    def __init__(self, benchmark: Benchmark, choice: Finding) -> None:
        def extent(size: Parameter) -> tuple[int, int]:
            cells = _cells(benchmark, size, choice.estimates)
            rows = Counter(column for column, _ in cells)
            return len({row for _, row in cells}), sum(n for n in rows.values() if n > 1)

        self.benchmark = benchmark
        self.row = max((p for p in benchmark.given if not p.is_variant), key=extent)
        self._cells = _cells(benchmark, self.row, choice.estimates)

    def _places(self, estimates: Iterable[Mapping[str, Any]], metric: str) -> list[Place]:
        """Settings by a metric, each with what may tell it from others: variants first."""
        columns = [*self.benchmark.variants, *self.benchmark.derived_parameters]
        return [
            Place(setting[self.row.name], {p.name: setting[p.name] for p in columns}, each[metric])
            for each in estimates
            for setting in [each["setting"]]
        ]

    def decided(self, metric: str) -> Decided:
        """Who to use where by a metric, as far as it is decided."""
        every = itertools.chain.from_iterable(self._cells.values())
        return decide(self.benchmark, self.row, self._places(every, metric))

    def facts(self, metrics: Sequence[str]) -> dict[str, Any]:
        """The map as facts: all cells row by row, and the rarer columns apart."""
        count = Counter(column for column, _ in self._cells)
        columns = [column for column in sorted(count) if count[column] > 1] or sorted(count)
        rows = sorted({row for column, row in self._cells if column in columns})
        charts = []
        for metric in metrics:
            at = {key: cell(self._places(found, metric)) for key, found in self._cells.items()}
            cells = [[at.get((column, row)) for column in columns] for row in rows]
            rare = [
                {"column": list(column), "row": row, **at[column, row]}
                for column, row in sorted(at)
                if column not in columns
            ]
            charts.append({"metric": metric, "cells": cells, "rare": rare})
        shown = [list(column) for column in columns]
        return {"row": self.row.name, "rows": rows, "columns": shown, "charts": charts}

    def varying(self) -> list[str]:
        """Symbols of the sizes in which the settings of one place differ."""
        return [
            p.symbol
            for p in self.benchmark.given
            if any(len({e["setting"][p.name] for e in group}) > 1 for group in self._cells.values())
        ]
