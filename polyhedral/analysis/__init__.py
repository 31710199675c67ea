"""Analyses: pure functions over IRs, which any room may import."""
