"""Sums that leave a GPU idle, in parts: few results, each of many values, so that there are fewer
threads than memory needs to be asked by.

    for i: for k: s[i] += f(i, k)                threads: i
    →
    for c, i: p[c, i] = 0
    for c, i: for k in part c: p[c, i] += f(i, k)        threads: c × i
    for i: for c: s[i] += p[c, i]                        threads: i

What decides is a price, in cycles, from the device's record alone: a thread waits for what it reads
once a step, and nothing is faster than memory.

    at once     max(steps × latency, bytes read / bandwidth)
    in c parts  the same of steps / c, + c × latency + partial results, to memory and back,
                + another launch

A part has at least as many steps as a warp has threads: less is not worth a launch, as compilers
ask for several steps at once, which the price does not know.

Attention of one query over many keys is such a sum: its second product has a result for each
feature of each head. Which sums tensor cores multiply, and which run along memory (``gpu``: a block
for each row), are asked first: those have threads enough within one sum.

Also known as: split-K; flash-decoding (Dao, Haziza, Massa, Sizov 2023).
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import takewhile
from math import ceil, prod

from weft.ir.errors import IllegalScheduleError
from weft.ir.gpu import Gpu
from weft.ir.scalar_expr import Apply, Expr, Literal, Var, literal
from weft.ir.scop import Access, Scop, Statement
from weft.polyhedral.analysis.linear import dims_moving, hull, known_extent, linear, mentions
from weft.polyhedral.policy.gpu_product import extent, gpu_product
from weft.polyhedral.transform.partials import partials
from weft.polyhedral.transform.scheduled import Scheduled


def in_parts(begun: Scheduled, gpu: Gpu) -> tuple[Scheduled, tuple[str, ...]]:
    """``begun``, in the order of the source, with those of its sums in parts that are cheaper so,
    and notes of which."""
    notes: list[str] = []
    for s in begun.scop.statements:
        kept = _needed_at_once(begun.scop, s) or _by_many_threads(gpu, begun.scop, s)
        found = None if kept else _parts(begun.scop, s, gpu)
        if found is None:
            continue
        dim, count, length = found
        try:
            begun = partials(begun, s.name, f"{dim} // {length}", count, front=True)
        except IllegalScheduleError:
            continue
        notes.append(f"parts: {s.name}, {count} of {length} along {dim}")
    return begun, tuple(notes)


def _needed_at_once(scop: Scop, s: Statement) -> bool:
    """Whether loops around the update ``s`` read its sums, or start them again as it goes on."""
    if s.update is None or len(s.writes) != 1 or not s.position:
        return True
    target = s.writes[0].tensor
    for other in scop.statements:
        reads = any(read.tensor == target for read in other.reads)
        if other.position[:1] != s.position[:1]:
            continue
        if reads or (other is not s and any(w.tensor == target for w in other.writes)):
            pairs = zip(other.position, s.position, strict=False)
            around = {one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)}
            if reads or around & {*s.update.dims}:
                return True
    return False


def _parts(scop: Scop, s: Statement, gpu: Gpu) -> tuple[str, int, int] | None:
    """The dim of the update ``s`` to be cut, into how many parts, and their length; None where it
    costs least as it is, sizes are not known, or the dim does not begin at 0."""
    if s.update is None or not s.update.dims or len(s.writes) != 1:
        return None
    extents = {d: known_extent(s, d) for d in s.dims}
    sizes = {d: n for d, n in extents.items() if n is not None}
    if len(sizes) < len(extents):
        return None
    dim = max(s.update.dims, key=lambda d: sizes[d])
    if hull(s)[dim][0] != literal(0):
        return None
    most = max(1, sizes[dim] // gpu.warp)
    counts = [1 << k for k in range(most.bit_length())]
    count = min(counts, key=lambda c: cycles(scop, s, sizes, c, gpu))
    length = ceil(sizes[dim] / count)
    return None if count == 1 else (dim, ceil(sizes[dim] / length), length)


def cycles(scop: Scop, s: Statement, sizes: dict[str, int], parts: int, gpu: Gpu) -> float:
    """What the update ``s`` costs in so many ``parts``."""
    assert s.update is not None, "it is a sum"
    results = prod(n for d, n in sizes.items() if d not in s.update.dims)
    steps = ceil(prod(sizes[d] for d in s.update.dims) / parts)
    per_cycle = gpu.bandwidth / gpu.clock
    read = sum(
        prod(sizes[d] for d in dims_moving(a, s.dims)) * scop.tensor(a.tensor).dtype.itemsize
        for a in s.reads
    )
    total = max(steps * gpu.latency, read / per_cycle)
    if parts > 1:
        size = scop.tensor(s.writes[0].tensor).dtype.itemsize
        total += parts * gpu.latency + 3 * parts * results * size / per_cycle
        total += gpu.launch * gpu.clock
    return total


# ---- What a thread has of a sum, and what a block.


def _by_many_threads(gpu: Gpu, scop: Scop, s: Statement) -> bool:
    """Whether warps multiply ``s`` together, or a block takes a row of it."""
    if s.update is None:
        return False
    results = [d for d in s.dims if d not in s.update.dims]
    if gpu_product(scop, s, gpu, s.dims, results) is not None:
        return True
    return any(along_memory(gpu, s, d) for d in s.update.dims)


def along_memory(gpu: Gpu, s: Statement, dim: str) -> bool:
    """Whether ``s`` runs along memory with ``dim``, and the threads of a block do so in less time
    than a thread for each row: rounds of blocks, each of which waits for its steps and for its
    partial results, or of threads, which wait for each element."""
    many = extent(s, dim)
    if many <= gpu.warp or sum(runs(a, dim) for a in s.accesses) <= 0:
        return False
    assert s.update is not None, "it is a sum"
    rows = prod(extent(s, d) for d in s.dims if d not in s.update.dims)
    at_once = gpu.multiprocessors * gpu.resident
    blocks = ceil(rows * gpu.block / at_once) * (1 + ceil(many / gpu.block))
    return blocks < ceil(rows / at_once) * many


def runs(access: Access, dim: str) -> int:
    """1 if ``access`` steps by one element along ``dim``, 0 if it stays, -1 if it jumps."""
    if not any(mentions(i, (dim,)) for i in (*access.indices, *access.body_indices)):
        return 0
    *outer, last = access.indices
    form = linear(last, (dim,))
    step = form.coefficients.get(dim) if form is not None else None
    return 1 if step == 1 and not any(mentions(i, (dim,)) for i in outer) else -1


# ---- Loops over parts.


def is_part(value: Expr, dims: Collection[str]) -> bool:
    """Whether ``value`` numbers parts of one of ``dims``, all of one length."""
    match value:
        case Apply("floordiv", (Var(name), Literal())):
            return name in dims
    return False


def values_of(s: Statement, value: Expr) -> tuple[Expr, Expr] | None:
    """The values of a dim, or of parts of one that has a known size; None where they are others."""
    match value:
        case Var(name):
            return hull(s).get(name)
        case Apply("floordiv", (Var(name), Literal(length))):
            match hull(s).get(name):
                case Literal(low), Literal(high):
                    return literal(int(low) // int(length)), literal(-(-int(high) // int(length)))
    return None
