"""From the configuration to the plan: runs, their records, the machine and the datasets."""
