"""The benchmark of a Snakemake call: the one whose report it names, or ``benchmark=``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from flashlab.benchmarks.registry import BENCHMARKS, DEFAULT
from flashlab.config import ConfigError, Layer, named_benchmark
from flashlab.config.messages import nearest

OTHER_REPORTS = ("compare", "grades")
"""The reports that belong to no single benchmark."""

_REPORT = re.compile(r"(?:\./)?report/([^/]+)\.(pdf|html)")


def benchmark_of_file(path: str) -> str | None:
    """The benchmark whose file a path names, in ``report/`` or ``results/``; None for others."""
    path = path.removeprefix("./")
    if match := _REPORT.fullmatch(path):
        return next((name for name, b in BENCHMARKS.items() if b.report == match[1]), None)
    if match := re.match(r"results/([^/]+)/", path):
        own = (name for name in BENCHMARKS if match[1].endswith(f"-{name}"))
        return next(own, None if match[1] in ("grading", "compare") else DEFAULT.name)
    return None


def refuse_unknown_report(arguments: Sequence[str]) -> None:
    """Refuse a target in ``report/`` that no rule makes, before Snakemake does without the names.

    Raises:
        ConfigError: it names the reports that there are.
    """
    known = [*(benchmark.report for benchmark in BENCHMARKS.values()), *OTHER_REPORTS]
    for before, argument in zip(["", *arguments], arguments, strict=False):
        report = _REPORT.fullmatch(argument)
        # `--report FILE` is Snakemake's own.
        if report and report[1] not in known and not before.startswith("--report"):
            raise ConfigError(
                f"{argument}: there is no report {report[1]}{nearest(report[1], known)}; "
                f"there are {', '.join(known)}"
            )


def names_a_target(arguments: Sequence[str], *targets: str) -> bool:
    """True if one of these files is a target of a command line.

    Where the files exist already, Snakemake takes them for sources and drops the error of an input
    function: a call that lacks what its target needs has to be refused before.
    """
    return any(argument.removeprefix("./") in targets for argument in arguments)


def asked_benchmark(arguments: Sequence[str], own: Sequence[Layer]) -> str | None:
    """The benchmark that a call names, by its targets or in its own layers; None if neither does.

    Raises:
        ConfigError: the call names two of them.
    """
    targets: dict[str, str] = {}
    for argument in arguments:
        if name := benchmark_of_file(argument):
            targets.setdefault(name, argument)
    if len(targets) > 1:
        calls = " && ".join(f"snakemake --cores 1 {target}" for target in targets.values())
        raise ConfigError(
            f"One call makes the files of one benchmark, but {' and '.join(targets.values())} are "
            f"of {len(targets)}; make a call for each: {calls}"
        )
    asked = next(iter(targets), None)
    naming = {"benchmark", *BENCHMARKS}
    named = named_benchmark(own) if any(naming & layer.keys.keys() for layer in own) else None
    if asked and named and asked != named:
        raise ConfigError(
            f"{targets[asked]} is a file of the benchmark {asked}, but the call's configuration "
            f"asks for benchmark: {named}; leave out one of them"
        )
    return asked or named
