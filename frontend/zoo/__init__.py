"""Embedded model builders: published architectures with seeded random weights."""
