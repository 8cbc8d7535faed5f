"""What all that tells shares: templates as compiled, glyphs of the fonts."""
