"""The report: stories, figures and tables as one bilingual PDF, and as one HTML page."""
