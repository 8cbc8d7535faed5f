"""Measuring: a run in a process of its own, from its order to its record.

The code that the measuring process imports, here and in ``measure``, is part of a record's
identity (`flashlab.plan.identity`): an edit to it measures again.
"""
