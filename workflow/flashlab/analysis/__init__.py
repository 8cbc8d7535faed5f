"""From tables to comparisons: estimates, ratios, and what puts them in doubt."""
