"""Two products with sweeps between them: in one launch, or each in its own, through memory?

    together    a block sweeps twice and multiplies three times (scores, scores, results); a tile is
                multiplied when it is copied, so that a block alone waits for its copies, and others
                of a multiprocessor fill the time

                tiles × max(copies + products + functions,
                            blocks of a multiprocessor × max(copies, products, functions))

                where copies = bytes / rate of L2, products = max(multiply-adds / rate, bytes loaded
                into fragments / rate of shared memory), functions = exponentials and the like /
                rate of the special function units, of one tile

    apart       the cheapest tiles of each product (``gpu_tile_costs``), to memory and from there;
                what is between them reads scores and writes the factor; two launches more

                cycles of both + max(bytes of scores and factor / bandwidth, functions) + 2 launches

What either does is in neither: other arithmetic of scores, folds along rows, reading and writing of
what is not between the products. Sizes that are not known are large, as for tiles of products.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from weft.ir.gpu import Gpu
from weft.ir.scalar_expr import Apply, Var, walk
from weft.ir.scop import Scop
from weft.polyhedral.policy.gpu_product import extent, loaded_elements
from weft.polyhedral.policy.gpu_sweeps import STEP, WARPS, Sweeps


@dataclass(frozen=True, slots=True)
class SweepCosts:
    """Cycles in one launch, and with products in launches of their own."""

    together: float
    apart: float

    def __str__(self) -> str:
        return f"{self.together:.3g} cycles in one launch, {self.apart:.3g} through memory"


def sweep_costs(scop: Scop, found: Sweeps, gpu: Gpu) -> SweepCosts:
    """What ``found`` costs either way; its loops are known to go in sweeps."""
    return SweepCosts(_together(scop, found, gpu), _apart(scop, found, gpu))


def _together(scop: Scop, found: Sweeps, gpu: Gpu) -> float:
    first, second = scop.statement(found.first), scop.statement(found.second)
    steps, lanes = found.products[1].streams[-1], found.products[1].lane
    results = {d: extent(second, d) for d in second.dims if d != steps}
    features = extent(first, found.products[0].streams[-1])
    size = scop.tensor(first.reads[0].tensor).dtype.itemsize
    own, other = found.own
    rows = WARPS * own.rows
    row = _row(scop, found)
    blocks = prod(results.values()) // results[lanes] // results[row] * ceil(results[row] / rows)
    copied = 2 * (rows + STEP) * features + STEP * results[lanes]
    points = rows * STEP * (2 * features + results[lanes])
    loaded = 2 * features * loaded_elements(own, rows, WARPS * STEP)
    loaded += STEP * loaded_elements(other, 0, WARPS * results[lanes])
    busy = max(points / own.per_cycle, loaded * size / gpu.shared_rate)
    copying = copied * size * gpu.multiprocessors / gpu.cache_rate
    functions = rows * STEP * _functions(scop, found, gpu) / gpu.special_rate
    blocks_each = ceil(blocks / gpu.multiprocessors)
    step = max(copying + busy + functions, blocks_each * max(copying, busy, functions))
    return ceil(extent(second, steps) / STEP) * step


def _row(scop: Scop, found: Sweeps) -> str:
    """The dim of the second product along the rows of its factor."""
    (factor,) = (a for a in scop.statement(found.second).reads if a.tensor == found.factor)
    row = factor.indices[-2]
    assert isinstance(row, Var), "a loop moves with it"
    return row.name


def _apart(scop: Scop, found: Sweeps, gpu: Gpu) -> float:
    first = scop.statement(found.first)
    elements = prod(extent(first, d) for d in first.dims if d not in found.products[0].streams)
    bytes_each = sum(scop.tensor(t).dtype.itemsize for t in (found.scores, found.factor))
    moving = elements * bytes_each / gpu.bandwidth * gpu.clock
    rate = gpu.special_rate * gpu.multiprocessors
    between = max(moving, elements * _functions(scop, found, gpu) / rate)
    launches = 2 * gpu.launch * gpu.clock
    return sum(product.price.cycles for product in found.products) + between + launches


def _functions(scop: Scop, found: Sweeps, gpu: Gpu) -> int:
    """How often what is computed of one score needs the special function units."""
    needed = 0
    for s in scop.statements:
        touched = {a.tensor for a in s.accesses}
        if s.name not in (found.first, found.second) and touched & {found.scores, found.factor}:
            nodes = (node for e in s.body.expressions for node in walk(e))
            needed += sum(gpu.special.get(node.op, 0) for node in nodes if isinstance(node, Apply))
    return needed
