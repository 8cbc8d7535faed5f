"""The figures: SVG in the report's own fonts, drawn from the tables and the findings."""

from flashlab.figures.stage import draw_figures, draw_overview

__all__ = ["draw_figures", "draw_overview"]
