"""The figures: SVG in the report's own fonts, drawn from the tables."""

MOST_LINES = 3
"""Most implementations whose times are lines; those of more are dots."""
