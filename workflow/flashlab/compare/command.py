"""``bench`` as a command."""

from __future__ import annotations

import os
from typing import Any

from flashlab.usage import require_torch


def bench(*options: Any) -> int:
    """As `bench.run_bench`; 0 where every one was right, measured and plausible."""
    from flashlab.measuring.supervise import start_server

    require_torch()
    start_server(os.getpid())  # before the imports below, which take a while too
    from flashlab.compare.bench import run_bench

    return 0 if run_bench(*options) else 1
