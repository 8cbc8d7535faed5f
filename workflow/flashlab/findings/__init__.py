"""Findings: typed statements derived from the tables, each with its verdict and its evidence."""
