"""One Snakemake call: what it is asked for, what it makes, its claim on the folder, its jobs."""
