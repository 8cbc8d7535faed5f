"""The figures: SVG in the report's own fonts, drawn from the tables and the findings."""

from flashlab.figures.overview import draw_overview
from flashlab.figures.sweeps import draw_figures

__all__ = ["draw_figures", "draw_overview"]
