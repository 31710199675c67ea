"""Accelerators: machine records, instruction streams, simulators."""
