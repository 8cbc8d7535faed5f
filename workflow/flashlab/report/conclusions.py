"""Conclusions as the document shows them: a heading, a few sentences, and links to the evidence."""

from __future__ import annotations

from flashlab.findings.model import Finding
from flashlab.report.document import Conclusion
from flashlab.report.statements import FindingRenderer
from flashlab.report.wording import join_sentences

CHECKED = "conclusion.checked"
BRIEF = 2
"""Sentences after the heading that page one quotes of a section's conclusion."""


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
        brief=join_sentences(others[:BRIEF]) if others else None,
        checked=checked,
        links=renderer.conclusion_links(finding),
        doubted=bool(finding.warnings),
        implementations=tuple(sorted(finding.implementations)),
    )
