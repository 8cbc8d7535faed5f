"""FLOPs and memory tell the implementation and a set of shapes that holds the true one."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flashlab import costs
from flashlab.costs import WORKSPACE_BEFORE_HOPPER
from flashlab.grading.gpus import WORKSPACES
from flashlab.grading.identity import HEAD_DIMS, candidates, exact, fits, naive_memory
from flashlab.grading.model import Declaration
from flashlab.records import Shape

# N is 2d and more, and B·H a multiple of 16, so that most shapes have an exact memory.
shapes = st.builds(
    lambda b, more, h, d, causal: Shape(b, 2 * d + more, 16 * h, 16 * h * d, causal),
    *(st.integers(1, 128), st.integers(0, 400).map(lambda k: 8 * k), st.integers(1, 8)),
    *(st.sampled_from(HEAD_DIMS), st.booleans()),
)


def declared(implementation: str, s: Shape) -> Declaration:
    sizes = (s.batch_size, s.seq_len, s.num_heads, s.emb_dim, s.causal)
    return Declaration("runs.csv", implementation, *sizes)


@given(shapes)
def test_the_true_run_is_among_the_candidates_of_flash2(shape: Shape) -> None:
    assume(exact(shape))
    found = candidates(costs.forward_flops(shape), costs.flash2_peak_memory(shape))
    assert any(fits(candidate, declared("Flash2", shape)) for candidate in found)


@given(shapes, st.sampled_from(WORKSPACES))
def test_the_true_run_is_among_the_candidates_of_the_naive_one(shape: Shape, size: int) -> None:
    assume(exact(shape))
    found = candidates(costs.forward_flops(shape), naive_memory(shape, size))
    assert any(fits(candidate, declared("Pytorch", shape)) for candidate in found)


@given(shapes)
def test_every_candidate_makes_these_flops_and_this_memory(shape: Shape) -> None:
    flops, memory = costs.forward_flops(shape), costs.flash2_peak_memory(shape)
    for candidate in candidates(flops, memory):
        assert costs.forward_flops(candidate.shape) == flops
        size = candidate.workspace
        model = (
            costs.flash2_peak_memory(candidate.shape)
            if size is None
            else naive_memory(candidate.shape, size)
        )
        assert model == memory


def test_twins_cannot_be_told_apart() -> None:
    """Half the batch with twice the heads and width, and Flash2's half the heads causal at 2N."""
    shape = Shape(16, 512, 32, 2048, False)
    found = candidates(costs.forward_flops(shape), costs.flash2_peak_memory(shape))
    for twin in (Shape(8, 512, 64, 4096, False), Shape(8, 1024, 32, 2048, True)):
        assert any(fits(candidate, declared("Flash2", twin)) for candidate in found)
    for other in (Shape(16, 512, 32, 2048, True), Shape(16, 512, 16, 2048, False)):
        assert not any(fits(candidate, declared("Flash2", other)) for candidate in found)


def test_the_slides_own_result_is_what_it_says() -> None:
    """The result that the course's slides show: an RTX 3070, B 32, N 1024, H 32, E 2048."""
    flops = 0.007095515976349513 * 38.739664297876566 * 1e12
    found = candidates(flops, 1288.00048828125 * costs.MIB)
    assert [candidate.said() for candidate in found] == [
        "Flash2 B·H=1024 N=1024 d=64 full",
        "Flash2 B·H=512 N=2048 d=64 causal",
    ]


def test_the_published_share_of_memory_follows_from_the_models() -> None:
    """A published report of an RTX 3070: Flash2 needs 14% of the naive one at B 16, N 1024."""
    shape = Shape(16, 1024, 32, 2048, False)
    naive = naive_memory(shape, WORKSPACE_BEFORE_HOPPER)
    assert costs.flash2_peak_memory(shape) / naive == pytest.approx(0.14, abs=0.005)


@pytest.mark.parametrize(
    ("shape", "known"),
    [
        (Shape(1, 256, 4, 256, False), True),
        (Shape(1, 127, 4, 256, False), False),  # N < 2d
        (Shape(1, 256, 4, 4 * 60, False), False),  # flash-attn pads d
        (Shape(1, 130, 1, 64, False), False),  # the allocator rounds 4·N bytes
    ],
)
def test_where_the_memory_is_exact(shape: Shape, known: bool) -> None:
    assert exact(shape) == known


@pytest.mark.parametrize("memory", [0.0, 0.5, -512.0, 511.0, 1e300])
@pytest.mark.parametrize("flops", [0.0, 1.0, 1e30, 1e-30])
def test_numbers_of_nothing_have_no_candidates(flops: float, memory: float) -> None:
    assert candidates(flops, memory) == ()
