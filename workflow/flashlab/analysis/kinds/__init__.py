"""The kinds of finding, one file each."""
