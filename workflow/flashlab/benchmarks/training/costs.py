"""The costs of an iteration of training: parameters, model FLOPs, bytes.

N parameters, L n_layer, E n_embd, T block_size, V vocabulary. Model FLOPs are those of PaLM
(Chowdhery et al. 2022, appendix B), as nanoGPT's ``estimate_mfu`` counts them: for each token 6 N
for the matrix products of the parameters, forward and backward, and 12 L E T for those of
attention, of which the causal mask spares none here. N leaves out the position embedding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flashlab.benchmarks.training.corpus import VOCABULARY


def parameter_count(sizes: Mapping[str, Any]) -> int:
    """Parameters of the model, without biases and without the position embedding."""
    L, E = sizes["n_layer"], sizes["n_embd"]
    block = 12 * E**2 + 2 * E  # attention 4 E², MLP 8 E², two layer norms
    return int(len(VOCABULARY) * E + L * block + E)


def tokens(sizes: Mapping[str, Any]) -> int:
    """Tokens of an iteration, over all of its micro-batches."""
    count: int = sizes["batch_size"] * sizes["block_size"] * sizes["gradient_accumulation_steps"]
    return count


def flops(sizes: Mapping[str, Any]) -> float:
    """Model FLOPs of an iteration."""
    attention = 12 * sizes["n_layer"] * sizes["n_embd"] * sizes["block_size"]
    return float((6 * parameter_count(sizes) + attention) * tokens(sizes))
