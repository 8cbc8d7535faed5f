"""Reports of whatever one asks for have full pages, each experiment on one of them.

The recorded reports' pages, with their figures, are measured with their texts (`golden`).
"""

from __future__ import annotations

from typing import Any

import pytest
from golden.texts import Recorded
from pages import assert_well_laid_out

pytestmark = pytest.mark.scheduled

LAB = ("seq_len", "causal", "batch_size", "num_heads", "emb_dim")
THREE = ["Pytorch", "Flash2", "FlashLab"]
LONG = {
    "zh_TW": "把序列長度從一百二十八加倍到一千零二十四，看兩種實作的時間、記憶體與速率如何隨之變化",
    "en": "How the times, rates and memory of two implementations change as a sequence gets longer",
}
REMARK = "\n\n".join(
    ["批次越大，時間越長，但是每個樣本的時間幾乎不變，兩種實作都是如此。" * 12] * 5
)


def of_the_lab(remark: str = "", **keys: Any) -> Recorded:
    """The report of the lab's two implementations on an H200, unless `keys` say otherwise."""
    keys = {"dataset": "h200", **keys}
    return Recorded("lab5", "config.yaml", own=("config.yaml",), keys=keys, remark=remark)


CASES = {
    "one experiment": (of_the_lab(experiments=["batch_size"]), 6),
    "seven experiments in English alone": (
        of_the_lab(
            languages=["en"],
            experiments=[
                *LAB,
                {"use": "seq_len", "name": "again"},
                {"use": "emb_dim", "name": "once_more"},
            ],
        ),
        10,
    ),
    "three implementations on an H100, a long title and a long remark": (
        of_the_lab(
            REMARK,
            dataset="h100",
            implementations=THREE,
            summary={"implementations": THREE},
            experiments=[{"use": "seq_len", "title": LONG}, *LAB[1:]],
            remarks={"batch_size": {"zh_TW": "remark.md"}},
        ),
        10,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_pages_are_full_whatever_is_asked_for(name: str) -> None:
    recorded, most = CASES[name]
    pages = recorded.make("boxes").pages
    assert pages is not None
    assert_well_laid_out(pages, most)
