"""FlashLab: attention benchmarks from data to a bilingual report."""

__version__ = "0.1.0"
