"""Cases of the ladder in a configuration: in place of their sizes, and chosen by ``ladder=``."""

from __future__ import annotations

from typing import Any

import pytest

from flashlab.config import ConfigError, Layer, config_file, read_layer, resolve_config
from flashlab.config.layers import BUILT_IN

STEPS = [
    *("Sequential", "GlobalMemory", "SharedTiles", "Padded", "Coalesced", "Registers", "Unrolled"),
    *("LargerTiles", "Streams", "TensorTF32", "TensorFP16", "SplitKeys"),
]
LADDER = read_layer(BUILT_IN / config_file("ladder"))


def resolved(**own: Any) -> dict[str, Any]:
    return resolve_config([LADDER, Layer("--config", own)], STEPS)


def test_only_the_chosen_cases_are_measured_by_every_step() -> None:
    config = resolved(ladder="t28, t12")
    (experiment,) = config["experiments"]
    assert experiment["cuda"] == {"case": [28, 12]}
    assert experiment["implementations"] == STEPS
    assert config["summary"]["cuda"] == {"case": 28}
    assert "ladder" not in config


@pytest.mark.parametrize("named", ["t31", "t0", "28.0", [28, "x"]])
def test_a_case_that_there_is_not_is_named(named: Any) -> None:
    with pytest.raises(ConfigError, match="--config: ladder: there is no test case"):
        resolved(ladder=named)


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ({"case": [28], "seq_len": 128}, r"cuda\.case: stands for batch_size, .* remove seq_len"),
        ({"case": [28, 31]}, r"cuda\.case: there is no case 31"),
        ({"seq_len": [128]}, r"cuda: give batch_size, head_dim, or case in place of"),
        ({"batch_size": 2, "seq_len": 128, "head_dim": 32}, "sweep is case; give its values"),
    ],
)
def test_a_case_stands_for_all_three_sizes(block: dict[str, Any], problem: str) -> None:
    experiment = {
        **{"name": "mine", "title": {"zh_TW": "我的", "en": "mine"}, "sweep": "case"},
        **{"cuda": block, "cpu": {"case": [101]}, "implementations": STEPS, "figures": ["rate"]},
    }
    with pytest.raises(ConfigError, match=problem):
        resolved(experiments=[experiment])
