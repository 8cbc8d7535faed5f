"""The story of attention: page one, and a paragraph for each experiment."""
