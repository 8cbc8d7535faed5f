"""Grading: submissions held against what is possible, and reports against their own data."""
