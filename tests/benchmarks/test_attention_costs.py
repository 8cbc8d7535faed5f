from __future__ import annotations

from dataclasses import replace

import pytest

from flashlab.benchmarks.attention.costs import (
    MIB,
    compulsory_tensors,
    flash2_memory_is_exact,
    flash2_peak_memory,
    flops,
    has_memory_model,
    naive_memory_is_exact,
    naive_memory_parts,
    naive_peak_memory,
)
from flashlab.benchmarks.attention.shape import Shape

HEADLINE = Shape(batch_size=32, seq_len=1024, num_heads=32, emb_dim=2048, causal=False)


def test_the_peaks_at_the_headline_shape_are_those_that_were_published() -> None:
    assert flash2_peak_memory(HEADLINE) / MIB == 1288.00048828125
    assert naive_peak_memory(HEADLINE, workspaces=64 * MIB) / MIB == 9408
    parts = naive_memory_parts(HEADLINE, workspaces=64 * MIB)
    assert {name: size / MIB for name, size in parts.items()} == {
        **{"scores": 8192, "inputs": 768, "output": 384, "workspaces": 64}
    }


@pytest.mark.parametrize(("causal", "forward"), [(False, 2**38), (True, 2**37)])
def test_a_forward_pass_takes_4bn2hd_operations_and_backward_as_many_and_a_half_again(
    causal: bool, forward: int
) -> None:
    found = flops(replace(HEADLINE, causal=causal))
    assert [found[name] / forward for name in ("forward", "backward", "forward_backward")] == [
        *(1, 2.5, 3.5)
    ]


@pytest.mark.parametrize(
    ("head_dim", "columns"), [(32, 32), (40, 64), (64, 64), (96, 96), (128, 128), (160, 192)]
)
def test_the_dq_accumulator_is_padded_as_flash_attn_pads_it(head_dim: int, columns: int) -> None:
    shape = Shape(1, 1024, 1, head_dim, False)
    plain = 1024 * head_dim * (2 * 6 + 2 * 2) + 4 * 1024 + 4 * 1024 + 512
    assert flash2_peak_memory(shape) == plain + 4 * 1024 * columns


@pytest.mark.parametrize(("dtype", "size"), [("float16", 2), ("bfloat16", 2), ("float32", 4)])
def test_each_input_and_output_moves_once_at_least(dtype: str, size: int) -> None:
    tensor = 32 * 1024 * 2048 * size
    moved = {name: sum(of) for name, of in compulsory_tensors(HEADLINE, dtype).items()}
    assert moved == {"forward": 4 * tensor, "backward": 7 * tensor}


# Where the memory is exact. Peaks of the naive implementation as an H200 with torch 2.11.0 held
# them, less the 64 MiB of its workspaces.


@pytest.mark.parametrize(
    ("shape", "peak"),
    [
        (Shape(2, 1024, 16, 1024, False), (8 * 32 * 1024 + 18 * 32 * 64) * 1024),
        (Shape(1, 1024, 16, 1024, False), (8 * 16 * 1024 + 12 * 16 * 64) * 1024),
        (Shape(8, 2048, 1, 128, False), (8 * 8 * 2048 + 12 * 8 * 128) * 2048),
        (Shape(8, 2048, 1, 128, True), (8 * 8 * 2048 + 12 * 8 * 128) * 2048),
    ],
)
def test_one_sequence_or_one_head_needs_no_copies(shape: Shape, peak: int) -> None:
    assert naive_memory_is_exact(shape)
    assert naive_peak_memory(shape, 0) == peak


@pytest.mark.parametrize(
    ("shape", "model", "flash2", "naive"),
    [
        (Shape(1, 256, 4, 256, False), True, True, True),
        (Shape(1, 127, 4, 256, False), False, False, False),  # N < 2d
        (Shape(1, 256, 4, 4 * 60, False), False, False, False),  # flash-attn pads d
        (Shape(1, 130, 1, 64, False), True, False, False),  # the allocator rounds up
        (Shape(2, 1024, 2, 256, False), True, False, False),  # 3 MiB: 1 MiB was held more
        (Shape(3, 4096, 3, 192, False), True, False, False),  # 13.5 MiB: 0.5 MiB was held more
        (Shape(1, 16384, 1, 64, False), True, True, True),
        (Shape(1, 16384, 1, 64, True), True, True, False),  # the peak is in the forward pass
    ],
)
def test_where_the_memory_is_exact(shape: Shape, model: bool, flash2: bool, naive: bool) -> None:
    found = has_memory_model(shape), flash2_memory_is_exact(shape), naive_memory_is_exact(shape)
    assert found == (model, flash2, naive)


# Heads of queries that share keys and values: 32 of them, 8 or 1 of keys and values.


def test_shared_keys_cost_as_many_operations_and_fewer_bytes() -> None:
    shared, tensor = replace(HEADLINE, num_kv_heads=8), 32 * 1024 * 2048 * 2
    assert flops(shared) == flops(HEADLINE)
    moved = {name: sum(of) for name, of in compulsory_tensors(shared, "float16").items()}
    assert moved == {"forward": 2.5 * tensor, "backward": 4 * tensor}


@pytest.mark.parametrize("kv_heads", [8, 1])
def test_memory_that_sharing_saves_is_that_of_k_and_v_and_their_gradients(kv_heads: int) -> None:
    """Flash2 computes gradients of k and v for each head of q; the naive one repeats k and v."""
    shared, tensor = replace(HEADLINE, num_kv_heads=kv_heads), 32 * 1024 * 2048 * 2
    saved = tensor * (1 - kv_heads / 32)
    assert flash2_memory_is_exact(shared) and naive_memory_is_exact(shared)
    assert flash2_peak_memory(shared) == flash2_peak_memory(HEADLINE) - 4 * saved + 2 * tensor
    assert naive_peak_memory(shared, 0) == naive_peak_memory(HEADLINE, 0) - 2 * saved
    one, all_of_one = (replace(each, batch_size=1) for each in (shared, HEADLINE))
    repeated = 2 * tensor / 32
    assert naive_peak_memory(one, 0) == naive_peak_memory(all_of_one, 0) - saved / 16 + repeated
