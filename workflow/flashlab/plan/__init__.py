"""From the configuration to what is planned: runs, their records, the machine and the datasets."""
