"""Conclusions as the document shows them: a heading, a few sentences, and links to the evidence."""

from __future__ import annotations

from collections.abc import Sequence

from flashlab.findings.model import Finding
from flashlab.report.document import Conclusion
from flashlab.report.statements import FindingRenderer
from flashlab.report.wording import Texts, join_sentences

CHECKED = "conclusion.checked"
BRIEF_CHARACTERS = 150
"""How much of a section's conclusion page one quotes after its heading: whole sentences."""


def render_conclusion(renderer: FindingRenderer, finding: Finding) -> Conclusion:
    """A conclusion in words; what was looked for and not found stands apart."""
    sentences = renderer.sentences(finding)
    told = dict(zip(finding.sentences, sentences, strict=False))
    checked = told.pop(CHECKED, None)
    heading, *others = told.values()
    reasons = sentences[len(finding.sentences) :]
    body = [*others, *reasons]
    return Conclusion(
        heading=heading,
        body=join_sentences(body) if body else None,
        brief=_brief(others),
        checked=checked,
        links=renderer.conclusion_links(finding),
        doubted=bool(finding.warnings),
        implementations=tuple(sorted(finding.implementations)),
    )


def _brief(sentences: Sequence[Texts]) -> Texts | None:
    """The first sentences that fit, one at least."""
    if not sentences:
        return None
    kept = [sentences[0]]
    for sentence in sentences[1:]:
        longest = max(len(text) for text in join_sentences([*kept, sentence]).values())
        if longest > BRIEF_CHARACTERS:
            break
        kept.append(sentence)
    return join_sentences(kept)
