"""The process whose counters Nsight Compute reads: runs each pass once where it looks.

It is started by Nsight Compute, with an order as of `flashlab.measuring.child`, and answers with
the passes that it ran. It ends with the Snakemake call that it belongs to.
"""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Any

import torch

from flashlab.measuring import child
from flashlab.plan.watching import end_with_workflow


def count(benchmark: ModuleType, kernel: ModuleType, order: dict[str, Any]) -> dict[str, Any]:
    """Run each pass of a run twice: once to compile and warm up, once to be counted."""
    passes = []
    for name, call in benchmark.passes(kernel, order["run"]):
        call()
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        torch.cuda._sleep(1)  # the marker (`flashlab.nsight.MARKER`)
        call()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
        passes.append(name)
    return {"passes": passes}


def main() -> None:
    """Run the order on the command line and write the answer."""
    order, path = sys.argv[1:]
    end_with_workflow()
    counting = {**json.loads(order), "part": "flashlab.measuring.counters"}
    child.answer(counting, path)


if __name__ == "__main__":
    main()
