"""The shape that is planted where nothing else is stated, and look-ups in findings."""

from __future__ import annotations

from collections.abc import Iterable

from flashlab.analysis.finding import Finding, Reason
from flashlab.benchmarks.attention.shape import Shape

SHAPE = Shape(batch_size=2, seq_len=64, num_heads=4, emb_dim=64, causal=False)


def the_one(findings: Iterable[Finding], metric: str = "forward_time") -> Finding:
    """The only finding about a metric."""
    (found,) = [finding for finding in findings if finding.metric == metric]
    return found


def excluded_run(name: str, seq_len: int, status: str, causal: bool = False) -> Reason:
    """The reason that names a planted run without numbers."""
    run = {"implementation": name, "causal": causal, "seq_len": seq_len}
    return Reason("excluded", run, status)
