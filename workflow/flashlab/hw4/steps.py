"""The steps of the kernel ladder in their order, and the import of one."""

from __future__ import annotations

import difflib
from types import ModuleType

from flashlab.hw4 import Hw4Error
from flashlab.measuring.kernel import load_kernel
from flashlab.plan.implementations import KERNELS, Implementation, find_implementations

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


def load_step(name: str | None) -> ModuleType:
    """Import a step; the last one where no name is given.

    Raises:
        Hw4Error: there is no such step, or a package that it imports is missing.
    """
    known = steps()
    name = name or list(known)[-1]
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        meant = f" (did you mean {close[0]}?)" if close else ""
        raise Hw4Error(f"unknown step {name}{meant}; the steps are {', '.join(known)}")
    try:
        return load_kernel(known[name].path)
    except ImportError as error:
        raise Hw4Error(f"the step {name} cannot be imported: {error}") from error
