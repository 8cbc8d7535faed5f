"""Runs read from file names; an ambiguous name gives nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashlab.course.declaration import of_name

NAMES = {
    "batch_bs16_fl2.json": "Flash2 B16",
    "flash_small.json": "Flash2",
    "b16_n512_h32_e2048_causal.json": "B16 N512 H32 E2048 causal",
    "b16_n512_h32_e2048_full_pytorch.json": "Pytorch B16 N512 H32 E2048 full",
    "exp1/pytorch_seq_len_512.json": "Pytorch N512",
    "Flash2/batch_size/bs32.json": "Flash2 B32",
    "batch_size=16_impl=Pytorch_causal=false.json": "Pytorch B16 full",
    "seqlen1024-flash2-no-causal.json": "Flash2 N1024 full",
    "FlashAttention_v2_num_heads_64.json": "Flash2 H64",
    "torchSeq128.json": "Pytorch N128",
    "b16_s128_h32_e2048_flash2.json": "Flash2 B16 N128 H32 E2048",
    "seq_len/128_fl2.json": "Flash2 N128",
    "seq_len/result_pytorch_128.json": "Pytorch N128",
    "heads/flash2/16.json": "Flash2 H16",
    "bs8_flash1.json": "Flash1 B8",
    "results.json/bs16_fl2": "Flash2 B16",
    # What could as well mean something else says nothing.
    "e1_n128.json": "",
    "h8.json": "",
    "flash_vs_pytorch.json": "",
    "causal/1024.json": "",
    "benchmark_result.json": "",
    "seq_len_128_seq_len_256.json": "",
    "bs0.json": "",
    "seq_len/batch_size_16_128.json": "B16 N128",
    "seq_len/run1_128.json": "",
    "seq_len/num_heads/16.json": "",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says(name: str) -> None:
    assert of_name(name).describe() == NAMES[name]


@given(st.text(max_size=80))
def test_any_name_can_be_read(name: str) -> None:
    assert of_name(name).source == "name"
