"""Measuring: a run in a process of its own, from its order to its record.

What the measuring process imports, here and in the benchmark's ``measure``, is part of a record's
identity (`flashlab.plan.identity`): an edit to it measures again.
"""
