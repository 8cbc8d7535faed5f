"""The sentences of a report: a story for each benchmark, told in `templates/sentences/`."""
