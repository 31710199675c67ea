"""Grouped reductions as dense ones with block-diagonal weights, if a group does not fill an
instruction.

    y[g, k] = Σ_c w[g, k, c] · x[g, c]   →   y[G, k'] = Σ_c' W[G, k', c'] · x[G, c']

``k'`` and ``c'`` run through ``m`` groups in turn; W, prepared in main memory, is 0 except for m
blocks on its diagonal. The instruction multiplies by zeros in lanes that were idle. Depthwise
convolutions are groups of one channel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weft.accel.rearranged import affine, form_dims, rearranged, sizes_of
from weft.accel.work import BlockDiagonal, Gather, Read, Work
from weft.ir.scalar_affine import Affine
from weft.ir.scalar_expr import Expr, Var, literal, walk

ROWS, COLUMNS = "rows_together", "columns_together"


@dataclass(frozen=True, slots=True)
class _Groups:
    """``group``: the loop over groups; ``row``: over results within one; ``column``: the reduction
    within one, '' if there is none; x and w: the operands."""

    group: str
    row: str
    column: str
    x: int
    w: int


def block_diagonal(work: Work, block: int) -> Iterator[Work]:
    """``work`` with as many groups together as fill blocks of ``block``, if it has groups."""
    for found in _found(work):
        groups = work.extents[found.group]
        rows, columns = _extent(work, found.row), _extent(work, found.column)
        fitting = [
            m
            for m in range(1, groups + 1)
            if groups % m == 0 and m * rows % block == 0 and m * columns % block == 0
        ]
        made = _joined(work, found, fitting[0] if fitting else groups)
        if made is not None:
            yield made


def _extent(work: Work, dim: str) -> int:
    return work.extents[dim] if dim else 1


def _found(work: Work) -> Iterator[_Groups]:
    """Loops that the results and both operands move along."""
    if len(work.operands) != 2 or work.statement.update is None:
        return
    target = _moving(work.statement.writes[0].indices)
    loops = list(work.extents)
    for group in sorted(target, key=loops.index):
        for x, w in ((0, 1), (1, 0)):
            ones, others = work.operands[x], work.operands[w]
            zeros = not others.padded or others.outside == 0
            if group in _dims(ones) and group in _dims(others) and zeros:
                rows = sorted(target & _dims(others) - _dims(ones), key=loops.index)
                columns = [
                    d
                    for d in _dims(ones) & _dims(others) - target
                    if any({group, d} <= form_dims(f) for f in ones.indices)
                ]
                if len(columns) <= 1:
                    for row in rows if len(rows) == 1 else [*rows, ""]:
                        yield _Groups(group, row, "".join(columns), x, w)


def _moving(indices: tuple[Expr, ...]) -> set[str]:
    return {e.name for i in indices for e in walk(i) if isinstance(e, Var)}


def _dims(read: Read) -> set[str]:
    return {d for form in read.indices for d in form_dims(form)}


def _joined(work: Work, found: _Groups, m: int) -> Work | None:
    """``work`` with ``m`` groups together; None if its tensors have another layout."""
    rows, columns = _extent(work, found.row), _extent(work, found.column)
    weights = _weights(work, found, m)
    target = _target(work, found, rows, m)
    x = _put(work.operands[found.x], found.group, found.column, columns, COLUMNS, m)
    others = [_put(r, found.group, found.row, rows, ROWS, m) for r in work.reads]
    if weights is None or target is None or x is None or None in others:
        return None
    write, shape, gather = target
    extents = {d: n for d, n in work.extents.items() if d not in (found.row, found.column)}
    extents[found.group] //= m
    extents |= {ROWS: m * rows, COLUMNS: m * columns}
    if extents[found.group] == 1:
        del extents[found.group]
    operands = [x, weights] if found.x == 0 else [weights, x]
    reads = [r for r in others if r is not None]
    return rearranged(work, extents, operands, reads, write, shape, gather)


def _put(read: Read, group: str, inner: str, size: int, name: str, m: int) -> Read | None:
    """``read`` with dims (group, name) for (group, inner): ``size * group + inner`` becomes ``m *
    size * group + name``. None for other indices."""
    forms = []
    for form in read.indices:
        terms = {str(term): c for term, c in form.terms}
        if group not in terms and (not inner or inner not in terms):
            forms.append(form)
            continue
        step = terms.pop(inner, None) if inner else None
        outer = terms.pop(group, 0)
        if step is None:
            step = outer // size
        if not outer or outer != step * size:
            return None
        terms |= {group: step * size * m, name: step}
        forms.append(affine(terms, form.constant))
    return replace(read, indices=tuple(forms))


def _weights(work: Work, found: _Groups, m: int) -> Read | None:
    """The prepared w: W[group, rows, columns, others]."""
    read = work.operands[found.w]
    tensor = work.scop.tensor(read.tensor)
    rows, columns = _extent(work, found.row), _extent(work, found.column)
    parts = {found.group: ("group", 1), found.row: ("row", rows), found.column: ("column", columns)}
    split: list[str] = []  # by part of w's axes: a group, a row, a column, other
    sizes: list[int] = []
    rest: list[Affine] = []
    for form, size in zip(read.indices, sizes_of(tensor), strict=True):
        terms = {str(term): c for term, c in form.terms}
        own = [d for d in parts if d in terms]
        if not own:
            split.append("other")
            sizes.append(size)
            rest.append(form)
        elif terms == {own[-1]: 1} and not form.constant:
            split.append(parts[own[-1]][0])
            sizes.append(size)
        elif terms == {found.group: parts[own[-1]][1], own[-1]: 1} and not form.constant:
            split += ["group", parts[own[-1]][0]]
            sizes += [size // parts[own[-1]][1], parts[own[-1]][1]]
        else:
            return None
    wanted = {"group": work.extents[found.group], "row": rows, "column": columns}
    for name in wanted:
        if name not in split:
            split.append(name)
            sizes.append(1)
    if any(split.count(n) != 1 or sizes[split.index(n)] != size for n, size in wanted.items()):
        return None
    order = [split.index(n) for n in wanted] + [n for n, s in enumerate(split) if s == "other"]
    diagonal = BlockDiagonal(tuple(order), tuple(sizes[n] for n in order), m)
    first = [affine({name: 1}, 0) for name in (found.group, ROWS, COLUMNS)]
    return replace(read, indices=(*first, *rest), made=diagonal)


def _target(
    work: Work, found: _Groups, rows: int, m: int
) -> tuple[Read, tuple[int, ...], Gather | None] | None:
    """The write of the results, the sizes of their tensor, and their gather, with the axes of
    groups and rows merged."""
    write, gather = work.write, work.gather
    sizes = list(sizes_of(work.scop.tensor(write.tensor)))
    group, row = affine({found.group: 1}, 0), affine({found.row: 1}, 0)
    forms = list(write.indices)
    if found.row and group in forms and row in forms:
        at, other = forms.index(group), forms.index(row)
        if other != at + 1 or gather is None:
            return None
        forms[at : other + 1] = [affine({found.group: rows, found.row: 1}, 0)]
        sizes[at : other + 1] = [sizes[at] * rows]
        indices = list(gather.indices)
        indices[at : other + 1] = [indices[at] * literal(rows) + indices[other]]
        gather = Gather(gather.extents, tuple(indices))
    put = _put(replace(write, indices=tuple(forms)), found.group, found.row, rows, ROWS, m)
    return None if put is None else (put, tuple(sizes), gather)
