"""From tables to comparisons: estimates, ratios, claims, and what puts them in doubt."""
