"""``check NAME``: one implementation compared with the float64 reference."""
