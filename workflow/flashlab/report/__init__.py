"""The report: findings, figures and tables, set in type as one bilingual PDF."""

from flashlab.report.render import write_report

__all__ = ["write_report"]
