"""Long chains of elementwise operators, cut evenly, so that identical clusters repeat."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence


def cut_evenly(
    following: Mapping[int, int], keys: Mapping[int, Hashable], capacity: int
) -> frozenset[tuple[int, int]]:
    """The edges at which chains longer than ``capacity`` nodes are cut.

    ``following`` has each node's successor in its chain, ``keys`` what each node computes. Where a
    chain repeats a pattern, pieces are as many whole patterns as fit, so that all but the last are
    the same; otherwise they have about equal lengths.
    """
    inner = set(following.values())
    cuts: set[tuple[int, int]] = set()
    for start in following:
        if start in inner:
            continue
        chain = [start]
        while chain[-1] in following:
            chain.append(following[chain[-1]])
        if len(chain) > capacity:
            step = _piece([keys[node] for node in chain], capacity)
            cuts |= {(chain[n - 1], chain[n]) for n in range(step, len(chain), step)}
    return frozenset(cuts)


def _piece(keys: Sequence[Hashable], capacity: int) -> int:
    pattern = period(keys)
    if pattern <= capacity:
        return capacity - capacity % pattern
    pieces = -(-len(keys) // capacity)
    return -(-len(keys) // pieces)


def period(keys: Sequence[Hashable]) -> int:
    """The least p with keys[n] == keys[n - p] for all n >= p (Knuth, Morris and Pratt, 1977)."""
    border = [0] * len(keys)
    for n in range(1, len(keys)):
        length = border[n - 1]
        while length and keys[n] != keys[length]:
            length = border[length - 1]
        border[n] = length + (keys[n] == keys[length])
    return len(keys) - border[-1] if keys else 0
