"""What a reader should take from the findings: conclusions, which only quote them."""
