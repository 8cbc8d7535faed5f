"""A kind of finding as a declared value: its verdicts, what it is asked of, and how it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from flashlab.analysis.ceilings import Ceilings
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding


@dataclass(frozen=True)
class Given:
    """What findings are derived from beside the tables.

    `ceilings` are those of the device, None where none were measured; `published` is the document
    of claims.
    """

    estimates: Estimates
    ceilings: Ceilings | None
    published: Mapping[str, Any]


Place = Literal["sweep", "unordered", "headline", "simulated"]
"""What an experiment is to those who ask: one along which something may grow, one of alternatives
or whole problems, the headline's one setting, or one whose times mean nothing."""

SWEEPS: frozenset[Place] = frozenset({"sweep"})
EXPERIMENTS: frozenset[Place] = frozenset({"sweep", "unordered"})
COMPARED: frozenset[Place] = frozenset({"sweep", "unordered", "headline"})

Whole = Literal["choices", "alternatives", "simulated"]
"""What a dataset is: one of choices at many settings, one of alternatives, or simulated runs."""

CHOICES: frozenset[Whole] = frozenset({"choices"})
MEASURED: frozenset[Whole] = frozenset({"choices", "alternatives"})
EVERY: frozenset[Whole] = frozenset({"choices", "alternatives", "simulated"})

OfExperiment = Callable[[Sweep, Given], Iterator[Finding]]
OfDataset = Callable[[Sequence[Sweep], Given], Iterator[Finding]]

Telling = Literal["in full", "briefly", "of the dataset", "elsewhere"]
"""How sections tell a kind: every finding about the headline's implementations; the strongest one
alone; beside the roofline, the one with the most settings behind it; or not in sentences, but in
tables, on pages of its own, or as the evidence of conclusions."""


@dataclass(frozen=True)
class Kind:
    """A kind of finding.

    `label` is the message that names it, `name` what ends its key. `of_experiment` and
    `of_dataset` derive it, each where it is asked. A finding without statements is counted, not
    told. `strength` orders those that are told briefly: 0 for nothing worth telling. A verdict in
    `alarming` says that something that should hold does not, and is told of every
    implementation.
    """

    label: str
    verdicts: Sequence[str]
    of_experiment: Sequence[tuple[frozenset[Place], OfExperiment]] = ()
    of_dataset: Sequence[tuple[frozenset[Whole], OfDataset]] = ()
    told: Telling = "elsewhere"
    strength: Callable[[Finding], float] | None = None
    alarming: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """What findings and their schema call it."""
        return self.label.removeprefix("kind.")
