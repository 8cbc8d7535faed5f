"""The kernel engineer's first command: one implementation against the float64 reference."""
