"""One run at a time on a device: a claim on the CPU or on one GPU, held under a file lock.

The lock belongs to the open file, so it goes with the process that holds it, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flashlab import machine

POLL_SECONDS = 0.02


def _try_lock(name: str) -> int | None:
    """The file descriptor of the lock of this name; None if another process holds it."""
    path = Path(tempfile.gettempdir(), f"flashlab-{name}.lock")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, 0o666)
    except PermissionError:  # another user's, in a folder where the system protects it
        descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _devices(device: str) -> dict[str, str]:
    """CUDA_VISIBLE_DEVICES for the CPU, or for each visible GPU, by the name of its lock."""
    return {"cpu": ""} if device == "cpu" else {gpu.uuid: gpu.uuid for gpu in machine.gpus()}


def is_claimed(device: str) -> bool:
    """True if processes hold the CPU, or every visible GPU; False where no GPU is visible."""
    names = _devices(device)
    for name in names:
        if (descriptor := _try_lock(name)) is not None:
            os.close(descriptor)
            return False
    return bool(names)


@contextmanager
def claimed(device: str, card: int | None = None) -> Iterator[dict[str, str]]:
    """Claim the CPU, or a visible GPU, for the block.

    Of several GPUs it is that of the number `card`, counted round (`plan.blocks`), or whichever is
    free first. Yields the environment variables that confine a child process to it.
    """
    names = [*_devices(device).items()]
    if not names:
        raise machine.MachineError("no NVIDIA GPU is visible any more; check nvidia-smi")
    if card is not None:
        names = [names[card % len(names)]]
    while True:
        for name, visible in names:
            if (descriptor := _try_lock(name)) is not None:
                with os.fdopen(descriptor):
                    yield {"CUDA_VISIBLE_DEVICES": visible}
                return
        time.sleep(POLL_SECONDS)
