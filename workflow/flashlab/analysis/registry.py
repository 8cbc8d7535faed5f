"""Every kind of finding, in the order in which they are derived and counted."""

from __future__ import annotations

from collections.abc import Mapping

from flashlab.analysis.kind import Kind
from flashlab.analysis.kinds.anomaly import ANOMALY
from flashlab.analysis.kinds.cause import CAUSE
from flashlab.analysis.kinds.choice import CHOICE
from flashlab.analysis.kinds.comparison import COMPARISON
from flashlab.analysis.kinds.correctness import CORRECTNESS
from flashlab.analysis.kinds.counters import COUNTERS
from flashlab.analysis.kinds.crossover import CROSSOVER
from flashlab.analysis.kinds.curve import CURVE
from flashlab.analysis.kinds.derived_size import DERIVED_SIZE
from flashlab.analysis.kinds.device_use import DEVICE_USE
from flashlab.analysis.kinds.environment import ENVIRONMENT
from flashlab.analysis.kinds.exact_account import EXACT_ACCOUNT
from flashlab.analysis.kinds.exact_comparison import EXACT_COMPARISON
from flashlab.analysis.kinds.jump import JUMP
from flashlab.analysis.kinds.monotonicity import MONOTONICITY
from flashlab.analysis.kinds.out_of_memory import OUT_OF_MEMORY
from flashlab.analysis.kinds.packed import PACKED
from flashlab.analysis.kinds.processes import PROCESSES
from flashlab.analysis.kinds.roofline import ROOFLINE
from flashlab.analysis.kinds.scaling import SCALING
from flashlab.analysis.kinds.sittings import SITTINGS
from flashlab.analysis.kinds.step import STEP
from flashlab.analysis.kinds.variant_effect import VARIANT_EFFECT
from flashlab.analysis.kinds.variant_gain import VARIANT_GAIN
from flashlab.analysis.kinds.whole import WHOLE
from flashlab.analysis.kinds.worse_than_naive import WORSE_THAN_NAIVE

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        *(CHOICE, VARIANT_EFFECT, COMPARISON, PACKED, CROSSOVER, EXACT_COMPARISON, OUT_OF_MEMORY),
        *(SCALING, MONOTONICITY, ANOMALY, EXACT_ACCOUNT, JUMP),
        *(STEP, WHOLE, ROOFLINE, CAUSE, DEVICE_USE),
        *(CORRECTNESS, VARIANT_GAIN, DERIVED_SIZE, WORSE_THAN_NAIVE, CURVE),
        *(ENVIRONMENT, PROCESSES, SITTINGS, COUNTERS),
    )
}
"""By name."""
