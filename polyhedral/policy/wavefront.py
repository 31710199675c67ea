"""The order of tile loops: what nothing crosses runs on threads, else tiles in wavefronts do.

    for i_t: for j_t: T(i_t, j_t)   →   for s: parallel i_t: T(i_t, s - i_t)        s = i_t + j_t

In a permutable band of tiles every dependence goes from a tile to one that is no less in either
direction; so the tiles with one sum are independent of each other. One thread keeps the plain
order, in which neighbouring tiles share more of the cache.
"""

from __future__ import annotations

from weft.polyhedral.analysis.linear import mentions
from weft.polyhedral.policy.planner import At, Group, Planner
from weft.polyhedral.schedule_tree import Loop


def tile_loops(planner: Planner, group: Group, tiles: dict[str, At]) -> tuple[Loop, ...]:
    """Loops over two permutable ``tiles``, by name, outermost first."""
    search = group.search()
    planes = {name: search.valid(at) for name, at in tiles.items()}
    meets = {name: _folds(planner, group, at) for name, at in tiles.items()}
    free = [
        name
        for name, plane in planes.items()
        if plane is not None and plane.coincident and not meets[name]
    ]
    if free and not group.above:
        order = [free[0], *(name for name in tiles if name != free[0])]
        return tuple(
            planner.loop(n, tiles[n], "parallel" if n == free[0] else "serial") for n in order
        )
    if planner.threads == 1 or group.above or any(meets.values()):
        return tuple(planner.loop(name, at) for name, at in tiles.items())
    (first, one), (second, two) = tiles.items()
    front = {s: one[s] + two[s] for s in one}
    return (planner.loop(f"{first}_{second}", front), planner.loop(second, two, "parallel"))


def _folds(planner: Planner, group: Group, at: At) -> bool:
    """Whether iterations of the loop meet in an element that some statement folds into."""
    return any(mentions(at[s.name], s.update.dims) for s in planner.statements(group) if s.update)
