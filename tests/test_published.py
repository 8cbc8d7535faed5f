"""The file of published claims, and what is wrong with one that is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from analysis.deriving import claims_document

from flashlab.analysis.claims import wanted_range
from flashlab.plan.published import CLAIMS, ClaimsError, read_claims

TEST = {
    "metrics": ["forward_rate"],
    "terms": [{"implementation": "Flash2"}, {"implementation": "Pytorch"}],
    "at": [{"batch_size": 2, "num_heads": 4, "emb_dim": 64, "causal": False, "seq_len": 128}],
}


def test_the_claims_are_many_and_each_has_a_test_or_says_what_it_needs() -> None:
    published = read_claims(CLAIMS)
    tested = [claim for claim in published["claims"] if "test" in claim]
    assert len(tested) >= 20
    assert {claim["source"] for claim in published["claims"]} == set(published["sources"])
    for claim in tested:
        wanted = wanted_range(claim)
        assert wanted.get("least", 0) < wanted.get("most", float("inf"))


TWICE = claims_document(untested="needs_training")
TWICE["claims"] *= 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (claims_document(untested="needs_training", tolerance=3), "tolerance"),
        (claims_document(untested="needs_training", source="nobody"), "there is no source nobody"),
        (claims_document(test={**TEST, "terms": [], "wanted": {"least": 1}}), "terms"),
        (claims_document(test=TEST), "published"),
        (claims_document(test={**TEST, "compare": "amounts", "wanted": {"least": 1}}), "too short"),
        (claims_document(untested="tired"), "untested"),
        (TWICE, "claim names two claims"),
        (b"\xff", "claims.yaml"),
        (b"a: [", "claims.yaml"),
        (b"[]", "claims.yaml"),
        (None, "claims.yaml"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_name(
    tmp_path: Path, content: Any, said: str
) -> None:
    path = tmp_path / "claims.yaml"
    if isinstance(content, dict):
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(ClaimsError, match=said) as caught:
        read_claims(path)
    assert str(path) in str(caught.value)
