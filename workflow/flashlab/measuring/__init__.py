"""The measuring code: everything whose text decides a record's numbers.

A change to any file of this folder gives every local run a new identity, and so a new measurement.
"""
