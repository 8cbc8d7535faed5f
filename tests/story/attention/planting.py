"""Planted tables of three or more implementations, with what their kernels' files declare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planted.experiments import Planter
from story.reading import tables_of

from flashlab.analysis.doubts import doubts
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Experiment, with_warnings
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.implementations import implementations_of
from flashlab.story.attention.group_front import chapters_of
from flashlab.story.attention.groups import Chapter, groups_of
from flashlab.story.tables import Tables

NAIVE = (300, 600, 1200, 2400)
FAST = (10, 20, 40, 80)


def along_n(**changes: Any) -> dict[Any, Any]:
    """Times along N of five implementations, Flash4 the fastest of the others by 20%."""
    return {
        "Pytorch": NAIVE,
        "SdpaMath": tuple(3 * time for time in NAIVE),
        "Flash2": tuple(2 * time for time in FAST),
        "Flash3": tuple(1.2 * time for time in FAST),
        "Flash4": FAST,
        **changes,
    }


def declared(experiment: Experiment) -> Experiment:
    """The same with what the kernels' files say of each of its implementations."""
    kernels = implementations_of(ATTENTION)
    entries = [
        {
            **entry,
            "stores_scores": kernels[entry["name"]].stores_scores,
            "tuned_on": list(kernels[entry["name"]].tuned_on),
            "packed_of": kernels[entry["name"]].packed_of,
            "takes": kernels[entry["name"]].takes,
        }
        for entry in experiment.plan["implementations"]
    ]
    return replace(experiment, plan={**experiment.plan, "implementations": entries})


def many(planter: Planter, *runs: Mapping[Any, Any], **options: Any) -> Tables:
    """Tables of sweeps along N, each in an experiment of its own; by default 0.1% of noise."""
    options = {"spread": 0.001, **options}
    names = ("seq_len", "second", "third")
    planted = [
        planter.experiment(each, name, "seq_len", **options)
        for name, each in zip(names, runs, strict=False)
    ]
    return tables_of(*map(declared, planted))


def chapter_of(tables: Tables) -> Chapter:
    """The first chapter of planted tables."""
    groups = groups_of(tables)
    assert groups is not None
    return chapters_of(tables, groups)[0]


def doubted(tables: Tables) -> Tables:
    """The same tables with the warnings that follow from the samples."""
    planted = [section.experiment for section in tables.sections]
    added = doubts(planted, Estimates(planted))
    return tables_of(*(replace(e, runs=with_warnings(e.benchmark, e.runs, added)) for e in planted))
