"""Comparing: two recordings, and kernels measured in turns, by one rule."""
