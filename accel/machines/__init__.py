"""Accelerator records."""
