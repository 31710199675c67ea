"""CPU records."""
