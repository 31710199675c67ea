"""A loop kernel as far as affine statements: for the sizes that keep every access in bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from weft.driver.assemble import Assembly, Storage, held, host_program, launches
from weft.driver.lowered import Codes, Front, Source, Unit
from weft.driver.passes import Passes
from weft.frontend.loops.lower import LoopKernel
from weft.ir.isl_context import exclusively
from weft.ir.program import Buffer, Input, Output, Place
from weft.ir.scop import Scop
from weft.ir.scop_printer import scop_text
from weft.ir.scop_verifier import verify as verify_scop
from weft.polyhedral.assume_sizes import assume_sizes
from weft.polyhedral.contributing import contributing
from weft.polyhedral.keep_order import keep_order
from weft.polyhedral.proof.legality import check_bounds
from weft.polyhedral.regroup_products import regroup_products
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.unread import unread


def loop_identity(kernel: LoopKernel, scheduled: Scheduled | None) -> str:
    """All of ``kernel``: what it computes, its arguments, and the order that the user gives it."""
    arguments = [(a.name, a.kind, a.dtype, a.shape) for a in kernel.arguments]
    chosen = "" if scheduled is None else repr((scheduled.scop, scheduled.tree))
    return "\n".join([repr(kernel.scop), repr(arguments), chosen])


def loop_front(kernel: LoopKernel, passes: Passes, scheduled: Scheduled | None) -> Front:
    """``kernel`` as one unit, which works on the caller's own arrays."""
    name = f"kernel_{kernel.scop.name}"
    source = Source(
        name=kernel.scop.name,
        inputs=tuple(a.name for a in kernel.arguments),
        outputs=tuple(kernel.arguments[k].name for k in _written(kernel)),
        numbers=True,
    )
    given = {} if scheduled is None else {name: scheduled}
    units = [Unit(name, partial(scop_of, kernel, passes))]
    return Front(source, units, given, partial(_assembled, kernel))


@exclusively
def assumed(scop: Scop, passes: Passes) -> Scop:
    """``scop`` for the sizes that keep every access in bounds.

    Raises ``CompileError`` (WEFT-E0430) where these are no conjunction of affine constraints.
    """
    scop = passes.run("scop", lambda: scop, show=scop_text, verify=verify_scop)
    scop = passes.run("assume", lambda: assume_sizes(scop), show=scop_text)
    scop = passes.run("needed", lambda: unread(contributing(scop)), show=scop_text)
    passes.run("bounds", lambda: check_bounds(scop))
    return regrouped(scop, passes)


def regrouped(scop: Scop, passes: Passes) -> Scop:
    """``scop`` with its products in a cheaper order, unless the options keep all orders."""
    if passes.options.strict:
        return scop
    return passes.run("regroup", lambda: regroup_products(scop), show=scop_text)


def scop_of(kernel: LoopKernel, passes: Passes) -> Scop:
    """What is scheduled of ``kernel``. Raises as ``assumed`` does."""
    found = assumed(kernel.scop, passes)
    if passes.options.strict:
        found = passes.run("keep_order", lambda: keep_order(found), show=scop_text)
    return found


def _tensors(kernel: LoopKernel) -> tuple[str, ...]:
    """The arguments in order, as the Scop calls them."""
    return tuple(kernel.tensors.get(a.name, a.name) for a in kernel.arguments)


def _written(kernel: LoopKernel) -> Sequence[int]:
    """Numbers of the arguments that the kernel writes."""
    written = {t.name for t in kernel.scop.tensors if t.role == "inout"}
    return [k for k, name in enumerate(_tensors(kernel)) if name in written]


def _assembled(kernel: LoopKernel, codes: Codes) -> Assembly:
    """Launches on the arguments; an array that the kernel writes is an input and an output."""
    (code,) = (code for code in codes if code is not None)
    scop = code.scheduled.scop
    names = _tensors(kernel)
    places: dict[str, Place] = {name: Input(k) for k, name in enumerate(names)}
    program = host_program(
        "main", launches(code, {}), _storage(kernel, scop), dict(scop.derived), places,
        frozenset(), names, (),
    )  # fmt: skip
    written = _written(kernel)
    outputs = tuple(
        Buffer(f"{names[k]}/after", b.dtype, b.shape, Output(number))
        for number, k in enumerate(written)
        for b in (program.inputs[k],)
    )
    return Assembly(
        replace(
            program,
            outputs=outputs,
            buffers=program.buffers + outputs,
            in_place=tuple(enumerate(written)),
            scalars=tuple(k for k, a in enumerate(kernel.arguments) if a.kind == "parameter"),
        )
    )


def _storage(kernel: LoopKernel, scop: Scop) -> dict[str, Storage]:
    storage = {t.name: held(t) for t in scop.tensors if t.scope == "global"}
    numbers = (a for a in kernel.arguments if a.kind == "parameter")
    return storage | {a.name: Storage(a.dtype, ()) for a in numbers}
