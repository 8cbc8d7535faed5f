"""``hyper_param.json``, the file that configures nanoGPT's attention benchmark, as configuration.

``compile`` and ``attn_type``, by which that benchmark selects the one training to run, are checked
but have no effect: an experiment trains every combination. The sizes apply to runs on a GPU; the
tiny model of a machine without one stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flashlab.untrusted import UnsoundFileError, read_file

SIZES = (
    *("n_layer", "n_head", "n_embd", "block_size", "batch_size"),
    "gradient_accumulation_steps",
)
SETTINGS = (
    *("dropout", "bias", "learning_rate", "max_iters", "weight_decay", "beta1", "beta2"),
    *("decay_lr", "warmup_iters", "min_lr"),
)
ATTENTION_TYPES = {
    "naive": "Pytorch",
    "math": "SdpaMath",
    "flash_attn": "Flash2",
    "efficient_attn": "SdpaEfficient",
}
"""Our names of the attentions, by those of that benchmark."""

OTHERS = ("compile", "attn_type", "dataset", "out_dir")


class HyperParamError(ValueError):
    """A file that is not a ``hyper_param.json``; one message with the remedy."""


def _read(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(read_file(path))
    except UnsoundFileError as error:
        raise HyperParamError(f"{path}: {error}") from error
    except ValueError as error:
        raise HyperParamError(f"{path}: not JSON: {error}") from error
    if not isinstance(document, dict):
        raise HyperParamError(f'{path}: must hold keys with values, such as {{"n_layer": 12}}')
    known = (*SIZES, *SETTINGS, *OTHERS)
    if unknown := [key for key in document if key not in known]:
        raise HyperParamError(
            f"{path}: {unknown[0]}: is not a key of hyper_param.json; known: {', '.join(known)}"
        )
    if not isinstance(document.get("compile", True), bool):
        raise HyperParamError(f"{path}: compile: must be true or false")
    attention = document.get("attn_type", "naive")
    if attention not in ATTENTION_TYPES:
        names = ", ".join(ATTENTION_TYPES)
        raise HyperParamError(f"{path}: attn_type: {attention!r} is none of {names}")
    return document


def read_hyper_param(path: Path, experiments: Sequence[str]) -> dict[str, Any]:
    """The keys of a configuration layer that trains as the file says, in all of `experiments`.

    Raises:
        HyperParamError: the file cannot be read, or holds what is unknown.
    """
    document = _read(path)
    sizes = {key: document[key] for key in SIZES if key in document}
    settings = {key: document[key] for key in SETTINGS if key in document}
    if "dataset" in document:
        settings["corpus"] = {"name": document["dataset"]}
    keys: dict[str, Any] = {"measure": {"training": settings}} if settings else {}
    if sizes:
        keys["summary"] = {"cuda": sizes}
        keys["experiments"] = [{"use": name, "cuda": sizes} for name in experiments]
    return keys
