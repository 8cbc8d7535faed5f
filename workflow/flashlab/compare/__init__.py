"""Comparing: two recordings, and kernels measured in turns, by one rule."""

import os
from typing import Any


def run_bench(*options: Any) -> int:
    """As `bench.bench`; 0 where every one was right, measured and plausible."""
    from flashlab.measuring.supervise import start_server
    from flashlab.usage import require_torch

    require_torch()
    start_server(os.getpid())  # before the imports below, which take a while too
    from flashlab.compare.bench import bench

    return 0 if bench(*options) else 1
