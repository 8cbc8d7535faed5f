"""Conclusions as the document shows them: a heading, a few sentences, and links to the evidence."""

from __future__ import annotations

from collections.abc import Sequence

from flashlab.analysis.finding import Finding
from flashlab.report.data import ReportData
from flashlab.report.document import Conclusion
from flashlab.report.statements import FindingRenderer
from flashlab.telling.values import Tellable, in_turn

CHECKED = "conclusion.checked"
BRIEF_CHARACTERS = 150
"""How much of a section's conclusion page one quotes after its heading: whole sentences."""


def render_conclusion(renderer: FindingRenderer, finding: Finding) -> Conclusion:
    """A conclusion in words; what was looked for and not found stands apart."""
    sentences = renderer.sentences(finding)
    checked = next((each for each in finding.statements if each.key == CHECKED), None)
    heading, *others = (each for each in finding.statements if each is not checked)
    body = [*others, *sentences[len(finding.statements) :]]
    brief, length = _brief(renderer.data, others)
    return Conclusion(
        heading=heading,
        body=in_turn(body) if body else None,
        brief=brief,
        brief_length=length,
        checked=checked,
        links=renderer.conclusion_links(finding),
        doubted=bool(finding.warnings),
        implementations=tuple(sorted(finding.implementations)),
    )


def _brief(data: ReportData, sentences: Sequence[Tellable]) -> tuple[Tellable | None, int]:
    """The first sentences that fit, one at least; with their length in all languages together."""
    if not sentences:
        return None, 0
    kept = [sentences[0]]
    for sentence in sentences[1:]:
        longest = max(map(len, data.told(in_turn([*kept, sentence]))))
        if longest > BRIEF_CHARACTERS:
            break
        kept.append(sentence)
    brief = in_turn(kept)
    return brief, sum(map(len, data.told(brief)))
