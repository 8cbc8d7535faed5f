"""What an anonymous report's texts lack, and what they keep; of records: test_datasets.py."""

from __future__ import annotations

import pytest

from flashlab.anonymity import anonymous_text

UUID = "GPU-4d2c3a55-6f0e-4a7c-9b3e-0d8f1a2b3c4d"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/alice/FlashLab/kernels/mine.py:12: no", "…/mine.py:12: no"),
        ("see ~/secret/notes.txt", "see …/notes.txt"),
        ("../../home/alice/data/x.json", "…/x.json"),
        ("'/home/alice/secret folder/mine.py' is gone", "'…/mine.py' is gone"),
        (f"no device {UUID}", "no device anonymous-"),
        ("at 3 TFLOP/s, results/local/x.json", "at 3 TFLOP/s, results/local/x.json"),
        ("https://nvidia.com/ERR_NVGPUCTRPERM", "https://nvidia.com/ERR_NVGPUCTRPERM"),
    ],
)
def test_folders_and_uuids_are_left_out_of_texts_and_nothing_else(text: str, expected: str) -> None:
    """Devices are still told apart."""
    found = anonymous_text(text)
    assert found.startswith(expected)
    assert not any(part in found for part in ("alice", "secret", "4d2c"))
    assert anonymous_text(found) == found
    assert anonymous_text(UUID) != anonymous_text(UUID[:-1] + "e")
