"""Set kinds: say how loops run. Permission comes from dependences, checked by ``legality``.

Also known as: Halide ``parallel``/``vectorize``/``unroll``, TVM's annotations of the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.polyhedral.schedule_tree import Band, Kind, Mark, RegisterTile, Tree
from weft.polyhedral.transform.scheduled import (
    Scheduled,
    merge_bands,
    rewrite,
    transformation,
    with_loops,
)


@transformation
def set_kinds(scheduled: Scheduled, kinds: Mapping[str, Kind]) -> Scheduled:
    """Loops by name get a kind; all others keep theirs.

    A register tile says how all of its loops run: where one of them gets a kind, the mark goes, and
    they are ordinary loops.
    """
    for name in kinds:
        scheduled.loop(name)

    def unmarked(node: Tree) -> Tree | None:
        match node:
            case Mark(RegisterTile(), Band(loops) as band) if any(x.name in kinds for x in loops):
                return band
        return None

    tree = rewrite(scheduled.tree, unmarked)
    tree = scheduled.tree if tree == scheduled.tree else merge_bands(tree)
    tree = with_loops(tree, lambda x: replace(x, kind=kinds.get(x.name, x.kind)))
    return replace(scheduled, tree=tree)
