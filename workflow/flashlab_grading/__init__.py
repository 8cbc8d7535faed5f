"""Grading: submissions checked against what is possible, and reports against their own data."""
