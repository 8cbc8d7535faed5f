"""A benchmark: its parameters, its metrics, the module that measures it, and the costs of a run.

A benchmark is a declared value. Tables, stories, figures and reports iterate the declaration and
never name a benchmark, a parameter or a metric of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from flashlab.benchmarks.settings import Keys

Texts = Mapping[str, str]
"""One text for each language."""


def texts(zh_tw: str, en: str) -> Texts:
    """A text in both languages."""
    return {"zh_TW": zh_tw, "en": en}


Value = int | bool | str
Parameters = Mapping[str, Value]
"""The values of a benchmark's parameters, the derived ones left out."""


class UnknownNameError(Exception):
    """A parameter, metric or quantity that a benchmark does not declare."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a run: a size (int), or a variant (bool or str).

    `labels` are the words for it within a sentence. `words` name the values of a variant, which is
    stated with everything said about a run. `derive` computes a parameter that follows from the
    others.

    `default` gives it, from the others, where a record or a configuration from before it does not
    say: runs with that value are named and identified as they were, and a report says nothing of it
    where all have that. None where it must be given. `divides` names a parameter that must be a
    multiple of it.

    `stands_for` gives the values of all given ones that a value of a derived parameter stands for,
    None for a value that it does not have: a configuration may give it in their place. A
    `nominal` one has numbers for names: nothing grows along it.
    """

    name: str
    symbol: str
    labels: Texts
    kind: type[int] | type[bool] | type[str] = int
    words: Mapping[Value, Texts] = field(default_factory=dict)
    derive: Callable[[Parameters], Value] | None = None
    stands_for: Callable[[int], Parameters | None] | None = None
    nominal: bool = False
    default: Callable[[Parameters], Value] | None = None
    divides: str | None = None

    @property
    def is_variant(self) -> bool:
        """True if its values are kinds of problem rather than sizes."""
        return self.kind is not int


@dataclass(frozen=True)
class Product:
    """Three parameters of which one is the product of the others, so that any two give the third.

    A configuration may give any two; a run states `whole` and the first factor, and the second
    follows.
    """

    whole: str
    factors: tuple[str, str]

    @property
    def names(self) -> tuple[str, str, str]:
        """The three parameters, in the order in which they are named to a user."""
        return (self.factors[0], self.whole, self.factors[1])

    def __str__(self) -> str:
        """The rule: ``emb_dim = num_heads × head_dim``."""
        return f"{self.whole} = {' × '.join(self.factors)}"


FLOPS = {"TFLOP/s": 1e12, "GFLOP/s": 1e9}
"""Operations a second in one of each unit of a rate."""


