"""Runs read from file names, and numbers from headings; what is ambiguous gives nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashlab.lab5 import words
from flashlab.lab5.words import MEMORY, RATE, TIME, described

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
    "b16_s128_h32_e2048_flash2.txt": "Flash2 B16 N128 H32 E2048",
    "seq_len/128_fl2.json": "Flash2 N128",
    "seq_len/result_pytorch_128.json": "Pytorch N128",
    "heads/flash2/16.json": "Flash2 H16",
    "bs8_flash1.json": "Flash1 B8",
    "results.json/bs16_fl2": "Flash2 B16",
    "seq_len.json/Pytorch/256": "Pytorch N256",
    "Flash2_16_1024_32_2048_true.json": "Flash2 causal",
    "result_4_128_16_2048_Pytorch_false.json": "Pytorch full",
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
    "head_dim/64.json": "",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says(name: str) -> None:
    assert described(words.said_in_name(name)) == NAMES[name]


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("head_dim_64/Flash2_32_1024_8_512_true.json", [32, 1024, 8, 512]),
        ("result_4_128_16_2048_fl2_false.json", [4, 128, 16, 2048]),
        ("16_bs16_512.json", [16, 512]),
        ("causal_1/bs8.json", []),
    ],
)
def test_numbers_that_belong_to_no_word_are_kept_in_their_order(
    name: str, numbers: list[int]
) -> None:
    assert words.numbers_in_name(name) == numbers


@given(st.text(max_size=80))
def test_any_name_can_be_read(name: str) -> None:
    assert described(words.said_in_name(name)) is not None
    assert words.column_of(name) is not None
    found = words.number_of(name)
    assert found is None or found[1] in (TIME, RATE, MEMORY)


HEADINGS = {
    "Peak Memory Usage (MB)": ("", MEMORY, "1"),
    "peak_memory": ("", MEMORY, "1"),
    "峰值記憶體（GiB）": ("", MEMORY, "1024"),
    "Forward Time (s)": ("forward", TIME, "1"),
    "forward_time_ms": ("forward", TIME, "0.001"),
    "fwd latency [us]": ("forward", TIME, "0.000001"),
    "反向時間(ms)": ("backward", TIME, "0.001"),
    "forward_backward FLOPS(TFLOPs/s)": ("forward_backward", RATE, "1"),
    "Total Rate (GFLOP/s)": ("forward_backward", RATE, "0.001"),
    "time(s)": ("", TIME, "1"),
    "Forward Time (h)": None,
    "Seq Length": None,
    "Status": None,
    "": None,
}


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_heading_names_a_number_in_any_spelling(heading: str) -> None:
    assert words.number_of(heading) == HEADINGS[heading]


@pytest.mark.parametrize(
    ("heading", "column"),
    [("Seq Length", "seq_len"), ("num-heads", "num_heads"), ("Embedding Dim", "emb_dim"),
     ("Batch size", "batch_size"), ("Implementation", "impl"), ("檔名", "file"),
     ("sha256", "sha256")],
)  # fmt: skip
def test_a_heading_names_a_column_in_any_spelling(heading: str, column: str) -> None:
    assert words.column_of(heading) == column
