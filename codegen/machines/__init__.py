"""Processors and their instructions as records: one file for each family, ``named`` finds them."""
