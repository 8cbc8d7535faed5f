"""Statements in a language: the texts of the labels with what they quote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from flashlab import statistics
from flashlab.benchmarks.model import Benchmark, Metric, Parameter
from flashlab.labels import message, messages
from flashlab.telling.values import Tellable, Value


class Teller:
    """Tells in a language; of a benchmark, in its own words where the labels hold any.

    Every message may quote ``{margin}``, such as 5%.
    """

    def __init__(self, language: str, benchmark: Benchmark | None = None) -> None:
        self.language = language
        self._benchmark = benchmark
        self._known = messages(language, "report")
        self._margin = f"{100 * statistics.MARGIN:g}%"

    def tell(self, told: Tellable) -> str:
        """A value in words; a text, or a whole number, as it is."""
        return told.printed(self) if isinstance(told, Value) else str(told)

    def text(
        self, key: str, about: Sequence[str] = (), values: Mapping[str, Tellable] | None = None
    ) -> str:
        """The most special message for a key, with what it quotes.

        For something x that it is about, the order is ``<benchmark>.x.<key>``, ``x.<key>``,
        ``<benchmark>.<key>``, ``<key>``. MissingMessageError if the labels have none of them.
        """
        special = next((name for name in self._special(key, about) if name in self._known), key)
        quoted = {name: self.tell(value) for name, value in (values or {}).items()}
        found = message(self.language, "report", special)
        return found.format_map({"margin": self._margin, **quoted})

    def _special(self, key: str, about: Sequence[str]) -> Iterator[str]:
        benchmark = "" if self._benchmark is None else self._benchmark.name
        for name in about:
            yield f"{benchmark}.{name}.{key}"
            yield f"{name}.{key}"
        yield f"{benchmark}.{key}"

    def parameter(self, name: str) -> Parameter:
        """A parameter of the benchmark that is told about."""
        assert self._benchmark is not None
        return self._benchmark.parameter(name)

    def metric(self, name: str) -> Metric:
        """A metric of the benchmark that is told about."""
        assert self._benchmark is not None
        return self._benchmark.metric(name)
