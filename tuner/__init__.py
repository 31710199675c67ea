"""Search spaces, cost models, measuring."""
