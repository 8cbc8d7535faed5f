"""Statements, and the typed values that they quote, free of any language.

A value knows how it is printed; a `Narrator` lends it a language and messages.
Whatever a report holds as text is `Tellable`: a text that is the same in every
language, a whole number, or one of the values below.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from flashlab.benchmarks.model import Benchmark, Metric, Parameter
from flashlab.numbers import in_full, in_short

LEAST_DIGITS = 3
"""The fewest significant digits of a measured number, as in 4.00: it was rounded to these."""


class Narrator(Protocol):
    """The part of a `teller.Teller` that values need: language, messages, the benchmark's words."""

    @property
    def language(self) -> str: ...
    def tell(self, told: Tellable) -> str: ...
    def text(self, key: str, about: Sequence[str], values: Mapping[str, Tellable]) -> str: ...
    def parameter(self, name: str) -> Parameter: ...
    def metric(self, name: str) -> Metric: ...


@dataclass(frozen=True)
class Value(ABC):
    """Something that is told."""

    @abstractmethod
    def printed(self, narrator: Narrator) -> str:
        """The value as a language prints it."""


Tellable = str | int | Value


@dataclass(frozen=True)
class Statement(Value):
    """A message and what it quotes; the key is a whole literal, so that the text is found by it.

    `about` names what the statement is about, such as a quantity or an implementation: a message
    that the labels hold for that, or for the benchmark, is told in place of the general one.
    """

    key: str
    values: Mapping[str, Tellable] = field(default_factory=dict)
    about: Sequence[str] = ()

    def printed(self, narrator: Narrator) -> str:
        return narrator.text(self.key, self.about, self.values)


def say(key: str, *about: str, **values: Tellable) -> Statement:
    """A statement about `about` that quotes `values`."""
    return Statement(key, values, about)


@dataclass(frozen=True)
class Label(Value):
    """A text declared in every language, such as a parameter's name."""

    texts: Mapping[str, str]

    def printed(self, narrator: Narrator) -> str:
        return self.texts[narrator.language]


@dataclass(frozen=True)
class Heading(Value):
    """A value that begins a sentence or stands alone: its first letter is a capital."""

    of: Tellable

    def printed(self, narrator: Narrator) -> str:
        text = narrator.tell(self.of)
        return text[:1].upper() + text[1:]


def heading(labels: Mapping[str, str]) -> Heading:
    """A declared text that begins a sentence or stands alone."""
    return Heading(Label(labels))


@dataclass(frozen=True)
class Within(Value):
    """A value within a sentence: its first letter is none."""

    of: Tellable

    def printed(self, narrator: Narrator) -> str:
        text = narrator.tell(self.of)
        return text[:1].lower() + text[1:]


@dataclass(frozen=True)
class Listed(Value):
    """Several values joined as the message `separator` says; the word for none where there is none.

    Without a separator they follow one another.
    """

    items: Sequence[Tellable]
    separator: str = "list.separator"

    def printed(self, narrator: Narrator) -> str:
        if not self.items and self.separator == "list.separator":
            return narrator.text("none", (), {})
        between = narrator.text(self.separator, (), {}) if self.separator else ""
        return between.join(map(narrator.tell, self.items))


@dataclass(frozen=True)
class Sentences(Value):
    """Sentences one after the other: with a space in Latin script, without in Chinese."""

    items: Sequence[Tellable]

    def printed(self, narrator: Narrator) -> str:
        between = "" if narrator.language == "zh_TW" else " "
        return between.join(map(narrator.tell, self.items))


def in_turn(items: Iterable[Tellable]) -> Tellable:
    """Sentences one after the other."""
    found = list(items)
    return found[0] if len(found) == 1 else Sentences(found)


def clauses(items: Iterable[Tellable]) -> Listed:
    """Clauses, each of which may hold a list."""
    return Listed(list(items), "clauses.separator")


# Numbers


@dataclass(frozen=True)
class Number(Value):
    """A number with all of its digits, or at most so many significant ones; a dash for None."""

    value: float | None
    digits: int | None = None

    def printed(self, narrator: Narrator) -> str:
        if self.value is None:
            return "–"
        value = self.value if self.digits is None else float(f"{self.value:.{self.digits}g}")
        return in_full(value)


@dataclass(frozen=True)
class Measured(Value):
    """A number that was rounded, with the zeros that it was rounded to: ``4.00``."""

    value: float
    places: int | None = None

    def printed(self, narrator: Narrator) -> str:
        places = self.places
        if places is None:
            magnitude = math.floor(math.log10(abs(self.value))) if self.value else 0
            places = max(0, LEAST_DIGITS - 1 - magnitude)
        return in_full(self.value, places)


@dataclass(frozen=True)
class Short(Value):
    """A number that need not be exact: two digits, whole from 10 on."""

    value: float

    def printed(self, narrator: Narrator) -> str:
        return in_short(self.value)


def percent(share: float) -> Short:
    """A share in percent, in short."""
    return Short(100 * share)


@dataclass(frozen=True)
class Range(Value):
    """Two ends with an en dash between; one number where they print alike."""

    low: Tellable
    high: Tellable

    def printed(self, narrator: Narrator) -> str:
        low, high = narrator.tell(self.low), narrator.tell(self.high)
        return low if low == high else f"{low}–{high}"


# What a benchmark declares


@dataclass(frozen=True)
class Setting(Value):
    """A parameter's values: ``N = 128 / 256``, or the words for those of a variant."""

    parameter: str
    values: Sequence[Any]

    def printed(self, narrator: Narrator) -> str:
        parameter = narrator.parameter(self.parameter)
        if parameter.words:
            return " / ".join(parameter.words[value][narrator.language] for value in self.values)
        return f"{parameter.symbol} = {' / '.join(map(str, self.values))}"


def setting(parameter: Parameter, *values: Any) -> Setting:
    """The values of a declared parameter."""
    return Setting(parameter.name, values)


def settings(benchmark: Benchmark, given: Mapping[str, Any]) -> list[Setting]:
    """The given parameters of a run, in order of declaration: ``N = 128``, ``causal``.

    A value may be a list of several. Of a whole run nothing is said that is as by default.
    """
    whole = given.keys() >= {parameter.name for parameter in benchmark.given}
    return [
        setting(parameter, *(value if isinstance(value, list) else [value]))
        for parameter in (benchmark.stated([given]) if whole else benchmark.parameters)
        if (value := given.get(parameter.name)) is not None
    ]


@dataclass(frozen=True)
class ParameterName(Value):
    """A parameter with its symbol: ``sequence length N``."""

    parameter: str

    def printed(self, narrator: Narrator) -> str:
        parameter = narrator.parameter(self.parameter)
        return f"{parameter.labels[narrator.language]} {parameter.symbol}"


@dataclass(frozen=True)
class MetricName(Value):
    """A metric within a sentence; `part` is what sets it apart within its quantity, if it has that.

    So that ``Forward`` stands for the forward time beside the backward time.
    """

    metric: str
    part: bool = False

    def printed(self, narrator: Narrator) -> str:
        metric = narrator.metric(self.metric)
        return ((self.part and metric.part) or metric.labels)[narrator.language]


@dataclass(frozen=True)
class Run(Value):
    """An implementation and its settings: ``Flash2 [N = 128, causal]``, of what there is of it."""

    name: str
    settings: Sequence[Tellable]

    def printed(self, narrator: Narrator) -> str:
        if not self.settings:
            return self.name
        return f"{self.name} [{narrator.tell(Listed(self.settings))}]".strip()
