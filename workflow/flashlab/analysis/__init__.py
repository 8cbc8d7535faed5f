"""From tables to findings: estimates, ratios, one file a kind of finding, and conclusions."""
