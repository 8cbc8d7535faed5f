"""The operators of each pass on a CPU, their times and allocations, by PyTorch's profiler.

Each pass runs once to warm up and a few times under the profiler. Every call runs the same
operators; each of them is reported with the median of its times, so that a disturbance of one call
does not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from types import ModuleType
from typing import Any, NamedTuple

from torch.profiler import ProfilerActivity, profile, record_function

CALLS = 5
"""Profiled calls of a pass, an odd number."""

MARKER, MEMORY = "flashlab::pass", "[memory]"
"""The range that each call is in, and the profiler's name of an event of the allocator."""

PRODUCT, SOFTMAX, FUSED, ELEMENTWISE = "product", "softmax", "fused", "elementwise"
CLASSES = (PRODUCT, SOFTMAX, FUSED, ELEMENTWISE)
"""Matrix products, softmax, attention in one operator, and everything else that computes."""

_PRODUCT = re.compile(r"::_?(addmm|baddbmm|bmm|mm|addmv|mv|dot|mkldnn_linear|linear)(_\w*)?$")
_SOFTMAX = re.compile("softmax")
_FUSED = re.compile("attention")

IDLE = re.compile(
    r"aten::(_?reshape(_alias)?|as_strided|(_unsafe_)?view(_as)?|transpose|t|permute|unbind|select|"
    r"slice|narrow|(un)?squeeze|expand(_as)?|detach|alias|split|chunk|resolve_(conj|neg)|to|set_|"
    r"contiguous|dropout|flatten|lift_fresh|resize_|(new_)?empty(_like|_strided)?|is_same_size)"
)
"""Operators that compute nothing themselves: views, allocations, and no-ops."""


class Call(NamedTuple):
    """A range of the profiler: ns with all that it called, bytes that it was handed itself."""

    name: str
    nanoseconds: int
    calls: Sequence[Call] = ()
    allocated: int = 0

    @property
    def is_operator(self) -> bool:
        """True for an operator of PyTorch or of a library, False for autograd's own."""
        return "::" in self.name and not self.name.startswith(("autograd::", "torch::"))

    def within(self) -> Iterator[Call]:
        """Every range within it, at any depth."""
        for call in self.calls:
            yield call
            yield from call.within()


class Operator(NamedTuple):
    """An operator that computes: its class, and its time in ns."""

    kind: str
    name: str
    nanoseconds: float


def _class_of(call: Call) -> str | None:
    """The class of an operator that counts for all within it; None if those count instead."""
    if _PRODUCT.search(call.name):
        return PRODUCT
    if _SOFTMAX.search(call.name):
        return SOFTMAX
    inside = [inner.name for inner in call.within() if inner.is_operator]
    if _FUSED.search(call.name):
        apart = any(_PRODUCT.search(name) or _SOFTMAX.search(name) for name in inside)
        return None if apart else FUSED
    is_last = not IDLE.fullmatch(call.name) and all(map(IDLE.fullmatch, inside))
    return ELEMENTWISE if is_last else None


def computing(call: Call) -> Iterator[Operator]:
    """The operators within a call that compute, each once and with its class.

    One that only calls others gives way to those. Attention in one operator counts with all that it
    calls, such as filling its outputs with zeros.
    """
    for inner in call.calls:
        kind = _class_of(inner) if inner.is_operator else None
        if kind:
            yield Operator(kind, inner.name, inner.nanoseconds)
        else:
            yield from computing(inner)


def typical(calls: Sequence[Sequence[Operator]]) -> list[Operator]:
    """The operators of several calls, each with the median of its times.

    Where the calls do not run the same operators, those of the middle one.
    """
    if len({tuple(operator.name for operator in call) for call in calls}) > 1:
        return [*calls[len(calls) // 2]]
    together = zip(*calls, strict=True)
    return [same[0]._replace(nanoseconds=median(s.nanoseconds for s in same)) for same in together]


def _call(event: Any) -> Call:
    """A range from PyTorch's tree of them, in which autograd's threads are where they belong."""
    allocated = [c.extra_fields.alloc_size for c in event.children if c.name == MEMORY]
    inner = [_call(child) for child in event.children if child.name != MEMORY]
    return Call(event.name, event.duration_time_ns, inner, sum(max(0, a) for a in allocated))


def _profiled(call: Callable[[], object]) -> tuple[list[Operator], int]:
    """The operators of a pass, and the bytes that the allocator handed out in it."""
    call()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for _ in range(CALLS):
            with record_function(MARKER):
                call()
    events = profiler.profiler.kineto_results.experimental_event_tree()
    calls = sorted((_call(e) for e in events if e.name == MARKER), key=lambda c: c.nanoseconds)
    middle = calls[CALLS // 2]
    allocated = middle.allocated + sum(inner.allocated for inner in middle.within())
    return typical([[*computing(each)] for each in calls]), allocated


def _summary(operators: Sequence[Operator], allocated: int) -> dict[str, float]:
    """The counters of a pass, by the names of their quantities (`benchmarks.counters`)."""
    spent = {kind: sum(o.nanoseconds for o in operators if o.kind == kind) for kind in CLASSES}
    total = sum(spent.values())
    return {
        "operators": float(len(operators)),
        "operator_time": total / 1e6,
        "allocated_bytes": float(allocated),
        **{f"{kind}_share": 100 * own / max(total, 1) for kind, own in spent.items()},
    }


def _details(operators: Sequence[Operator]) -> list[dict[str, Any]]:
    """The operators of a pass by name, the longest first."""
    merged: dict[str, dict[str, Any]] = {}
    for kind, name, nanoseconds in operators:
        new = {"name": name, "class": kind, "calls": 0, "milliseconds": 0.0}
        entry = merged.setdefault(name, new)
        entry["calls"] += 1
        entry["milliseconds"] += nanoseconds / 1e6
    return sorted(merged.values(), key=lambda entry: (-entry["milliseconds"], entry["name"]))


def count(benchmark: ModuleType, kernel: ModuleType, order: Mapping[str, Any]) -> dict[str, Any]:
    """Count each pass of an order's run: its counters, and its operators by name."""
    profiled = {n: _profiled(timed.run) for n, timed in benchmark.passes(kernel, order["run"])}
    return {
        "counted": {name: _summary(*found) for name, found in profiled.items()},
        "details": {"operators": {name: _details(ops) for name, (ops, _) in profiled.items()}},
    }
