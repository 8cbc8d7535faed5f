"""The part of a record's environment that is known without torch.

The measuring process adds its own part; where it dies, this is all that the record has.
"""

from __future__ import annotations

import platform
from typing import Any

from flashlab import machine

PACKAGES = ("torch", "flash-attn", "flash-attn-4", "triton", "nvidia-cudnn-cu13", "numpy")


def surroundings(device_name: str, gpu_uuid: str | None) -> dict[str, Any]:
    """The machine, the installed versions and the commit, for a run on this device.

    `gpu_uuid` and ``boot`` tell which runs were measured in one sitting; neither decides a number.
    """
    return {
        "device_name": device_name,
        "gpu_uuid": gpu_uuid,
        "boot": machine.boot_id(),
        "cpu": machine.cpu_model(),
        "cpu_count": machine.cpu_count(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: machine.package_version(name) for name in PACKAGES},
        "driver": machine.driver_version() if gpu_uuid else None,
        **machine.commit_here(),
    }
