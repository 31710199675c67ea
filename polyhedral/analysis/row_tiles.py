"""Row tiles: how many rows of an intermediate go together so that they stay in a cache.

    S = A * B; T = f(S); Y = T * C   →   for i_t: { S[i_t] = A[i_t] * B; … ; Y[i_t] = T[i_t] * C }

Closed forms over bytes: what a tile leaves in the cache does not go through memory, what every tile
reads (``held``: B and C) has to stay there as well, or comes again for each of them.
"""

from __future__ import annotations

LEAST_ROWS = 16  # of a tile: fewer and operands are hardly used again


def rows_together(near: int, rows: int, row: int, held: int) -> int:
    """How many of ``rows``, each of ``row`` bytes, go through a cache of ``near`` bytes at once,
    while all of them use the same ``held`` bytes; 0 where that moves no less than all rows
    written once and read once do."""
    stays = 2 * held <= near
    room = near - near // 4 - held if stays else near // 2
    most = min(rows, room // max(row, 1))
    if most < min(rows, LEAST_ROWS):
        return 0
    again = 0 if stays else (-(-rows // most) - 1) * held
    return most if again <= rows * row else 0
