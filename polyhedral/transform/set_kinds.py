"""Set kinds: say how loops run. Permission comes from dependences, checked by ``legality``.

Also known as: Halide ``parallel``/``vectorize``/``unroll``, TVM's annotations of the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.polyhedral.schedule_tree import Kind
from weft.polyhedral.transform.scheduled import Scheduled, transformation, with_loops


@transformation
def set_kinds(scheduled: Scheduled, kinds: Mapping[str, Kind]) -> Scheduled:
    """Loops by name get a kind; all others keep theirs."""
    for name in kinds:
        scheduled.loop(name)
    tree = with_loops(scheduled.tree, lambda x: replace(x, kind=kinds.get(x.name, x.kind)))
    return replace(scheduled, tree=tree)
