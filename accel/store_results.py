"""How results come to be stored: as they are, as what operations copy of them, or in parts."""

from __future__ import annotations

from dataclasses import dataclass

from weft.accel.abilities import Abilities, Compute, Transfer
from weft.accel.accelerator import Accelerator, Memory
from weft.accel.cover import Cover, Held, Node, Tree
from weft.accel.misfits import result_misfit
from weft.accel.refusal import Refusal
from weft.accel.work import Work
from weft.frontend.scalar_expr import Cast, Expr, Load, literal
from weft.frontend.scalar_match import matches


@dataclass(frozen=True, slots=True)
class Stored:
    """``tree`` computes what ``transfer`` stores. ``planes``: parts that are stored one after the
    other; ``between`` moves the next one down."""

    tree: Tree
    transfer: Transfer
    planes: int = 1
    between: Tree | None = None


def store_results(
    work: Work, compute: Compute | None, cover: Cover, machine: Accelerator, found: Abilities
) -> Stored:
    """How the value of ``work``, computed of the sums that ``compute`` leaves, comes to be stored.
    Raises ``Refusal`` where nothing computes or stores it."""
    value = work.value
    for transfer in found.transfers:
        if transfer.into:
            continue
        memory = machine.memory(transfer.local.memory)
        if memory.dtype == value.dtype:
            tree = cover.tree(value, memory.name)
            if tree is not None:
                return Stored(tree, transfer)
        for name, copied in _copies(memory.name, found):
            home = machine.memory(name)
            for match in matches(copied, value):
                tree = cover.tree(match[0], home.name)
                if tree is not None:
                    return Stored(_copied(tree, memory.name, compute, cover), transfer)
            if value.dtype == home.dtype and _is_low_part(copied):
                parts = _in_parts(value, home, memory, compute, cover)
                if parts is not None:
                    planes = home.dtype.bits // memory.dtype.bits
                    return Stored(parts[0], transfer, planes, parts[1])
    homes = {t.local.memory for t in found.transfers if not t.into}
    raise Refusal(result_misfit(work, compute, cover, homes))


def _in_parts(
    value: Expr, home: Memory, memory: Memory, compute: Compute | None, cover: Cover
) -> tuple[Tree, Tree] | None:
    """``value``, in ``home``, with its low part in ``memory``, and what moves the next part there;
    None where nothing does."""
    tree = cover.tree(value, home.name)
    down = Load(0, (), home.dtype) >> literal(memory.dtype.bits, home.dtype)
    between = cover.tree(down, home.name)
    if tree is None or between is None:
        return None
    return _copied(tree, memory.name, compute, cover), between


def _copies(memory: str, found: Abilities) -> list[tuple[str, Expr]]:
    """What operations leave in ``memory`` beside what they compute, and of what memory."""
    copies = {
        (compute.target.memory, copy.value)
        for compute in found.computes
        for copy in compute.copies
        if copy.memory == memory
    }
    return sorted(copies, key=repr)


def _copied(tree: Tree, memory: str, compute: Compute | None, cover: Cover) -> Tree:
    """``tree`` with an operation last that leaves its copy in ``memory``."""
    last = tree.compute if isinstance(tree, Node) else None
    if isinstance(tree, Held) and tree.number == 0:
        last = compute
    if last is not None and any(copy.memory == memory for copy in last.copies):
        return tree
    home = tree.compute.target.memory if isinstance(tree, Node) else tree.memory
    again = cover.unchanged(tree, home)
    if again is None:
        raise Refusal("nothing moves its results to where they are stored from")
    return again


def _is_low_part(value: Expr) -> bool:
    """Whether ``value`` is the low bits of what is copied."""
    match value:
        case Cast(Load(source=0), dtype):
            return dtype.is_integer
    return False
