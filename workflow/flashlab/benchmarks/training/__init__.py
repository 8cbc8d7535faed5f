"""Training: a small GPT trained with each attention, compiled and not."""
