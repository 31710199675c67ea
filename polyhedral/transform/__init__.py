"""Schedule transformations: named and checked, one per file."""
