"""Names of values that are new to a graph."""

from __future__ import annotations


def fresh_name(name: str, taken: set[str]) -> str:
    """``name``, or ``name_2`` … where it is taken; the result is added to ``taken``."""
    candidate, n = name, 1
    while candidate in taken:
        n += 1
        candidate = f"{name}_{n}"
    taken.add(candidate)
    return candidate
