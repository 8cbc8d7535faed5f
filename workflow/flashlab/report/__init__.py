"""The report: findings, figures and tables as one bilingual PDF, and as one HTML page."""

from flashlab.report.render import write_page, write_report

__all__ = ["write_page", "write_report"]
