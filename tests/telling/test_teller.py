"""The teller: the most special message for a key, with the values that it quotes."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from flashlab import statistics
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.labels import MissingMessageError, messages
from flashlab.telling import teller
from flashlab.telling.teller import Teller
from flashlab.telling.values import Measured, say

ALL = {
    "said": "{low} in general",
    "attention.said": "of attention",
    "time.said": "of a time",
    "attention.time.said": "of attention's time",
    "memory.said": "of a memory",
}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """Messages of these tests alone, for the teller and for who looks them up."""
    found: dict[str, str] = {}
    monkeypatch.setattr(teller, "messages", lambda language, domain: found)
    monkeypatch.setattr(teller, "message", lambda language, domain, key: found[key])
    return found


@pytest.mark.parametrize(
    ("known", "about", "expected"),
    [
        (ALL, ("time", "memory"), "of attention's time"),
        ({k: ALL[k] for k in ("said", "attention.said", "time.said")}, ("time",), "of a time"),
        ({k: ALL[k] for k in ("said", "attention.said", "time.said")}, ("rate",), "of attention"),
        ({k: ALL[k] for k in ("said", "memory.said")}, ("time", "memory"), "of a memory"),
        ({"said": ALL["said"]}, ("time",), "2.00 in general"),
    ],
)
def test_the_most_special_message_is_told(
    told: dict[str, str], known: Mapping[str, str], about: tuple[str, ...], expected: str
) -> None:
    told.update(known)
    assert Teller("en", ATTENTION).tell(say("said", *about, low=Measured(2.0))) == expected


def test_a_message_that_is_missing_or_lacks_what_it_quotes_is_an_error() -> None:
    with pytest.raises(
        MissingMessageError, match=r"labels/report\.toml has no text 'no\.such' in en"
    ):
        Teller("en").tell(say("no.such"))
    with pytest.raises(KeyError, match=r"symbol|at"):
        Teller("en").tell(say("see", ranges="all"))


@pytest.mark.parametrize("language", ["zh_TW", "en"])
def test_every_message_states_the_margin_that_there_is(
    monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    monkeypatch.setattr(statistics, "MARGIN", 0.07)
    told = Teller(language)
    for key, pattern in messages(language, "report").items():
        names = set(re.findall(r"\{(\w+)\}", pattern))
        text = told.text(key, values=dict.fromkeys(names - {"margin"}, "…"))
        assert not re.search(r"(?<!\d)5%", text), key
        assert ("7%" in text) == ("margin" in names), key


@pytest.mark.parametrize(("implementations", "named"), [(["Pytorch", "Flash2"], 1), (["Mine"], 0)])
@pytest.mark.parametrize("language", ["zh_TW", "en"])
def test_the_notice_on_a_cpu_names_only_what_was_measured(
    language: str, implementations: list[str], named: int
) -> None:
    text = Teller(language, ATTENTION).tell(say("no_gpu", *implementations))
    assert text.count("FlashAttention-2") == named
