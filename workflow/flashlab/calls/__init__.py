"""What a Snakemake call needs of the folder and the machine that it works on."""
