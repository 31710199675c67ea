"""What Weft uses of llvmlite, which has no types of its own; ``.ci/run`` compares with llvmlite."""
