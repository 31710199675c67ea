"""The regression benchmark suite."""
