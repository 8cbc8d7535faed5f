"""FlashLab: attention benchmarks from data to a bilingual report."""
