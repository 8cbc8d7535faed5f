"""The training loop: batches from a seed, gradient accumulation, AdamW, a schedule, autocast."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter
from typing import Any

import torch

from flashlab.benchmarks.training.model import GPT
from flashlab.measuring.protocols import synchronize
from flashlab.statistics import median_interval

Forward = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""The loss of a micro-batch, from tokens and targets, each (B, T)."""

WARM_UP_ITERATIONS = 10
"""Iterations before the first that counts: the first compiles, and the next ones settle memory."""

GRADIENT_NORM = 1.0
"""Gradients are scaled down to this norm where theirs is larger, as in nanoGPT."""

LOOK_EVERY = 10
"""Iterations between two looks at the interval."""


def learning_rate(iteration: int, settings: Mapping[str, Any]) -> float:
    """Linear warm-up, then half a cosine down to `min_lr` at the last iteration, as in nanoGPT."""
    highest, lowest = settings["learning_rate"], settings["min_lr"]
    warm_up, last = settings["warmup_iters"], settings["max_iters"]
    if not settings["decay_lr"]:
        return float(highest)
    if iteration < warm_up:
        return float(highest * (iteration + 1) / (warm_up + 1))
    share = min(1.0, (iteration - warm_up) / max(1, last - warm_up))
    return float(lowest + (highest - lowest) * 0.5 * (1 + math.cos(math.pi * share)))


def batches(
    tokens: torch.Tensor, run: Mapping[str, Any]
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Micro-batches without end, of a run's sizes: inputs and targets, each (B, T).

    Where they begin in the text is drawn from the run's seed on the CPU, so that every
    implementation and every device trains on the same ones.
    """
    generator = torch.Generator().manual_seed(run["seed"])
    within = torch.arange(run["block_size"] + 1)
    while True:
        starts = torch.randint(
            len(tokens) - run["block_size"], (run["batch_size"], 1), generator=generator
        )
        windows = tokens[starts + within]  # (B, T + 1)
        windows = windows.to(run["device"], non_blocking=True)
        yield windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


def autocast(run: Mapping[str, Any]) -> contextlib.AbstractContextManager[Any]:
    """Matrix products in the run's dtype, weights in float32; nothing to cast for float32."""
    if run["dtype"] == "float32":
        return contextlib.nullcontext()
    return torch.autocast(run["device"], getattr(torch, run["dtype"]))


def _optimizer(model: GPT, settings: Mapping[str, Any], device: str) -> torch.optim.AdamW:
    """AdamW with weight decay on matrices alone, fused on a GPU, as in nanoGPT."""
    weights = [*model.parameters()]
    groups = [
        {"params": [p for p in weights if p.dim() > 1], "weight_decay": settings["weight_decay"]},
        {"params": [p for p in weights if p.dim() <= 1], "weight_decay": 0.0},
    ]
    rates = {"lr": settings["learning_rate"], "betas": (settings["beta1"], settings["beta2"])}
    return torch.optim.AdamW(groups, **rates, fused=device == "cuda")


class Trainer:
    """A model in training: `step` is one iteration, from zeroed gradients to new weights.

    `forward` computes the loss of a micro-batch: the model, or the model compiled if the run says
    so. float16 needs its gradients scaled. `stopped` is ``interval``, ``time`` or ``count``.
    """

    def __init__(
        self, model: GPT, tokens: torch.Tensor, run: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> None:
        self.model, self.run, self.settings = model, run, settings
        self.forward: Forward = torch.compile(model) if run["compile"] else model
        self._batches = batches(tokens, run)
        self._optimizer = _optimizer(model, settings, run["device"])
        self._scaler = torch.amp.GradScaler(run["device"], enabled=run["dtype"] == "float16")
        self._iteration, self.stopped = 0, "count"

    def step(self) -> float:
        """One iteration; its loss, the mean over the micro-batches. Waits for the device twice."""
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate(self._iteration, self.settings)
        count = self.run["gradient_accumulation_steps"]
        total = torch.zeros((), device=self.run["device"])
        for _ in range(count):
            tokens, targets = next(self._batches)
            with autocast(self.run):
                loss = self.forward(tokens, targets) / count
            total += loss.detach()
            self._scaler.scale(loss).backward()
        self._scaler.unscale_(self._optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), GRADIENT_NORM)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._optimizer.zero_grad(set_to_none=True)
        self._iteration += 1
        return float(total)

    def train(self) -> Iterator[tuple[int, float, float]]:
        """Iterate until the 95% interval of the median time is narrow enough, or time is spent.

        At least `min_iters` iterations after the warm-up, and at most `max_iters` in all. Gives the
        number of each, its loss (nats), and its time (s) between two waits for the device; then
        `stopped` says why no more followed.
        """
        device, steady, deadline = self.run["device"], list[float](), math.inf
        for iteration in range(1, self.settings["max_iters"] + 1):
            synchronize(device)
            begin = perf_counter()
            loss = self.step()
            synchronize(device)
            spent = perf_counter() - begin
            yield iteration, loss, spent
            if iteration == WARM_UP_ITERATIONS:
                deadline = perf_counter() + self.settings["max_seconds"]
            if iteration <= WARM_UP_ITERATIONS:
                continue
            steady.append(spent)
            if len(steady) < self.settings["min_iters"] or len(steady) % LOOK_EVERY:
                continue
            half_width = median_interval(steady).relative_half_width
            is_reached = half_width <= self.settings["relative_interval"]
            if is_reached or perf_counter() >= deadline:
                self.stopped = "interval" if is_reached else "time"
                return
