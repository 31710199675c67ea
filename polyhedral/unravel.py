"""Unravel: tensors take a shape in which their accesses need no division, and one loop for each
dimension.

    for i: for j: for k: Y[(64·i + 8·j + k) // 10, (64·i + 8·j + k) % 10] = X[i, j, k]
    →   for i: for j: for k: Y[i, j, k] = X[i, j, k]

    for g: for h: for k: … W[512·g + h, k] …
    →   for g: for h: for k: … W[g, h, k] …

A normal form, not a schedule: tensors keep their bytes (row-major), only their dimensions change.
What a reshape leaves behind otherwise, divisions by sizes, costs isl dearly and hides strides.
Dimensions that several loops walk one after the other would be packed in panels across the outer
loop's steps. Rows of memory stay whole where there are no divisions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from weft.ir.scalar_affine import Affine, FloorDiv, Range, floor_divide, to_affine, to_expr
from weft.ir.scalar_expr import Literal, literal
from weft.ir.scop import Access, Scop, Statement, Tensor
from weft.polyhedral.analysis.linear import box


@dataclass(frozen=True, slots=True)
class _Walk:
    """How a statement goes through the elements of a tensor: their row-major number."""

    number: Affine
    ranges: dict[str, Range]  # of the statement's dims
    divides: bool  # whether the indices need divisions
    nested: bool  # whether several loops walk a dim other than the last, one after the other

    def indices(self, shape: Sequence[int]) -> list[Affine]:
        """The indices into a tensor of ``shape``."""
        found: list[Affine] = []
        before: Affine | None = None
        for d, size in enumerate(shape):
            here = floor_divide(self.number, prod(shape[d + 1 :]), self.ranges)
            found.append(here if before is None else here - before.scaled(size))
            before = here
        return found


def unravel(scop: Scop) -> Scop:
    """``scop`` with every tensor reshaped whose accesses then need no division; the same bytes."""
    for tensor in scop.tensors:
        shape = _shape_without_division(scop, tensor)
        if shape is not None:
            scop = _reshaped(scop, tensor, shape)
    return scop


def _shape_without_division(scop: Scop, tensor: Tensor) -> tuple[int, ...] | None:
    """A shape for ``tensor``; None if there is none, or no need of one."""
    if tensor.contracted or not all(isinstance(size, Literal) for size in tensor.shape):
        return None
    walks = [_walk(tensor, s, access) for s, access in _uses(scop, tensor.name)]
    whole = [walk for walk in walks if walk is not None]
    divided = any(walk.divides for walk in whole)
    if len(whole) < len(walks) or not (divided or any(walk.nested for walk in whole)):
        return None
    shapes = (_shape_of(walk, prod(_sizes(tensor))) for walk in whole if divided or walk.nested)
    for shape in dict.fromkeys(shape for shape in shapes if shape is not None):
        in_rows = divided or _row(shape) == _row(_sizes(tensor))
        if in_rows and not any(_divides(walk.indices(shape)) for walk in whole):
            return shape
    return None


def _row(shape: Sequence[int]) -> int:
    """How many elements a row of memory has."""
    return next((size for size in reversed(shape) if size != 1), 1)


def _uses(scop: Scop, tensor: str) -> Iterator[tuple[Statement, Access]]:
    for s in scop.statements:
        for access in s.accesses:
            if access.tensor == tensor:
                yield s, access


def _sizes(tensor: Tensor) -> list[int]:
    return [int(size.value) for size in tensor.shape if isinstance(size, Literal)]


def _walk(tensor: Tensor, s: Statement, access: Access) -> _Walk | None:
    if access.may:
        return None
    ranges: dict[str, Range] = {}
    for dim, (low, high) in box(s).items():
        if isinstance(low, Literal) and isinstance(high, Literal) and low.value < high.value:
            ranges[dim] = int(low.value), int(high.value) - 1
    forms = [to_affine(index, ranges) for index in access.indices]
    number, sizes = Affine(), _sizes(tensor)
    for d, form in enumerate(forms):
        if form is None:
            return None
        number = number + form.scaled(prod(sizes[d + 1 :]))
    known = [form for form in forms if form is not None]
    nested = any(_nested(form, ranges) for form in known[:-1])
    return _Walk(number, ranges, _divides(known), nested)


def _nested(form: Affine, ranges: dict[str, Range]) -> bool:
    """Whether one dim of ``form`` begins a new step where another one ends."""
    steps: dict[int, int] = {}  # and the number of values
    for dim, step in form.terms:
        low, high = ranges.get(dim, (0, 0)) if isinstance(dim, str) else (0, 0)
        if low is not None and high is not None and high > low:
            steps[abs(step)] = high - low + 1
    return any(step * size in steps for step, size in steps.items())


def _divides(forms: Sequence[Affine]) -> bool:
    return any(isinstance(term, FloorDiv) for form in forms for term, _ in form.terms)


def _shape_of(walk: _Walk, elements: int) -> tuple[int, ...] | None:
    """The shape whose row-major strides are the steps of ``walk``; None if there is none."""
    if _divides([walk.number]):
        return None
    strides = sorted({abs(c) for _, c in walk.number.terms} | {1}, reverse=True)
    sizes = [elements, *strides]
    if elements == 0 or any(a % b for a, b in zip(sizes, strides, strict=False)):
        return None
    return tuple(a // b for a, b in zip(sizes, strides, strict=False))


def _reshaped(scop: Scop, tensor: Tensor, shape: tuple[int, ...]) -> Scop:
    def change(s: Statement, access: Access) -> Access:
        walk = _walk(tensor, s, access)
        assert walk is not None, "a shape is found for tensors of which all walks are known"
        return replace(access, indices=tuple(map(to_expr, walk.indices(shape))))

    return scop.with_tensor(replace(tensor, shape=tuple(map(literal, shape))), change)
