"""The error of files that a run needs from elsewhere, such as a text to train on."""

from __future__ import annotations


class FetchError(Exception):
    """A file from elsewhere that cannot be had, or is not the one asked for; with the remedy."""
