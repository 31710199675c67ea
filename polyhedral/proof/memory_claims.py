"""Is what streams past the caches, or is asked for ahead, left alone meanwhile?

Neither changes a value: threads meet behind streaming stores, and prefetches are hints. What
``Mark(Streamed(tensor), …)`` and ``Mark(Prefetched(tensor), …)`` claim is that the lines are not
wanted again soon, or not written before they are due, so that

1. the mark stands over one statement, which writes, or reads, the tensor;
2. the tensor is memory of the program, not storage that iterations reuse;
3. no statement in the same top-level nest reads what streams, except that updates fold into it, or
   writes what is asked for.
"""

from __future__ import annotations

from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_tree import (
    Claim,
    Mark,
    Sequence,
    Streamed,
    Tree,
    statements_below,
    walk,
)
from weft.ir.schedule_verifier import refusal
from weft.ir.scop import Scop, Statement

FARTHEST = 1 << 20  # bytes: an index that much further on is still an int64


def check_claims(scop: Scop, tree: Tree) -> None:
    """Check every claim on memory in ``tree``, a verified schedule of ``scop``.

    Raises IllegalScheduleError (WEFT-E0425), with what stands against it.
    """
    for nest in tree.children if isinstance(tree, Sequence) else (tree,):
        inside = [scop.statement(name) for name in statements_below(nest)]
        for node in walk(nest):
            if isinstance(node, Mark) and isinstance(node.payload, Claim):
                below = [scop.statement(name) for name in statements_below(node)]
                _check(scop, inside, node.payload, below)


def _check(scop: Scop, inside: list[Statement], claim: Claim, below: list[Statement]) -> None:
    own, *others = below
    if others:
        raise claim_refused(claim, "the mark stands over several statements", *below)
    streams = isinstance(claim, Streamed)
    does, never = ("write", "reads") if streams else ("read", "writes")
    if claim.tensor not in _touched(own, writes=streams):
        raise claim_refused(claim, f"{own.name} does not {does} it", own)
    tensor = scop.tensor(claim.tensor)
    if tensor.scope != "global" or tensor.contracted:
        raise claim_refused(claim, "its storage is reused", own)
    for other in inside:
        if claim.tensor in _touched(other, writes=not streams):
            raise claim_refused(claim, f"{other.name} {never} it in the same nest", own, other)
    if not (isinstance(claim, Streamed) or 0 < claim.ahead <= FARTHEST):
        raise claim_refused(claim, f"{claim.ahead} bytes ahead is nowhere near", own)


def _touched(statement: Statement, *, writes: bool) -> set[str]:
    return {a.tensor for a in (statement.writes if writes else statement.reads)}


def claim_refused(claim: Claim, why: str, *statements: Statement) -> IllegalScheduleError:
    """The refusal of ``claim``, made of the first of ``statements``."""
    what, hint = (
        (f"stores to {claim.tensor} cannot stream past the caches", "that only later nests read")
        if isinstance(claim, Streamed)
        else (f"{claim.tensor} cannot be asked for ahead", "that a nest only reads")
    )
    return refusal("WEFT-E0425", what, statements, why, f"claim it of arrays {hint}")
