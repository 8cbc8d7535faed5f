"""The assignment behind the kernel ladder: its file format, program and judge."""


class Hw4Error(Exception):
    """A file, a size or a step with which the program cannot do its work."""
