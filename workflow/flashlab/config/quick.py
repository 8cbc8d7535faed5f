"""A preview of a configuration: the ends of each sweep, runs that the whole measures anyway."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEVICES = ("cuda", "cpu")


def _ends(block: Mapping[str, Any], sweep: str) -> dict[str, Any]:
    """A block with the first and the last value of its sweep, and of parameters swept with it."""
    values = block.get(sweep)
    if not isinstance(values, list) or len(values) < 3:
        return dict(block)
    return {
        name: [value[0], value[-1]]
        if isinstance(value, list) and len(value) == len(values)
        else value
        for name, value in block.items()
    }


def preview_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The ends of each sweep, measured in one process by the same protocol, without counters.

    Its records are records of the whole, so the next call without ``quick`` keeps them. The
    configuration itself where it does not ask for a preview.
    """
    if not config["quick"]:
        return dict(config)
    return {
        **config,
        "counters": "no",
        "replicates": dict.fromkeys(DEVICES, 1),
        "experiments": [
            {
                **{key: value for key, value in experiment.items() if key != "replicates"},
                **{device: _ends(experiment[device], experiment["sweep"]) for device in DEVICES},
            }
            for experiment in config["experiments"]
        ],
    }
