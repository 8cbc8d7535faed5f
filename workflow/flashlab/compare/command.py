"""``bench``, ``profile`` and ``compare`` as commands: each prints, and returns its exit status."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from flashlab.benchmarks.implementations import ImplementationError
from flashlab.checking.shapes import ShapeError
from flashlab.usage import UsageError, require_torch


def bench(*options: Any) -> int:
    """As `bench.run_bench`; 0 where every one was right, measured and plausible."""
    from flashlab.measuring.supervise import start_server

    require_torch()
    start_server(os.getpid())  # before the imports below, which take a while too
    from flashlab.compare.bench import run_bench

    try:
        return 0 if run_bench(*options) else 1
    except (ImplementationError, ShapeError) as error:
        raise UsageError(str(error)) from error


def profile(*options: Any) -> int:
    """As `profile.profile`; 1 where not all could be counted."""
    require_torch()
    from flashlab.compare.profile import profile

    try:
        return 0 if profile(*options) else 1
    except (ImplementationError, ShapeError) as error:
        raise UsageError(str(error)) from error


def compare(
    one: str, other: str, name: str, form: str, fail_on: Sequence[str], language: str
) -> int:
    """Print the comparison of two sides; 1 where a verdict stands that the call is to fail on."""
    from flashlab.benchmarks.registry import find_benchmark
    from flashlab.compare.comparison import compare, read_compared
    from flashlab.compare.report import as_lines, runs
    from flashlab.compare.sides import find_side
    from flashlab.files import json_text

    benchmark = find_benchmark(name)
    document = compare(find_side(one, benchmark), find_side(other, benchmark))
    c = read_compared(document)
    told = json_text(document) if form == "json" else as_lines(c, language, form == "markdown")
    print(told, end="")
    return 1 if runs(c, fail_on) else 0
