"""A GPT as in nanoGPT: a stack of pre-norm blocks, with attention taken from an implementation.

B batch size, T block size (tokens of a sequence), E n_embd, H n_head, D = E / H, V vocabulary.
The attention has the interface of ``kernels/``: a packed tensor (B, T, 3, H, D) to (B, T, H, D).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

Attention = Callable[[torch.Tensor, bool], torch.Tensor]

INITIAL_DEVIATION = 0.02
"""Standard deviation of the initial weights, as in GPT-2."""


@dataclass(frozen=True)
class GPTConfig:
    """The sizes of a GPT; `bias` is that of its linear layers and layer norms."""

    n_layer: int
    n_head: int
    n_embd: int
    block_size: int
    vocab_size: int
    bias: bool = False
    dropout: float = 0.0


class CausalSelfAttention(nn.Module):
    """Each position attends to the positions up to itself."""

    def __init__(self, config: GPTConfig, attention: Attention) -> None:
        super().__init__()
        self.n_head = config.n_head
        self.attention = attention
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.resid_dropout = nn.Dropout(config.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention over the positions of x, (B, T, E) to (B, T, E)."""
        B, T, E = x.shape
        qkv = self.c_attn(x)  # (B, T, 3·E)
        qkv = qkv.view(B, T, 3, self.n_head, E // self.n_head)  # (B, T, 3, H, D)
        y = self.attention(qkv, True)  # (B, T, H, D)
        y = y.reshape(B, T, E)  # (B, T, E), the heads side by side
        out: torch.Tensor = self.resid_dropout(self.c_proj(y))
        return out


class MLP(nn.Module):
    """Each position by itself: up to four times the width, GELU, and back."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Each position of x by itself, (B, T, E) to (B, T, E)."""
        x = functional.gelu(self.c_fc(x))  # (B, T, 4·E)
        out: torch.Tensor = self.dropout(self.c_proj(x))  # (B, T, E)
        return out


class Block(nn.Module):
    """Attention, then the MLP, each with its input normalised and its output added to it."""

    def __init__(self, config: GPTConfig, attention: Attention) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.attn = CausalSelfAttention(config, attention)
        self.ln_2 = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.mlp = MLP(config)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Both parts, each added to its input: (B, T, E) to (B, T, E)."""
        x = x + self.attn(self.ln_1(x))  # (B, T, E)
        x = x + self.mlp(self.ln_2(x))  # (B, T, E)
        return x


class GPT(nn.Module):
    """Token and position embeddings, the blocks, and logits by the token embedding's transpose."""

    def __init__(self, config: GPTConfig, attention: Attention) -> None:
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, attention) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.lm_head.weight = self.wte.weight
        self.initialise()

    def initialise(self) -> None:
        """Normal weights; those that add to the residual stream smaller by √(2 n_layer)."""
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                residual = name.endswith("c_proj.weight")
                scale = 1 / math.sqrt(2 * self.config.n_layer) if residual else 1.0
                nn.init.normal_(parameter, std=INITIAL_DEVIATION * scale)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The mean cross-entropy in nats of predicting `targets` from `tokens`, both (B, T)."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)  # (T,)
        x = self.drop(self.wte(tokens) + self.wpe(positions))  # (B, T, E)
        for block in self.blocks:
            x = block(x)  # (B, T, E)
        logits = self.lm_head(self.ln_f(x))  # (B, T, V)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
