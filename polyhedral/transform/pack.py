"""Pack: what an operand's tile holds is copied into panels, in the order in which it is read.

    for j_t: for k_t:
      for j_p: for k_p: … B[k, j] …
    →
    for j_t: for k_t:
      for n: for k: for l < 16: P[n, k, l] = B[64·k_t + k, 256·j_t + 16·n + l]
      for j_p: for k_p: … P[j_p // 16, k_p, j_p % 16] …

``cache_read`` with a layout. The last panels are filled up with zeros.
Also known as: packing in GotoBLAS and BLIS, TVM ``cache_read`` + layout, Exo ``stage_window``.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq

from weft.ir.scop import Scope
from weft.polyhedral.transform.cache_read import cache_read
from weft.polyhedral.transform.scheduled import Scheduled, loops_above, transformation
from weft.polyhedral.transform.set_kinds import vectorize


@transformation
def pack(
    scheduled: Scheduled,
    tensor: str,
    statement: str,
    loop: str,
    panels: Mapping[int, int],
    *,
    order: Seq[int] | None = None,
    operand: int | None = None,
    pad: bool = True,
    before: str | None = None,
    after: str | None = None,
    name: str | None = None,
    scope: Scope = "local",
    vector: bool = False,
) -> Scheduled:
    """The reads of ``tensor`` by ``statement`` go to a buffer made in each iteration of ``loop``
    ('': once), its dims in ``order``, each of ``panels`` (dim → width) in panels of that width;
    with ``vector``, the innermost loop of the copy runs in vectors.

    ``operand``, ``pad``, ``before``, ``after``, ``name``, ``scope`` and errors are those of
    ``cache_read``.
    """
    packed = cache_read(
        scheduled,
        tensor,
        statement,
        loop,
        operand=operand,
        order=order,
        panels=panels,
        pad=pad,
        before=before,
        after=after,
        name=name or f"{tensor}_packed",
        scope=scope,
    )
    loops = loops_above(packed.tree, packed.scop.statements[-1].name)
    return vectorize(packed, loops[-1].name) if vector and loops else packed
