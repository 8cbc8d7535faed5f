"""What a call of Snakemake says on the terminal: a line for each run, and a summary."""
