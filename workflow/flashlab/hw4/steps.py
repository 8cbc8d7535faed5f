"""The steps of the kernel ladder in their order, and the import of one."""

from __future__ import annotations

import difflib
from types import ModuleType

from flashlab.benchmarks.implementations import KERNELS, Implementation, find_implementations
from flashlab.hw4 import Hw4Error
from flashlab.measuring.kernel import load_kernel

LADDER = KERNELS / "ladder"


def steps() -> dict[str, Implementation]:
    """The steps by name, the first one first."""
    after = {step.previous: step for step in find_implementations(LADDER).values()}
    ordered: dict[str, Implementation] = {}
    step = after.get(None)
    while step is not None and step.name not in ordered:
        ordered[step.name] = step
        step = after.get(step.name)
    return ordered


def find_step(name: str | None) -> Implementation:
    """The step of a name, in capitals or not; the last one where no name is given.

    Raises Hw4Error if there is no such step.
    """
    known = steps()
    if name is None:
        return list(known.values())[-1]
    by_folded_name = {step.casefold(): step for step in known}
    if name.casefold() not in by_folded_name:
        close = difflib.get_close_matches(name.casefold(), by_folded_name, n=1)
        meant = f" (did you mean {by_folded_name[close[0]]}?)" if close else ""
        raise Hw4Error(f"unknown step {name}{meant}; the steps are {', '.join(known)}")
    return known[by_folded_name[name.casefold()]]


def load_step(name: str | None) -> ModuleType:
    """Import a step (`find_step`).

    Raises:
        Hw4Error: there is no such step, or a package that it imports is missing.
    """
    step = find_step(name)
    try:
        return load_kernel(step.path)
    except ImportError as error:
        raise Hw4Error(f"the step {step.name} cannot be imported: {error}") from error
