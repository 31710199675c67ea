"""Providers that come with Weft: a file each, which registers itself."""
