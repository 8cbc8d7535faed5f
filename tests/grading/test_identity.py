"""Memory that is not that of the model accuses nobody where the model is not exact."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.course.declaration import Declaration
from flashlab.course.identity import known_workspaces
from flashlab.course.results import Numbers
from flashlab_grading.identity import check_identity
from flashlab_grading.model import Result


def of_naive(shape: Shape, excess: int) -> Result:
    """A result of the naive implementation on an H200 that holds `excess` bytes above the model."""
    _, hopper = known_workspaces()
    peak = costs.naive_peak_memory(shape, hopper) + excess
    seconds = {"forward": 1.0, "backward": 2.5, "forward_backward": 3.5}
    rates = dict.fromkeys(seconds, costs.forward_flops(shape) / 1e12)
    numbers = Numbers(seconds, rates, peak / costs.MIB)
    sizes = (shape.batch_size, shape.seq_len, shape.num_heads, shape.emb_dim, shape.causal)
    return Result("a.json", numbers, Declaration("runs.csv", "Pytorch", *sizes))


@pytest.mark.parametrize(
    ("shape", "excess", "code"),
    [
        (Shape(2, 1024, 2, 256, False), 0, "identity.pass"),
        (Shape(2, 1024, 2, 256, False), costs.MIB, "identity.not_exact"),  # as an H200 held it
        (Shape(16, 1024, 1, 64, False), 0, "identity.pass"),
        (Shape(16, 1024, 1, 64, False), costs.MIB, "identity.memory"),
        (Shape(1, 16384, 1, 64, True), 490733568, "identity.not_exact"),
    ],
)
def test_a_run_is_not_accused_where_its_memory_is_not_exact(
    shape: Shape, excess: int, code: str
) -> None:
    ((line,), _, _) = check_identity([of_naive(shape, excess)])
    assert line.code == code


def test_a_file_that_is_declared_as_two_runs_is_taken_for_none() -> None:
    found = of_naive(Shape(2, 1024, 2, 256, False), 0)
    twice = replace(found, declared_again=(replace(found.declaration, batch_size=4),))
    ((line,), _, families) = check_identity([twice])
    assert (line.code, families) == ("identity.declared_twice", {"a.json": ()})
