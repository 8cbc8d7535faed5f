"""Where an implementation ran out of memory: the largest value that fitted and what did not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from flashlab.analysis.experiment import Sweep, Variant
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import EXPERIMENTS, Given, Kind
from flashlab.analysis.series import excluded_runs
from flashlab.telling.values import InBrackets, Listed, Statement, Tellable, say, settings


def _statement(
    sweep: Sweep, name: str, variant: Variant, fitted: list[int], failed: list[int]
) -> Statement:
    values: dict[str, Tellable] = {
        "implementation": name,
        "variant": InBrackets(settings(sweep.benchmark, dict(variant))),
        "symbol": sweep.parameter.symbol,
        "failed": Listed(failed),
    }
    if not fitted:
        return say("out_of_memory.limit_found.nothing", **values)
    return say("out_of_memory.limit_found", largest=max(fitted), **values)


def memory_limits(sweep: Sweep, _: Given) -> Iterator[Finding]:
    """Where each implementation ran out of memory.

    A run that ended before its memory was measured, such as an incorrect one, has neither fitted
    nor failed.
    """
    for name, variant in itertools.product(sorted(sweep.implementations), sweep.variants):
        rows = sweep.run_rows(name, variant)
        fitted = [sweep.value_of(row) for row in rows if row["status"] == "ok"]
        failed = [sweep.value_of(row) for row in rows if row["status"] == "oom"]
        yield Finding(
            "out_of_memory",
            sweep.name,
            {"implementation": name, "variant": dict(variant)},
            "limit_found" if failed else "none",
            [_statement(sweep, name, variant, fitted, failed)] if failed else [],
            {"smallest": min(failed, default=None), "failed": failed},
            [{"value": sweep.value_of(row), "estimate": row["status"]} for row in rows],
            excluded_runs(sweep, (row for row in rows if row["status"] != "oom")),
        )


OUT_OF_MEMORY = Kind(
    label="kind.out_of_memory",
    verdicts=("limit_found", "none"),
    of_experiment=[(EXPERIMENTS, memory_limits)],
    told="in full",
    alarming=frozenset({"limit_found"}),
)
