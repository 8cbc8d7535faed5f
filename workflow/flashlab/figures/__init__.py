"""The figures: SVG in the report's own fonts, drawn from the tables."""
