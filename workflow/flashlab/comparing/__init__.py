"""Comparing: two recordings of the same runs, with a verdict for each metric of each run."""
