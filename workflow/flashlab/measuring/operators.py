"""The operators of each pass on a CPU, their times and allocations, by PyTorch's profiler.

Each pass runs once to warm up and a few times under the profiler. Every call runs the same
operators; each of them is reported with the median of its times, so that a disturbance of one call
does not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from types import ModuleType
from typing import Any

from torch.profiler import ProfilerActivity, profile, record_function

CALLS = 5
"""Profiled calls of a pass, an odd number."""

MARKER = "flashlab::pass"
"""The range that each call is in."""

MEMORY = "[memory]"
"""The profiler's name of an event of the allocator."""

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


@dataclass
class Call:
    """One range of the profiler on one thread, with the ranges within it; times in ns."""

    name: str
    start: int
    end: int
    calls: list[Call] = field(default_factory=list)

    @property
    def is_operator(self) -> bool:
        """True for an operator of PyTorch or of a library, False for autograd's own."""
        return "::" in self.name and not self.name.startswith(("autograd::", "torch::"))

    @property
    def nanoseconds(self) -> int:
        """Its duration, with everything that it called."""
        return self.end - self.start

    def holds(self, moment: int) -> bool:
        """True if a moment, in ns, lies within it."""
        return self.start <= moment < self.end

    def within(self) -> Iterator[Call]:
        """Every range within it, at any depth."""
        for call in self.calls:
            yield call
            yield from call.within()


Computing = list[tuple[str, Call]]
"""Operators that compute, each with its class."""


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


def computing(call: Call) -> Iterator[tuple[str, Call]]:
    """The operators within a call that compute, each once and with its class.

    One that only calls others gives way to those. Attention in one operator counts with all that it
    calls, such as filling its outputs with zeros.
    """
    for inner in call.calls:
        kind = _class_of(inner) if inner.is_operator else None
        if kind:
            yield kind, inner
        else:
            yield from computing(inner)


def typical(calls: Sequence[Computing]) -> Computing:
    """The operators of several calls, each with the median of its times.

    Where the calls do not run the same operators, those of the middle one.
    """
    if len({tuple(call.name for _, call in computed) for computed in calls}) > 1:
        return calls[len(calls) // 2]
    return [
        (same[0][0], Call(same[0][1].name, 0, int(median(call.nanoseconds for _, call in same))))
        for same in zip(*calls, strict=True)
    ]


def nested(events: Iterable[tuple[int, str, int, int]]) -> list[Call]:
    """The outermost ranges of events, given as thread, name, start and end in ns."""
    outermost: list[Call] = []
    open_on: dict[int, list[Call]] = {}
    for thread, name, start, end in sorted(events, key=lambda event: (event[2], -event[3])):
        call, stack = Call(name, start, end), open_on.setdefault(thread, [])
        while stack and stack[-1].end < end:
            stack.pop()
        (stack[-1].calls if stack else outermost).append(call)
        stack.append(call)
    return outermost


def _summary(operators: Computing, allocated: int) -> dict[str, float]:
    """The counters of a pass, by the names of their quantities (`benchmarks.counters`)."""
    spent = dict.fromkeys(CLASSES, 0)
    for kind, call in operators:
        spent[kind] += call.nanoseconds
    total = sum(spent.values())
    return {
        "operators": float(len(operators)),
        "operator_time": total / 1e6,
        "allocated_bytes": float(allocated),
        **{f"{kind}_share": 100 * own / max(total, 1) for kind, own in spent.items()},
    }


def _details(operators: Computing) -> list[dict[str, Any]]:
    """The operators of a pass by name, the longest first."""
    merged: dict[str, dict[str, Any]] = {}
    for kind, call in operators:
        new = {"name": call.name, "class": kind, "calls": 0, "milliseconds": 0.0}
        entry = merged.setdefault(call.name, new)
        entry["calls"] += 1
        entry["milliseconds"] += call.nanoseconds / 1e6
    return sorted(merged.values(), key=lambda entry: (-entry["milliseconds"], entry["name"]))


def _profiled(call: Callable[[], object]) -> tuple[Computing, int]:
    """The operators of a pass, and the bytes that the allocator handed out in it."""
    call()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for _ in range(CALLS):
            with record_function(MARKER):
                call()
    events = profiler.profiler.kineto_results.events()
    outermost = nested(
        (e.start_thread_id(), e.name(), e.start_ns(), e.start_ns() + e.duration_ns())
        for e in events
        if e.name() != MEMORY
    )
    markers = sorted((c for c in outermost if c.name == MARKER), key=lambda c: c.nanoseconds)
    calls = []
    for marker in markers:
        # The work of autograd's own threads meanwhile belongs to the call too.
        besides = [c for c in outermost if c.name != MARKER and marker.holds(c.start)]
        calls.append([*computing(Call(MARKER, 0, 0, [*marker.calls, *besides]))])
    of_middle = [e for e in events if markers[CALLS // 2].holds(e.start_ns())]
    allocated = sum(max(0, e.nbytes()) for e in of_middle if e.name() == MEMORY)
    return typical(calls), allocated


def count(benchmark: ModuleType, kernel: ModuleType, order: Mapping[str, Any]) -> dict[str, Any]:
    """Count each pass of an order's run: its counters, and its operators by name."""
    profiled = {n: _profiled(timed.run) for n, timed in benchmark.passes(kernel, order["run"])}
    return {
        "counted": {name: _summary(*found) for name, found in profiled.items()},
        "details": {"operators": {name: _details(ops) for name, (ops, _) in profiled.items()}},
    }
