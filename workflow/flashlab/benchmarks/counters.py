"""The counters of a pass that a benchmark declares, by kind of device.

On a GPU its hardware counters, on a CPU the operators that PyTorch's profiler saw. They are samples
of one pass each, measured apart from the times, and so have no interval; no text tells them by
themselves, so that they have no words.
"""

from __future__ import annotations

from collections.abc import Mapping

from flashlab.benchmarks.model import Counters, Metric, Quantity

KERNEL_COUNTERS = {
    **{"kernels": "1", "busy_time": "ms", "dram_bytes": "B", "matrix_activity": "%"},
    **{"occupancy": "%", "compute_share": "%", "memory_share": "%"},
}
"""Units of those of the kernels of a pass on a GPU; times and bytes are sums over them, shares
their mean weighted by time."""

OPERATOR_COUNTERS = {
    **{"operators": "1", "operator_time": "ms", "allocated_bytes": "B"},
    **{"product_share": "%", "softmax_share": "%", "fused_share": "%", "elementwise_share": "%"},
}
"""Units of those of the operators of a pass on a CPU; shares are of the time in operators, and add
up to 100."""


def counters_of(
    passes: Mapping[str, str], units: Mapping[str, Mapping[str, str]]
) -> Mapping[str, Counters]:
    """The counters of a benchmark's passes on each kind of device.

    `passes` has a pass's name, such as ``forward``, by the timed metric's; `units` the unit of each
    counter, by kind of device.
    """
    return {
        device: {
            timed: tuple(
                Metric(f"{name}_{counter}", Quantity(counter, unit, "lower"))
                for counter, unit in of_device.items()
            )
            for timed, name in passes.items()
        }
        for device, of_device in units.items()
    }
