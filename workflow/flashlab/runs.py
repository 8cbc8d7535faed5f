"""A run: one implementation of a benchmark's problem, at one set of parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from flashlab.benchmarks.model import Benchmark, Value


@dataclass(frozen=True, order=True)
class Run(Mapping[str, Value]):
    """One implementation at one set of parameters, dtype and kind of device (cuda or cpu).

    As a mapping it holds the given parameters (`parameters`, in the benchmark's order). `words` are
    those in short, for names and messages. Those that have their default value, `defaulted`, stand
    neither in names nor in records.
    """

    implementation: str
    parameters: tuple[tuple[str, Value], ...]
    dtype: str
    device: str
    words: tuple[str, ...]
    defaulted: frozenset[str] = field(default=frozenset(), compare=False)

    @classmethod
    def of(cls, benchmark: Benchmark, document: Mapping[str, Any]) -> Run:
        """The run whose keys stand in a mapping; KeyError for one without a default."""
        given = benchmark.given_in(document)
        return cls(
            document["implementation"],
            tuple(given.items()),
            document["dtype"],
            document["device"],
            tuple(benchmark.describe(given)),
            benchmark.defaulted(given),
        )

    def __getitem__(self, name: str) -> Value:
        return dict(self.parameters)[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.parameters)

    def __len__(self) -> int:
        return len(self.parameters)

    def to_row(self) -> dict[str, Any]:
        """All of the run in a flat mapping, as a table has it."""
        kind = {"dtype": self.dtype, "device": self.device}
        return {"implementation": self.implementation, **dict(self.parameters), **kind}

    def to_json(self) -> dict[str, Any]:
        """The flat mapping that stands in a record under ``record.run``."""
        return {key: value for key, value in self.to_row().items() if key not in self.defaulted}

    def __str__(self) -> str:
        """The run in one line: ``Flash2 B16 N1024 H32 E2048 full float16 cuda``."""
        return " ".join([self.implementation, *self.words, self.dtype, self.device])

    @property
    def slug(self) -> str:
        """The run as part of a file name: ``flash2-b16-n1024-h32-e2048-full-float16-cuda``."""
        return str(self).lower().replace(" ", "-")
