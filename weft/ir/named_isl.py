"""isl behind names: the one file that knows dimension positions, isl identifiers and isl's quota.

Sets and maps are built from a Scop's expressions; every isl object of one Scop has all the Scop's
parameters, in order. Names that come from users are encoded (``encode``), so that no name can
clash with isl's or C's own: statement ``conv`` is the tuple ``S_conv``, tensor ``conv`` is
``A_conv``, parameter ``n`` is ``p_n``. Dimensions of tuples have no names; ``dims`` go beside the
object.

Budgets and the cache of isl objects are ``isl_context``'s, orders of instances ``analysis/times``'.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

import islpy as isl

from weft.ir.isl_context import CONTEXT, derived
from weft.ir.quasi_affine import affine, subscripts
from weft.ir.scalar_affine import Affine, FloorDiv, floor_divide, to_expr, variable
from weft.ir.scalar_expr import Expr, Var, literal
from weft.ir.scop import Access, Constraint, Scop, Statement

_DIM = isl.dim_type
_Set = TypeVar("_Set", isl.Set, isl.BasicSet)
_Places = dict[str, tuple[isl.dim_type, int]]


# --- identifiers ---------------------------------------------------------------------------------


@lru_cache(maxsize=65536)
def encode(kind: str, name: str) -> str:
    """The C identifier of ``name``; one-to-one for each ``kind`` ('S', 'A' or 'p')."""
    return f"{kind}_" + re.sub(r"[^A-Za-z0-9_]|_(?=u[0-9a-f]+_)", _escape, name)


@lru_cache(maxsize=65536)
def decode(identifier: str) -> str:
    """The name that ``encode`` was given."""
    return re.sub(r"_u([0-9a-f]+)_", lambda m: chr(int(m[1], 16)), identifier[2:])


def _escape(match: re.Match[str]) -> str:
    return f"_u{ord(match[0]):x}_"


# --- expressions ---------------------------------------------------------------------------------


def to_aff(expr: Expr | Affine, dims: Sequence[str], space: isl.Space) -> isl.Aff:
    """The quasi-affine ``expr`` over the set ``space``, whose dimensions are called ``dims``.

    Raises CompileError (WEFT-E0401) if ``expr`` is not quasi-affine.
    """
    form = expr if isinstance(expr, Affine) else affine(expr)
    return _aff(form, _places(space, dims), isl.LocalSpace.from_space(space))


def difference(
    space: isl.Space, source: tuple[Affine, Sequence[str]], sink: tuple[Affine, Sequence[str]]
) -> isl.Aff:
    """Value at the sink minus value at the source, over ``space``, a flattened space of pairs.

    ``source`` and ``sink`` are a form each with the names of its dimensions.
    """
    whole = isl.LocalSpace.from_space(space)
    before = _aff(source[0], _places(space, source[1]), whole)
    after = _aff(sink[0], _places(space, sink[1], len(source[1])), whole)
    return after.sub(before)


def pair_aff(
    space: isl.Space, distance: Affine, source: Sequence[str], sink: Sequence[str]
) -> isl.Aff:
    """``distance``, named as in ``proof/loop_distances``, over a flattened space of pairs."""
    places = {f"p {name}": (_DIM.param, k) for k, name in enumerate(_parameters(space))}
    places |= {f"0 {name}": (_DIM.in_, k) for k, name in enumerate(source)}
    places |= {f"1 {name}": (_DIM.in_, len(source) + k) for k, name in enumerate(sink)}
    return _aff(distance, places, isl.LocalSpace.from_space(space))


def _places(space: isl.Space, dims: Sequence[str], first: int = 0) -> _Places:
    places = {name: (_DIM.param, k) for k, name in enumerate(_parameters(space))}
    places |= {name: (_DIM.in_, first + k) for k, name in enumerate(dims)}
    return places


def _parameters(space: isl.Space | isl.Aff) -> list[str]:
    return [decode(space.get_dim_name(_DIM.param, k)) for k in range(space.dim(_DIM.param))]


def _aff(form: Affine, places: _Places, space: isl.LocalSpace) -> isl.Aff:
    result = isl.Aff.zero_on_domain(space)
    if form.constant:
        result = result.set_constant_val(_val(form.constant))
    for atom, coefficient in form.terms:
        if isinstance(atom, FloorDiv):
            inner = _aff(atom.numerator, places, space)
            floor = inner.scale_down_val(_val(atom.divisor)).floor()
            result = result.add(floor.scale_val(_val(coefficient)))
        else:
            result = result.set_coefficient_val(*places[atom], _val(coefficient))
    return result


def _val(number: int) -> isl.Val | int:
    return number if -(2**62) < number < 2**62 else isl.Val(str(number), context=CONTEXT)


def from_aff(aff: isl.Aff, dims: Sequence[str]) -> Expr:
    """The expression of an integer-valued ``aff`` whose domain dimensions are called ``dims``."""
    return to_expr(affine_of(aff, dims))


def affine_of(aff: isl.Aff, dims: Sequence[str]) -> Affine:
    """Like ``from_aff``, in normal form."""
    divisor = aff.get_denominator_val().to_python()
    numerator = aff.scale_val(divisor)
    form = Affine((), numerator.get_constant_val().to_python())
    names = [(_DIM.in_, k, name) for k, name in enumerate(dims)]
    names += [(_DIM.param, k, name) for k, name in enumerate(_parameters(aff))]
    for kind, position, name in names:
        coefficient = numerator.get_coefficient_val(kind, position).to_python()
        if coefficient:
            form = form + variable(name).scaled(coefficient)
    for position in range(aff.dim(_DIM.div)):
        coefficient = numerator.get_coefficient_val(_DIM.div, position).to_python()
        if coefficient:  # a floor lists itself among its own divs, with coefficient 0
            form = form + affine_of(aff.get_div(position), dims).scaled(coefficient)
    return floor_divide(form, divisor, {})


def constraints_of(basic_set: isl.BasicSet, dims: Sequence[str]) -> tuple[Constraint, ...]:
    """The constraints that define ``basic_set``, whose dimensions are called ``dims``."""
    if basic_set.is_empty():
        return (Constraint(literal(-1)),)
    known = isl.Set.from_basic_set(basic_set).compute_divs().get_basic_sets()
    if len(known) != 1:
        raise ValueError("the set needs more than one conjunction of constraints")
    return tuple(
        Constraint(from_aff(c.get_aff(), dims), c.is_equality())
        for c in known[0].get_constraints()
        if not c.is_div_constraint()
    )


# --- sets and maps -------------------------------------------------------------------------------


def parameter_space(scop: Scop) -> isl.Space:
    def make() -> isl.Space:
        space = isl.Space.params_alloc(CONTEXT, len(scop.parameters))
        for k, name in enumerate(scop.parameters):
            space = space.set_dim_name(_DIM.param, k, encode("p", name))
        return space

    return derived(make, "parameters", scop.parameters)


def tuple_space(scop: Scop, identifier: str, rank: int) -> isl.Space:
    """The space of sets of ``identifier[…]`` with ``rank`` dimensions."""
    space = parameter_space(scop).set_from_params().add_dims(_DIM.set, rank)
    return space.set_tuple_name(_DIM.set, identifier) if identifier else space


def statement_space(scop: Scop, statement: Statement) -> isl.Space:
    name = encode("S", statement.name)
    rank = len(statement.dims)
    return derived(lambda: tuple_space(scop, name, rank), "statement", scop.parameters, statement)


def constrained(
    space: isl.Space, dims: Sequence[str], constraints: Sequence[Constraint]
) -> isl.BasicSet:
    """The points of ``space`` that meet all ``constraints``."""
    result = isl.BasicSet.universe(space)
    for constraint in constraints:
        aff = to_aff(constraint.expr, dims, space)
        make = isl.Constraint.equality_from_aff if constraint.equality else _inequality
        result = result.add_constraint(make(aff))
    return result


_inequality = isl.Constraint.inequality_from_aff


def context_set(scop: Scop) -> isl.Set:
    """The parameter values for which the Scop is defined: a parameter set."""

    def make() -> isl.Set:
        space = parameter_space(scop).set_from_params()
        return isl.Set.from_basic_set(constrained(space, (), scop.context)).params()

    return derived(make, "context", scop.parameters, scop.context)


def domain_set(scop: Scop, statement: Statement) -> isl.Set:
    """The instances of ``statement``, within the context."""

    def make() -> isl.Set:
        space = statement_space(scop, statement)
        points = constrained(space, statement.dims, statement.domain)
        return isl.Set.from_basic_set(points).intersect_params(context_set(scop))

    return derived(make, "domain", scop.parameters, scop.context, statement)


def tensor_box(scop: Scop, name: str, axis: int | None = None) -> isl.Set:
    """The elements of tensor ``name``; with ``axis``, whatever fits along that one."""
    tensor = scop.tensor(name)

    def make() -> isl.Set:
        space = tuple_space(scop, encode("A", name), len(tensor.shape))
        axes = [f"axis {k}" for k in range(len(tensor.shape))]  # no user name has a space
        limits = [
            Constraint(bound)
            for k, size in enumerate(tensor.shape)
            if axis in (None, k)
            for bound in (Var(axes[k]), size - 1 - Var(axes[k]))
        ]
        return isl.Set.from_basic_set(constrained(space, axes, limits))

    return derived(make, "box", scop.parameters, tensor, axis)


def access_map(scop: Scop, statement: Statement, access: Access) -> isl.Map:
    """Instances of ``statement`` → the elements that ``access`` touches there.

    Restricted to the domain and the guard; a may access touches every element of its tensor that
    has those of its subscripts that are no data.
    """

    def make() -> isl.Map:
        domain = domain_set(scop, statement)
        if access.guard:
            space = statement_space(scop, statement)
            domain = domain.intersect(constrained(space, statement.dims, access.guard).to_set())
        forms = subscripts(scop, statement, access)
        target = tuple_space(scop, encode("A", access.tensor), len(forms))
        values = [form or Affine() for form in forms]
        found = isl.Map.from_multi_aff(multi_aff(scop, statement, values, target))
        if access.may:
            for axis in (k for k, form in enumerate(forms) if form is None):
                found = found.eliminate(_DIM.out, axis, 1)
            found = found.intersect_range(tensor_box(scop, access.tensor))
        return found.intersect_domain(domain)

    return derived(make, "access", scop.parameters, scop.context, statement, access)


def multi_aff(
    scop: Scop, statement: Statement, values: Sequence[Expr | Affine], target: isl.Space
) -> isl.MultiAff:
    """Instances of ``statement`` → the point of ``target`` with coordinates ``values``."""
    source = statement_space(scop, statement)
    affs = isl.AffList.alloc(CONTEXT, len(values))
    for value in values:
        affs = affs.add(to_aff(value, statement.dims, source))
    return isl.MultiAff.from_aff_list(source.map_from_domain_and_range(target), affs)


# --- tuples --------------------------------------------------------------------------------------


def union_maps(union: isl.UnionMap) -> Iterator[isl.Map]:
    """The maps that ``union`` consists of, one for each pair of tuples."""
    parts = union.get_map_list()
    return (parts.get_at(k) for k in range(parts.n_map()))


def tuple_names(pairs: isl.Map) -> tuple[str, str]:
    """The names, as users know them, of the two tuples that ``pairs`` relates."""
    return decode(source_identifier(pairs)), decode(pairs.get_tuple_name(_DIM.out))


def source_identifier(pairs: isl.Map) -> str:
    """The identifier of the tuples that ``pairs`` starts from."""
    return pairs.get_tuple_name(_DIM.in_)


def target_identifier(pairs: isl.Map) -> str:
    """The identifier of the tuples that ``pairs`` leads to."""
    return pairs.get_tuple_name(_DIM.out)


def with_source(pairs: isl.Map, identifier: str) -> isl.Map:
    """``pairs`` from tuples of another name."""
    return pairs.set_tuple_name(_DIM.in_, identifier)


def anonymous_space(rank: int, identifier: str = "") -> isl.Space:
    """The space of sets of tuples with ``rank`` dimensions, without parameters."""
    space = isl.Space.set_alloc(CONTEXT, 0, rank)
    return space.set_tuple_name(_DIM.set, identifier) if identifier else space


# --- dimensions ----------------------------------------------------------------------------------


def projected(points: _Set, dims: Sequence[str], kept: Collection[str]) -> _Set:
    """``points``, whose dimensions are called ``dims``, over those that are ``kept``."""
    for k in reversed(range(len(dims))):
        if dims[k] not in kept:
            points = points.project_out(_DIM.set, k, 1)
    return points


def shortened(points: _Set, rank: int) -> _Set:
    """``points`` without the dimensions behind the first ``rank``."""
    return points.project_out(_DIM.set, rank, points.dim(_DIM.set) - rank)


def lengthened(points: _Set, more: int) -> _Set:
    """``points`` with ``more`` dimensions behind, of any value."""
    return points.add_dims(_DIM.set, more)


def coordinate(space: isl.Space, position: int = 0) -> isl.Aff:
    """The value of one dimension of the tuples of ``space``."""
    return isl.Aff.var_on_domain(isl.LocalSpace.from_space(space), _DIM.set, position)


def has_upper_bound(values: isl.Set) -> bool:
    """Whether the only dimension of ``values`` is bounded from above, for given parameters."""
    return values.dim_has_upper_bound(_DIM.set, 0)


def without_parameters(points: isl.Set) -> isl.Set:
    """``points`` for any values of the parameters."""
    return points.project_out(_DIM.param, 0, points.dim(_DIM.param))


def parameter_is_bounded(sizes: isl.Set, k: int) -> bool:
    """Whether numbers bound parameter ``k`` on both sides, whatever the others are."""
    alone = sizes.project_out(_DIM.param, k + 1, sizes.dim(_DIM.param) - k - 1)
    return alone.project_out(_DIM.param, 0, k).dim_is_bounded(_DIM.param, 0)


def where_equal(pairs: isl.Map, a: int, b: int) -> isl.Map:
    """Those of ``pairs`` with one value of dimension ``a`` of the first and ``b`` of the second."""
    return pairs.equate(_DIM.in_, a, _DIM.out, b)


def where_less(pairs: isl.Map, a: int, b: int) -> isl.Map:
    """Likewise, the first value being the smaller one."""
    return pairs.order_lt(_DIM.in_, a, _DIM.out, b)


def where_greater(pairs: isl.Map, a: int, b: int) -> isl.Map:
    """Likewise, the first value being the greater one."""
    return pairs.order_gt(_DIM.in_, a, _DIM.out, b)


def where_same(pairs: isl.Map, places: Iterable[int]) -> isl.Map:
    """Those of ``pairs`` whose ends have the same values at all ``places``."""
    for k in places:
        pairs = where_equal(pairs, k, k)
    return pairs


def where_different(pairs: isl.Map, places: Iterable[int]) -> isl.Map:
    """Those of ``pairs`` whose ends differ at one of ``places``: cheaper than ``subtract``."""
    found = isl.Map.empty(pairs.get_space())
    for k in places:
        for apart in (where_less(pairs, k, k), where_greater(pairs, k, k)):
            found = found if apart.is_empty() else found.union(apart)
    return found


def where_first_as(pairs: isl.Map, other: isl.Map) -> isl.Map:
    """Those of ``pairs`` whose first end has the numbers that all first ends in ``other`` are seen
    to have: no others are in both."""
    return _where_as(pairs, other, _DIM.in_)


def where_second_as(pairs: isl.Map, other: isl.Map) -> isl.Map:
    """Likewise of the second ends."""
    return _where_as(pairs, other, _DIM.out)


def _where_as(pairs: isl.Map, other: isl.Map, kind: isl.dim_type) -> isl.Map:
    for k in range(other.dim(kind)):
        value = other.plain_get_val_if_fixed(kind, k)
        if value.is_int():
            pairs = pairs.fix_val(kind, k, value)
    return pairs


def whatever_first(pairs: isl.Map, k: int) -> isl.Map:
    """``pairs`` with 0 for dimension ``k`` of the first end, whatever it is."""
    return _without_first(pairs, k).compute_divs().coalesce()


def whoever_first(pairs: isl.Map, k: int) -> isl.Set:
    """The first ends of ``pairs``, whatever dimension ``k`` of them is, and perhaps others: without
    divisions."""
    ends = pairs.domain().project_out(_DIM.set, k, 1)
    return ends.insert_dims(_DIM.set, k, 1).remove_divs()


def _without_first(pairs: isl.Map, k: int) -> isl.Map:
    rest = pairs.project_out(_DIM.in_, k, 1).insert_dims(_DIM.in_, k, 1)
    return rest.fix_val(_DIM.in_, k, 0)


def box_of_second(pairs: isl.Map, k: int) -> isl.Map:
    """``pairs`` with 0 for dimension ``k`` of the first end, whatever it is, and of each dimension
    of the second end what they say whatever the others of that end are; without more than one
    division of it, so that there may be more pairs."""
    found, rank = _without_first(pairs, k), pairs.dim(_DIM.out)
    box = isl.Map.universe(found.get_space())
    for d in range(rank):
        own = found.project_out(_DIM.out, d + 1, rank - d - 1).project_out(_DIM.out, 0, d)
        own = own.coalesce()
        if any(part.dim(_DIM.div) > 1 for part in own.get_basic_maps()):
            own = own.remove_divs()
        own = own.insert_dims(_DIM.out, 0, d).insert_dims(_DIM.out, d + 1, rank - d - 1)
        box = box.intersect(own)
    return box


def target_rank(pairs: isl.Map) -> int:
    """The number of dimensions that ``pairs`` leads to."""
    return pairs.dim(_DIM.out)


def fixed_value(pairs: isl.Map, k: int) -> int | None:
    """The value of dimension ``k`` of what ``pairs`` lead to, where it is plainly one number."""
    value = pairs.plain_get_val_if_fixed(_DIM.out, k)
    return value.to_python() if value.is_int() else None


def to_constants(points: isl.Set, values: Sequence[int]) -> isl.Map:
    """Each of ``points`` → the tuple of ``values``."""
    found = isl.Map.from_domain(points).add_dims(_DIM.out, len(values))
    for k, value in enumerate(values):
        found = found.fix_val(_DIM.out, k, value)
    return found


def with_first(pairs: isl.Map, value: int) -> isl.Map:
    """``pairs`` with ``value`` in front of what they lead to."""
    return pairs.insert_dims(_DIM.out, 0, 1).fix_val(_DIM.out, 0, value)


# --- samples -------------------------------------------------------------------------------------


def sample(points: isl.Set) -> tuple[dict[str, int], tuple[int, ...]] | None:
    """One point of ``points``, and the parameters it needs; None if there is none."""
    point = points.sample_point()
    if point.is_void():
        return None
    space = points.get_space()
    parameters = {
        name: _coordinate(point, _DIM.param, k) for k, name in enumerate(_parameters(space))
    }
    return parameters, tuple(_coordinate(point, _DIM.set, k) for k in range(space.dim(_DIM.set)))


def sample_pair(
    pairs: isl.Map,
) -> tuple[dict[str, int], tuple[int, ...], tuple[int, ...]] | None:
    """One pair of ``pairs``, and the parameters it needs; None if there is none."""
    found = sample(pairs.wrap().flatten())
    if found is None:
        return None
    split = pairs.dim(_DIM.in_)
    return found[0], found[1][:split], found[1][split:]


def _coordinate(point: isl.Point, kind: isl.dim_type, position: int) -> int:
    return point.get_coordinate_val(kind, position).to_python()


def sample_named(points: isl.UnionSet) -> tuple[str, str, dict[str, int], tuple[int, ...]]:
    """(kind, name, parameters, coordinates) of one point of ``points``, which are not empty."""
    one = isl.UnionSet.from_point(points.sample_point())
    only = isl.Set.from_union_set(one)
    identifier = only.get_tuple_name()
    parameters, point = sample(only) or ({}, ())
    return identifier[0], decode(identifier), parameters, point
