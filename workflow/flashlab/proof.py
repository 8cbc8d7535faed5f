"""The proof of when and where a record was measured: a grader's word, the GPU, and the samples.

With ``--config nonce=TEXT`` each record states the text in its protocol, and a seal: a hash over
the text, the device, the time and every sample. A record that existed before the text was made
known cannot have it, and samples that were changed afterwards no longer match. It proves nothing
about honesty: whoever can run this program can also compute a seal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from flashlab.files import canonical

NONCE = "nonce"
SEAL = "seal"
GPU_UUID = "gpu_uuid"


def seal_of(record: Mapping[str, Any]) -> str:
    """SHA-256 of a ``record`` block's word, device, time and measurements."""
    environment, protocol = record["environment"], record["protocol"]
    sealed = {
        "nonce": protocol.get(NONCE),
        "run": record["run"],
        "device_name": environment.get("device_name"),
        "gpu_uuid": environment.get(GPU_UUID),
        "started": record["started"],
        "metrics": record["metrics"],
    }
    return hashlib.sha256(canonical(sealed).encode()).hexdigest()
