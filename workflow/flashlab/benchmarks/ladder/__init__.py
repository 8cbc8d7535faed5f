"""The kernel ladder of homework 4: one attention kernel, made faster step by step."""
