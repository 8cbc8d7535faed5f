"""One Snakemake call: its arguments, its plan, its claim on the folder, its jobs."""
