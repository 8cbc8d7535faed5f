"""What all that tells shares: labels of codes, templates as compiled, glyphs of the fonts."""
