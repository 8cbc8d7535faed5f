"""Training in the configuration: the settings of its protocol, and ``hyper_param.json``.

That file configures nanoGPT's attention benchmark. Its sizes apply to runs on a GPU; the tiny model
of a machine without one stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from flashlab.benchmarks.settings import Keys, NotNegative, OneOrEach, Positive, Precision, Share
from flashlab.untrusted import UnsoundFileError, parse_json, read_file


class Seconds(Keys):
    """Seconds of training on each kind of device."""

    cuda: Positive = 15
    cpu: Positive = 3


class Training(Keys):
    """The stop rules, and the settings of hyper_param.json that are the same for all runs."""

    max_iters: Annotated[int, Field(ge=20)] = 500
    min_iters: Annotated[int, Field(ge=10)] = 100
    relative_interval: Precision = 0.01
    max_seconds: OneOrEach[Positive, Seconds] = Seconds()
    learning_rate: Positive = 6e-4
    min_lr: NotNegative = 6e-5
    decay_lr: bool = True
    warmup_iters: Annotated[int, Field(ge=0)] = 200
    weight_decay: NotNegative = 1e-2
    beta1: Share = 0.9
    beta2: Share = 0.95
    dropout: Share = 0.0
    bias: bool = False


SIZES = (
    *("n_layer", "n_head", "n_embd", "block_size", "batch_size"),
    "gradient_accumulation_steps",
)
SETTINGS = (
    *("dropout", "bias", "learning_rate", "max_iters", "weight_decay", "beta1", "beta2"),
    *("decay_lr", "warmup_iters", "min_lr"),
)
NOT_TAKEN = {
    "compile": "the experiments say what is compiled",
    "attn_type": "the experiments name the implementations",
    "dataset": "one text is trained on, which a seed gives",
    "out_dir": "a record keeps what is measured, and no checkpoint",
}
"""The other keys of that benchmark, and why a configuration has no use for them."""


class HyperParamError(ValueError):
    """A file that is not a ``hyper_param.json``; one message with the remedy."""


def read_hyper_param(path: Path, experiments: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The keys of a configuration layer that trains as the file says, in all of `experiments`.

    Beside them a line for each key of the file that is not taken.

    Raises:
        HyperParamError: the file cannot be read, or holds what is unknown.
    """
    try:
        document = parse_json(read_file(path))
    except UnsoundFileError as error:
        raise HyperParamError(f"{path}: {error}") from error
    if not isinstance(document, dict):
        raise HyperParamError(f'{path}: must hold keys with values, such as {{"n_layer": 12}}')
    known = (*SIZES, *SETTINGS, *NOT_TAKEN)
    if unknown := [key for key in document if key not in known]:
        raise HyperParamError(
            f"{path}: {unknown[0]}: is not a key of hyper_param.json; known: {', '.join(known)}"
        )
    sizes = {key: document[key] for key in SIZES if key in document}
    settings = {key: document[key] for key in SETTINGS if key in document}
    keys: dict[str, Any] = {"measure": {"training": settings}} if settings else {}
    if sizes:
        keys["summary"] = {"cuda": sizes}
        keys["experiments"] = [{"use": name, "cuda": sizes} for name in experiments]
    notices = [
        f"{path}: {key} is not taken: {NOT_TAKEN[key]}" for key in NOT_TAKEN if key in document
    ]
    return keys, notices
