"""Comparing: two recordings, a repository's history, and kernels measured in turns, by one rule."""
