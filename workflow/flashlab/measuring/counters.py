"""The process whose counters Nsight Compute reads: runs each pass once where it looks.

It is started by Nsight Compute, with an order as of `flashlab.measuring.child`, and answers with
the passes that it ran. It ends with the Snakemake call that it belongs to.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import torch

from flashlab.measuring import child
from flashlab.plan.watching import end_with_workflow


def count(benchmark: ModuleType, kernel: ModuleType, order: Mapping[str, Any]) -> dict[str, Any]:
    """Run each pass of a run twice: once to compile and warm up, once to be counted."""
    passes = []
    for name, timed in benchmark.passes(kernel, order["run"]):
        timed.run()
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        torch.cuda._sleep(1)  # the marker (`flashlab.nsight.MARKER`)
        timed.run()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
        passes.append(name)
    return {"passes": passes}


if __name__ == "__main__":
    order, path = sys.argv[1:]
    end_with_workflow()
    child.answer({**json.loads(order), "part": "flashlab.measuring.counters"}, path)
