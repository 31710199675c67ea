"""Weft: a polyhedral compiler for tensor operators, models and loop nests."""
