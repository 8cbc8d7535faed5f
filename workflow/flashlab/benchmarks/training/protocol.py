"""The settings of the protocol ``training``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from flashlab.benchmarks.settings import Keys, NotNegative, OneOrEach, Positive, Precision, Share


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