@dataclass(frozen=True)
class Quantity:
    """The common properties of metrics that stand in one figure, a panel for each of them.

    An exact quantity is the same at every measurement; any other is sampled, or measured `once` in
    each process, which gives no interval. `labels` are the words for several metrics together; for
    a single one its own do. `unit_on` gives, by kind of device, another unit for its derived
    metrics, and how many of it make up `unit`.
    """

    name: str
    unit: str
    better: Literal["lower", "higher"]
    labels: Texts = field(default_factory=dict)
    exact: bool = False
    logarithmic: bool = True
    once: bool = False
    unit_on: Mapping[str, tuple[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Derived:
    """A metric's formula: element by element, from the run's parameters and other metrics.

    `of` names one metric, or several measured ones. `compute` takes the parameters, without dtype
    and device, and the values; it is monotonic in each value, so that intervals carry over.
    """

    of: tuple[str, ...]
    compute: Callable[..., Any]


@dataclass(frozen=True)
class Metric:
    """One measured or derived quantity of a run.

    `labels` are the words for it within a sentence, if it is told in words, `part` the title of its
    panel where a quantity has several (none for a total of others). `work` gives the operations of
    a time.
    A run may lack a metric that is `optional`: its implementation has no such part, its device does
    not tell, it was not asked for, or the record is older than the metric. A measured one that is
    `only_shown` is compared with nothing.
    """

    name: str
    quantity: Quantity
    labels: Texts = field(default_factory=dict)
    part: Texts = field(default_factory=dict)
    derived: Derived | None = None
    work: Callable[[Parameters], float] | None = None
    optional: bool = False
    only_shown: bool = False

    @property
    def unit(self) -> str:
        """The unit in records, tables and reports."""
        return self.quantity.unit

    @property
    def exact(self) -> bool:
        """True if it is the same at every measurement."""
        return self.quantity.exact

    @property
    def higher_is_better(self) -> bool:
        """The direction in which it improves."""
        return self.quantity.better == "higher"


@dataclass(frozen=True)
class Curve:
    """A quantity that a run gives as it goes on, such as the loss of a training.

    A record holds its value at each step, the first of which is 1. `labels` are the words for it
    within a sentence, `along` those for a step.
    """

    name: str
    unit: str
    labels: Texts
    along: Texts


Counters = Mapping[str, tuple[Metric, ...]]
"""The counters of the pass behind a timed metric, by that metric's name."""


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: its parameters, its metrics, and the module that measures them.

    `measure` is the module with ``measure(kernel, run, protocol)``, which measuring processes call;
    it imports nothing of the declaration. `report` is the stem of the report's name. `kernels` is
    the folder of its implementations, below ``kernels/``, and `entry_point` the function that each
    of them defines, with its arguments. `packed_protocols` give every implementation packed q, k
    and v, other protocols the form that it takes; None where there are no such forms. `products`
    are parameters that follow from one another. `counters` are those of the pass behind a timed
    metric, by kind of device (`counters_on`); ``passes(kernel, run)`` of the module `measure` runs
    those passes. `naive` names the implementation that does nothing clever, which any other should
    beat. `gated` are the words for what the correctness gate compares, by the names in a record.
    `top_level_keys` gives what a record holds beside our own keys, for readers of another format.
    `whole` names a time that others are parts of, `occupied` a time and how much of it the device
    is busy. `variables` are environment variables of the measuring process, by kind of device. On a
    kind of device in `simulated`, a simulator runs the implementations: their times are compared
    with nothing. `curves` are what a run gives step by step. `protocols` are ways of measuring of
    the benchmark's own: each with what gives its settings. `size` says in words how large a problem
    is, beside its parameters. `dtypes` are those that `auto` stands for, by kind of device.
    `settings_file` reads the file that ``hyper_param=`` names as keys of a configuration, for these
    experiments, and lines about what it does not take of it; ValueError with the remedy where it
    cannot.
    """

    name: str
    report: str
    parameters: tuple[Parameter, ...]
    metrics: tuple[Metric, ...]
    measure: str
    kernels: str = ""
    entry_point: str = "attention(qkv, causal)"
    packed_protocols: Collection[str] | None = None
    products: tuple[Product, ...] = ()
    counters: Mapping[str, Counters] = field(default_factory=dict)
    naive: str | None = None
    gated: Mapping[str, Texts] = field(default_factory=dict)
    top_level_keys: Callable[[Parameters, Mapping[str, float | None]], dict[str, Any]] | None = None
    whole: str | None = None
    occupied: tuple[str, str] | None = None
    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    simulated: frozenset[str] = frozenset()
    curves: tuple[Curve, ...] = ()
    size: Callable[[Parameters], Sequence[Texts]] = lambda _: ()
    protocols: Mapping[str, Callable[[], type[Keys]]] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=lambda: {"cuda": "float16", "cpu": "float32"})
    settings_file: Callable[[Path, Sequence[str]], tuple[dict[str, Any], list[str]]] | None = None

    @cached_property
    def given(self) -> tuple[Parameter, ...]:
        """The parameters that a run states; the others follow from them."""
        return tuple(p for p in self.parameters if p.derive is None)

    def given_in(self, document: Parameters) -> dict[str, Value]:
        """The given parameters in a mapping, with the defaults of those that it lacks.

        KeyError for one that is missing and has no default.
        """
        return {
            p.name: document[p.name] if p.name in document or not p.default else p.default(document)
            for p in self.given
        }

    @cached_property
    def stand_in(self) -> Parameter | None:
        """The parameter whose values stand for those of others, and so name whole problems."""
        return next((p for p in self.parameters if p.stands_for), None)

    @cached_property
    def variants(self) -> tuple[Parameter, ...]:
        """The given parameters whose values are kinds of problem rather than sizes."""
        return tuple(p for p in self.given if p.is_variant)

    @cached_property
    def measured(self) -> tuple[Metric, ...]:
        """The metrics that a record holds; the others follow."""
        return tuple(m for m in self.metrics if m.derived is None)

    @cached_property
    def compared(self) -> tuple[Metric, ...]:
        """The measured metrics that are compared; the others are only shown.

        Those are declared so, or measured once in each process.
        """
        return tuple(m for m in self.measured if not m.only_shown and not m.quantity.once)

    def counters_on(self, device: str) -> Counters:
        """The counters of each pass on a kind of device; empty if there are none."""
        return self.counters.get(device, {})

    def all_counters(self, device: str) -> tuple[Metric, ...]:
        """The counters of every pass on a kind of device."""
        return tuple(itertools.chain.from_iterable(self.counters_on(device).values()))

    def having(self, names: Collection[str]) -> Benchmark:
        """The benchmark for records that hold the measured metrics of these names.

        Optional metrics that are not among them are left out, with those derived from them.
        """
        gone = {m.name for m in self.measured if m.optional and m.name not in names}
        kept = (m for m in self.metrics if gone.isdisjoint(self.measured_behind(m.name)))
        return replace(self, metrics=tuple(kept)) if gone else self

    def on(self, device: str) -> Benchmark:
        """The benchmark with its derived metrics in the units that suit a kind of device."""

        def suited(metric: Metric) -> Metric:
            if metric.derived is None or device not in metric.quantity.unit_on:
                return metric
            (unit, factor), compute = metric.quantity.unit_on[device], metric.derived.compute
            derived = replace(metric.derived, compute=lambda *given: factor * compute(*given))
            return replace(metric, quantity=replace(metric.quantity, unit=unit), derived=derived)

        return replace(self, metrics=tuple(map(suited, self.metrics)))

    @cached_property
    def totals(self) -> tuple[Metric, ...]:
        """The sums of several measured, sampled metrics: those derived in the quantity of each."""
        sampled = {m.name: m.quantity for m in self.compared if not m.exact}

        def is_total(metric: Metric) -> bool:
            parts = metric.derived.of if metric.derived else ()
            return len(parts) > 1 and all(sampled.get(part) == metric.quantity for part in parts)

        return tuple(filter(is_total, self.metrics))

    @cached_property
    def quantities(self) -> dict[str, Quantity]:
        """Every quantity by its name, in order of declaration."""
        return {metric.quantity.name: metric.quantity for metric in self.metrics}

    def parameter(self, name: str) -> Parameter:
        return _named(self.parameters, name, f"parameter of {self.name}")

    def metric(self, name: str) -> Metric:
        counters = (self.all_counters(device) for device in self.counters)
        declared = (*self.metrics, *itertools.chain.from_iterable(counters))
        return _named(declared, name, f"metric of {self.name}")

    def measured_behind(self, name: str) -> tuple[str, ...]:
        """Names of the measured metrics that a metric follows from; its own if it is measured."""
        derived = self.metric(name).derived
        if derived is None:
            return (name,)
        names = (measured for base in derived.of for measured in self.measured_behind(base))
        return tuple(dict.fromkeys(names))

    def panels(self, quantity: str) -> tuple[Metric, ...]:
        """The metrics that a figure of a quantity shows, a panel each; totals have none."""
        _named(self.quantities.values(), quantity, f"quantity of {self.name}")
        metrics = tuple(m for m in self.metrics if m.quantity.name == quantity)
        return metrics if len(metrics) == 1 else tuple(m for m in metrics if m.part)

    def all_parameters(self, given: Parameters) -> dict[str, Value]:
        """The given parameters with those that follow from them, in order of declaration."""
        known = self.given_in(given)
        return {p.name: p.derive(known) if p.derive else known[p.name] for p in self.parameters}

    def complete(self, block: Parameters) -> dict[str, Value]:
        """The given parameters, from a block with others in place of some of them.

        It has any two of those that follow from one another, or one that stands for others.
        """
        given: dict[str, Any] = dict(block)
        if self.stand_in and self.stand_in.stands_for and self.stand_in.name in given:
            given |= self.stand_in.stands_for(given.pop(self.stand_in.name)) or {}
        for product in self.products:
            first, second = product.factors
            if second in given:
                other = given.pop(second)
                if first in given:
                    given[product.whole] = given[first] * other
                else:
                    given[first] = given[product.whole] // other
        return given | self.given_in(given)

    def combinations(self, block: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The sets of values that a block gives: lists go together; those of variants cross them.

        The sizes of one variant come after one another.
        """
        lists = {key: value for key, value in block.items() if isinstance(value, list)}
        crossed = {v.name: lists.pop(v.name) for v in self.variants if v.name in lists}
        count = max(map(len, lists.values()), default=1)
        sizes = [{key: values[i] for key, values in lists.items()} for i in range(count)]
        return [
            {**block, **size, **dict(zip(crossed, values, strict=True))}
            for values in itertools.product(*crossed.values())
            for size in sizes
        ]

    def describe(self, given: Parameters) -> list[str]:
        """The given parameters that are not as by default: ``B16 N1024 H32 E2048 full``."""
        return [
            parameter.words[given[parameter.name]]["en"]
            if parameter.words
            else f"{parameter.symbol}{given[parameter.name]}"
            for parameter in self.given
            if parameter.name not in self.defaulted(given)
        ]

    def defaulted(self, given: Parameters) -> frozenset[str]:
        """The names of the parameters that have their default value."""
        return frozenset(
            p.name for p in self.given if p.default and given[p.name] == p.default(given)
        )

    def stated(self, runs: Iterable[Parameters]) -> tuple[Parameter, ...]:
        """The parameters that say something of these runs: not those that all have by default."""
        silent = {p.name for p in self.given if p.default}
        for run in runs if silent else ():
            silent &= self.defaulted(run)
        return tuple(p for p in self.parameters if p.name not in silent)


Named = TypeVar("Named", Parameter, Quantity, Metric)


def _named(declared: Iterable[Named], name: str, what: str) -> Named:
    by_name = {entry.name: entry for entry in declared}
    if name not in by_name:
        raise UnknownNameError(f"{name} is no {what}; there are {', '.join(by_name)}")
    return by_name[name]
