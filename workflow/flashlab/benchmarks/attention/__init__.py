"""Attention: the course's lab, forward and backward pass of one layer."""
