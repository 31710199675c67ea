"""Is a schedule legal? The independent check that every schedule passes before code is made of it.

Everything is computed anew from the Scop and the tree; nothing that a scheduler claims is believed.

* every dependence's source runs strictly before its sink, except among the instances of one
  update whose monoid lets them be reordered (``Dependence.reduction``);
* of statements with no place in the initial order (``Statement.position`` ()), ``validation`` finds
  out whether they run when they should; here they are asked only not to run at the same time as
  others that use the same memory;
* a parallel loop carries no dependence at all, a vector loop none but such a reduction;
* storage that loop iterations reuse (``Tensor.contracted``) serves one tile at a time;
* what a register tile keeps in registers is its own meanwhile;
* what streams past the caches, or is asked for ahead, is left alone meanwhile.
"""

from __future__ import annotations

from weft.ir.errors import CompileError
from weft.ir.isl_context import bounded
from weft.ir.named_isl import access_map, sample_pair, tensor_box
from weft.ir.quasi_affine import affine
from weft.ir.schedule_tree import Tree
from weft.ir.schedule_verifier import (
    for_parameters,
    instance,
    source_of,
    verify_schedule,
)
from weft.ir.scop import Access, Scop, Statement
from weft.polyhedral.proof.contraction import check_contraction
from weft.polyhedral.proof.memory_claims import check_claims
from weft.polyhedral.proof.order_check import check_order
from weft.polyhedral.proof.register_tile import check_register_tiles


def check(scop: Scop, tree: Tree) -> int:
    """Check that ``tree`` runs every instance of ``scop`` once, and after all that it depends on;
    how many dependences that asked about.

    Raises IllegalScheduleError (WEFT-E0410 to E0413 from the verifier; E0420: the order of a
    dependence is violated; E0421, E0422: a parallel or vector loop carries one; E0423: reused
    storage is still needed; E0424: a register tile cannot stand; E0425: nor can
    a claim on memory), with one violated instance pair
    and the element that it touches, and BudgetError (WEFT-E0400) rather than running unbounded.
    """
    verify_schedule(scop, tree)
    asked = check_order(scop, tree)
    check_contraction(scop, tree)
    check_register_tiles(scop, tree)
    check_claims(scop, tree)
    return asked


def check_bounds(scop: Scop) -> None:
    """Check that every access that is performed lies inside its tensor, data-dependent ones aside.

    Raises CompileError (WEFT-E0430), with one instance and the element that it would touch.
    """
    with bounded(what="the bounds check"):
        for statement in scop.statements:
            for access in statement.accesses:
                if not access.may:
                    _check_access(scop, statement, access)


def _check_access(scop: Scop, statement: Statement, access: Access) -> None:
    touched, box = access_map(scop, statement, access), tensor_box(scop, access.tensor)
    if touched.range().is_subset(box):
        return
    pair = sample_pair(touched.subtract_range(box))
    assert pair is not None, "not a subset, yet nothing is outside"
    parameters, point, element = pair
    sizes = [str(affine(size).value(parameters)) for size in scop.tensor(access.tensor).shape]
    raise CompileError(
        "WEFT-E0430",
        f"statement {statement.name} accesses {access.tensor} outside its shape",
        where=source_of(statement),
        why=f"{instance(statement, point)} touches {access.tensor}{list(element)} of shape "
        f"[{', '.join(sizes)}]{for_parameters(parameters)}",
        hint="guard the access, or enlarge the tensor",
    )
