"""From the configuration to what is planned: runs, records, datasets, what must be made again."""
