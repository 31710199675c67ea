"""What comes into Weft from outside, one file each; ``pyproject.toml`` has them as entry points."""
