"""A mistake in a configuration: the line of its message, to the character."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from flashlab.config import ConfigError, Layer, parse_override, read_layer, resolve_config
from flashlab.config.model import CONFIGURATION

TESTS = Path(__file__).parent
MISTAKES = tomllib.loads((TESTS / "config_mistakes.toml").read_text(encoding="utf-8"))
KEYS = ", ".join(CONFIGURATION.model_fields)


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=list(MISTAKES))
def test_the_message_of_a_mistake_says_where_it_is_what_is_wrong_and_the_remedy(
    mistake: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = read_layer(TESTS.parent / "config" / "config.yaml")
    monkeypatch.chdir(tmp_path)
    own = Path("own.yaml")
    own.write_text(mistake.get("file", ""), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        call = mistake.get("call")
        layer = Layer("--config", parse_override(call)) if call else read_layer(own)
        resolve_config([Layer("config.yaml", base.keys), layer], ("Pytorch", "Flash2", "FlashLab"))
    _, _, text = f"\n{caught.value}".rpartition("is not usable:")
    says = [mistake["says"]] if isinstance(mistake["says"], str) else mistake["says"]
    assert text.strip().split("\n  ") == [line.replace("{keys}", KEYS) for line in says]
