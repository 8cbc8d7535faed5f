"""Where an implementation ran out of memory: the largest value that fitted and what did not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from flashlab.analysis.experiment import Experiment
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import EXPERIMENTS, Given, Kind
from flashlab.analysis.series import excluded_runs
from flashlab.telling.values import InBrackets, Listed, Tellable, say, settings


def memory_limits(experiment: Experiment, _: Given) -> Iterator[Finding]:
    """Where each implementation ran out of memory.

    A run that ended before its memory was measured, such as an incorrect one, has neither fitted
    nor failed.
    """
    for name, variant in itertools.product(sorted(experiment.implementations), experiment.variants):
        rows = experiment.run_rows(name, variant)
        fitted = [experiment.value_of(row) for row in rows if row["status"] == "ok"]
        failed = [experiment.value_of(row) for row in rows if row["status"] == "oom"]
        told: dict[str, Tellable] = {
            "implementation": name,
            "variant": InBrackets(settings(experiment.benchmark, dict(variant))),
            "symbol": experiment.parameter.symbol,
            "failed": Listed(failed),
        }
        statement = say("out_of_memory.limit_found.nothing", **told)
        if fitted:
            statement = say("out_of_memory.limit_found", largest=max(fitted), **told)
        yield Finding(
            "out_of_memory",
            experiment.name,
            {"implementation": name, "variant": dict(variant)},
            "limit_found" if failed else "none",
            [statement] if failed else [],
            {"smallest": min(failed, default=None), "failed": failed},
            [{"value": experiment.value_of(row), "estimate": row["status"]} for row in rows],
            excluded_runs(experiment, (row for row in rows if row["status"] != "oom")),
        )


OUT_OF_MEMORY = Kind(
    label="kind.out_of_memory",
    verdicts=("limit_found", "none"),
    of_experiment=[(EXPERIMENTS, memory_limits)],
    told="in full",
    alarming=frozenset({"limit_found"}),
)
