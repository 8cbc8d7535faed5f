"""What a Snakemake call prints on the terminal: a line for each run, and a summary."""
