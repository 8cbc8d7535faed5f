"""The report: findings, figures and tables as one bilingual PDF, and as one HTML page."""

from flashlab.report.page import LANGUAGE_TAGS
from flashlab.report.render import TEMPLATES, templates, to_pdf, write_page, write_report

__all__ = ["LANGUAGE_TAGS", "TEMPLATES", "templates", "to_pdf", "write_page", "write_report"]
