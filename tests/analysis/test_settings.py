"""Which settings make a pair: those that differ in nothing but what the ratio is about."""

from __future__ import annotations

from flashlab.analysis.settings import Setting, pairs_of


def setting(dtype: str, **parameters: int | bool) -> Setting:
    return Setting((*parameters.values(), dtype), parameters, {})


def test_settings_that_differ_in_anything_else_are_no_pair() -> None:
    given = [
        setting("float16", batch_size=1, seq_len=512, causal=False),
        setting("float16", batch_size=1, seq_len=512, causal=True),
        setting("float16", batch_size=2, seq_len=512, causal=True),
        setting("float16", batch_size=1, seq_len=1024, causal=True),
        setting("float32", batch_size=1, seq_len=512, causal=True),
    ]
    assert list(pairs_of(given, ["causal"])) == [(given[0], given[1])]
    assert list(pairs_of(given, ["seq_len"])) == [(given[1], given[3])]
    assert list(pairs_of(given, ["batch_size", "causal"])) == [
        (given[0], given[1]),
        (given[0], given[2]),
        (given[1], given[2]),
    ]
