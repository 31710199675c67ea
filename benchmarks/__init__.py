"""The regression benchmark suite: `python -m benchmarks SUITE`, every answer checked."""
