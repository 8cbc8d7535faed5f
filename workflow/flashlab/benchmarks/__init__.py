"""The benchmarks: a folder for each, with its declaration and measuring."""
