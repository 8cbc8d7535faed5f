"""Statements in words: typed values, and who tells them in a language."""
