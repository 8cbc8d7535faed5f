"""Findings: typed statements derived from the tables, each with its verdict and its evidence."""

from flashlab.findings.derive import write_findings

__all__ = ["write_findings"]
