"""FlashLab's version, where no measuring process imports it: a release measures nothing again."""

__version__ = "0.4.0"
