"""Weight-stationary loops: over constants that L2 does not hold, the loops that reuse them go
inside.

    for y:                                      for j_t:                 a panel of w comes in once
      for j_t:                                    for y:                 and stays in L2
        for x_r, j_r: registers          →          for x_r: registers
          s[y, x, j] += … * w[j, k]                   s[y, x, j] += … * w[j, k]

With y outside, every turn reads all of w from beyond L2. With y inside the loop over panels of w,
every panel reads the other operands again. The order that moves fewer bytes wins, where L3 is slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile
from math import inf, prod

from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Literal
from weft.ir.scop import Access, Scop
from weft.polyhedral.analysis.linear import mentions, moves
from weft.polyhedral.policy.cache_tiles import l3_feeds_lanes
from weft.polyhedral.policy.planner import Planner
from weft.polyhedral.policy.product import Product
from weft.polyhedral.policy.product_costs import extents
from weft.polyhedral.policy.reuse import SHARE

SCATTERED = 2  # a byte of unpacked operands costs as much as two of packed panels
WORTH = 0.7  # of the bytes: what must be left after moving one more loop inside


def weight_stationary_loops(planner: Planner, p: Product, lanes: int) -> tuple[str, ...]:
    """The outer dims, innermost last, whose loops go inside those over panels of ``lanes``."""
    s, scop = planner.scop.statement(p.statement), planner.scop
    sizes, held = extents(s), SHARE * planner.machine.l2
    line = planner.machine.line
    far = _constant_operand(scop, s.reads, p, sizes or {}, held)
    if p.window or sizes is None or far is None or l3_feeds_lanes(planner.machine):
        return ()
    others = [r for r in s.reads if r != far]
    whole, panels = compact_bytes(scop, far, sizes), -(-sizes[p.lanes] // lanes)
    near = tuple(takewhile(lambda d: not moves(far, d), reversed(p.outer)))
    best = 0
    least = inf
    for number in range(len(near) + 1):
        dims = {*p.rows, *p.stream, *near[:number]}
        each = sum(footprint_bytes(scop, r, {d: sizes[d] for d in dims}, line) for r in others)
        again = each * (panels if each + whole // panels > held else 1)
        traffic = prod(sizes[d] for d in near[number:]) * (whole + SCATTERED * again)
        if traffic < WORTH * least:
            best, least = number, traffic
    return near[:best][::-1]


def _constant_operand(
    scop: Scop, reads: Iterable[Access], p: Product, sizes: Mapping[str, int], held: float
) -> Access | None:
    """The only constant that moves along the lanes, if it has more than ``held`` bytes; else
    None."""
    found = [r for r in reads if moves(r, p.lanes)]
    constant = len(found) == 1 and scop.tensor(found[0].tensor).role == "constant"
    return found[0] if constant and compact_bytes(scop, found[0], sizes) > held else None


def compact_bytes(scop: Scop, read: Access, sizes: Mapping[str, int]) -> int:
    """Bytes of the distinct elements of ``read``, without gaps."""
    return scop.tensor(read.tensor).dtype.itemsize * prod(
        n for d, n in sizes.items() if moves(read, d)
    )


def footprint_bytes(scop: Scop, read: Access, sizes: Mapping[str, int], line: int) -> int:
    """Bytes of the cache lines, of ``line`` bytes, that ``read`` touches as the dims of ``sizes``
    run: in each row of memory the lines of its span, on average, or the whole row if the next one
    follows."""
    tensor = scop.tensor(read.tensor)
    total = apart = tensor.dtype.itemsize
    for number, index in reversed(list(enumerate(read.indices))):
        form, moving = to_affine(index), [d for d in sizes if mentions(index, (d,))]
        steps = {d: abs(form.coefficient(d)) if form else 1 for d in moving}
        span = sum(steps[d] * (sizes[d] - 1) for d in moving) + 1
        if number == len(read.indices) - 1:
            total = (span - 1) * apart + line
        elif moving:
            next_ = apart * min(steps.values())
            total = min(total, next_ or total) * min(span, prod(sizes[d] for d in moving))
        size = tensor.shape[number]
        apart *= int(size.value) if isinstance(size, Literal) else 0
    return total
