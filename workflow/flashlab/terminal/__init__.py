"""The terminal output of a Snakemake call: a line for each run, and a summary."""
