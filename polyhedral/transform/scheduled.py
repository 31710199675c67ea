"""A Scop under transformation: what it was, what it has become, and in which order it runs.

A transformation that users may write is a function from ``Scheduled`` to ``Scheduled``, decorated
with ``transformation``: then what it makes remembers its steps, ``tile({"i": 32})`` and so on, and
prints as a script that rebuilds it, whoever took the steps. Their arguments are literals: numbers,
strings, None, and tuples, lists and dicts of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from functools import wraps
from inspect import BoundArguments, Parameter, signature
from keyword import iskeyword
from typing import Concatenate, ParamSpec

from weft.ir.errors import IllegalScheduleError, did_you_mean
from weft.ir.instruction import Instruction
from weft.ir.schedule_tree import (
    Band,
    Leaf,
    Loop,
    Mark,
    Sequence,
    Tree,
    children,
    statements_below,
    walk,
    with_children,
)
from weft.ir.scop import Scop, Tensor

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Step:
    """One transformation, ``name``, with the ``text`` of its arguments; ``str`` gives the call as
    Python has it."""

    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}({self.text})"


@dataclass(frozen=True, slots=True)
class Scheduled:
    """``scop`` scheduled by ``tree`` computes what ``original`` does in its initial order.

    ``steps`` are the transformations that led here from ``original`` in its initial order.
    ``notes``: what an automatic scheduler says about its choice. ``instructions``: those of the
    machine that it is for, which register tiles may be made of.
    """

    original: Scop
    scop: Scop
    tree: Tree
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    instructions: tuple[Instruction, ...] = ()

    def loops(self) -> tuple[Loop, ...]:
        """Every loop, outermost first, in textual order."""
        return tuple(
            loop for node in walk(self.tree) if isinstance(node, Band) for loop in node.loops
        )

    def loop(self, name: str) -> Loop:
        """The loop called ``name``. Raises ``IllegalScheduleError`` (WEFT-E0450)."""
        found = next((loop for loop in self.loops() if loop.name == name), None)
        if found is None:
            known = [loop.name for loop in self.loops()]
            raise unknown("WEFT-E0450", f"no loop is named {name!r}", "loops", name, known)
        return found

    def tensor(self, name: str) -> Tensor:
        """The tensor called ``name``. Raises ``IllegalScheduleError`` (WEFT-E0452)."""
        found = next((tensor for tensor in self.scop.tensors if tensor.name == name), None)
        if found is None:
            known = [tensor.name for tensor in self.scop.tensors]
            raise unknown("WEFT-E0452", f"there is no tensor {name!r}", "tensors", name, known)
        return found

    def below(self, name: str) -> tuple[str, ...]:
        """The statements that loop ``name`` surrounds, in textual order."""
        return tuple(self.loop(name).at)

    def names(self) -> set[str]:
        """The names of all loops."""
        return {loop.name for loop in self.loops()}


def added(before: Scheduled, after: Scheduled) -> tuple[str, ...]:
    """The statements that ``after`` has and ``before`` has not."""
    known = {s.name for s in before.scop.statements}
    return tuple(s.name for s in after.scop.statements if s.name not in known)


def unknown(code: str, what: str, kind: str, name: str, known: Seq[str]) -> IllegalScheduleError:
    """The refusal of a name that is none of ``known``, with those that are like it."""
    return IllegalScheduleError(
        code, what, hint=f"{did_you_mean(name, known)}{kind}: {', '.join(known)}"
    )


# ---- steps --------------------------------------------------------------------------------------


def transformation(
    function: Callable[Concatenate[Scheduled, P], Scheduled],
) -> Callable[Concatenate[Scheduled, P], Scheduled]:
    """``function``, whose results remember the call as their last step.

    What ``function`` does by calling other transformations is part of that one step.
    """
    declared = signature(function)

    @wraps(function)
    def recorded(scheduled: Scheduled, /, *args: P.args, **kwargs: P.kwargs) -> Scheduled:
        made = function(scheduled, *args, **kwargs)
        if made is scheduled:  # there was nothing to do
            return scheduled
        call = declared.bind(scheduled, *args, **kwargs)
        steps = (*scheduled.steps, _step(function.__name__, call))
        return replace(made, steps=steps)

    return recorded


def _step(name: str, call: BoundArguments) -> Step:
    """The step ``name(…)`` without arguments at their defaults: one call, one text."""
    positional: list[str] = []
    named: list[str] = []
    by_position = True
    for parameter in list(call.signature.parameters.values())[1:]:
        value = call.arguments.get(parameter.name, parameter.default)
        if parameter.kind is Parameter.VAR_POSITIONAL:
            positional += map(literal_text, value if value is not Parameter.empty else ())
        elif value == parameter.default and type(value) is type(parameter.default):
            by_position = False
        elif by_position and parameter.kind is Parameter.POSITIONAL_OR_KEYWORD:
            positional.append(literal_text(value))
        else:
            named.append(f"{parameter.name}={literal_text(value)}")
    return Step(name, ", ".join(positional + named))


def literal_text(value: object) -> str:
    """``value`` as Python text; sequences as lists, strings in double quotes."""
    match value:
        case str():
            inside = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'"""{inside}"""' if "\n" in inside else f'"{inside}"'
        case bool() | int() | float() | None:
            return repr(value)
        case Mapping():
            pairs = (f"{literal_text(k)}: {literal_text(v)}" for k, v in value.items())
            return "{" + ", ".join(pairs) + "}"
        case Seq():
            return "[" + ", ".join(map(literal_text, value)) + "]"
    raise TypeError(f"a {type(value).__name__} is no argument of a transformation")


# ---- trees --------------------------------------------------------------------------------------


def rewrite(tree: Tree, change: Callable[[Tree], Tree | None]) -> Tree:
    """Bottom-up: each node goes through ``change``; None keeps it."""
    rebuilt = with_children(tree, tuple(rewrite(child, change) for child in children(tree)))
    changed = change(rebuilt)
    return rebuilt if changed is None else changed


def merge_bands(tree: Tree) -> Tree:
    """Directly nested bands as one, and no empty ones."""
    return rewrite(tree, _merged)


def _merged(node: Tree) -> Tree | None:
    match node:
        case Band((), child):
            return child
        case Band(outer, Band(inner, child)):
            return Band(outer + inner, child)
    return None


def tidy(tree: Tree) -> Tree:
    """Bands merged, no sequences of one or within sequences."""

    def change(node: Tree) -> Tree | None:
        match node:
            case Sequence((only,)):
                return only
            case Sequence(parts):
                flat: list[Tree] = []
                for part in parts:
                    flat.extend(part.children if isinstance(part, Sequence) else (part,))
                return Sequence(tuple(flat))
        return _merged(node)

    return rewrite(tree, change)


def path_to(tree: Tree, statement: str) -> tuple[Tree, ...]:
    """The nodes from the root down to the leaf of ``statement``."""
    trail = _path(tree, statement)
    if trail is None:
        what = f"the schedule has no statement {statement!r}"
        raise unknown("WEFT-E0451", what, "statements", statement, statements_below(tree))
    return trail


def _path(tree: Tree, statement: str) -> tuple[Tree, ...] | None:
    if isinstance(tree, Leaf):
        return (tree,) if tree.statement == statement else None
    for child in children(tree):
        below = _path(child, statement)
        if below is not None:
            return (tree, *below)
    return None


def loops_above(tree: Tree, statement: str) -> tuple[Loop, ...]:
    """The loops around ``statement``, outermost first."""
    return tuple(
        loop for node in path_to(tree, statement) if isinstance(node, Band) for loop in node.loops
    )


def replace_loop(tree: Tree, name: str, *new: Loop) -> Tree:
    """Loop ``name`` replaced by ``new`` loops, outermost first, in its place."""

    def change(node: Tree) -> Tree | None:
        if not isinstance(node, Band) or all(loop.name != name for loop in node.loops):
            return None
        loops: list[Loop] = []
        for loop in node.loops:
            loops.extend(new if loop.name == name else (loop,))
        return replace(node, loops=tuple(loops))

    return rewrite(tree, change)


def with_loops(tree: Tree, change: Callable[[Loop], Loop]) -> Tree:
    """Every loop replaced by ``change(loop)``."""
    return rewrite(
        tree,
        lambda n: replace(n, loops=tuple(map(change, n.loops))) if isinstance(n, Band) else None,
    )


def new_name(scheduled: Scheduled, wanted: str | None, default: str) -> str:
    """The name of a new loop: ``wanted``, which must be free, or ``default``, maybe with a number.

    Raises ``IllegalScheduleError`` (WEFT-E0460).
    """
    if wanted is None:
        return fresh(default, scheduled.names())
    if not isinstance(wanted, str) or not wanted.isidentifier() or iskeyword(wanted):
        raise IllegalScheduleError(
            "WEFT-E0460", f"{wanted!r} cannot name a loop", hint="a Python identifier"
        )
    if wanted in scheduled.names():
        raise IllegalScheduleError("WEFT-E0460", f"there is a loop {wanted!r} already")
    return wanted


def positive(what: str, value: object, least: int = 1) -> int:
    """``value`` if it is an integer of at least ``least``; else IllegalScheduleError (E0460)."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise IllegalScheduleError(
            "WEFT-E0460", f"{what} is {value!r}", hint=f"an integer of at least {least}"
        )
    return value


def fresh(name: str, taken: set[str]) -> str:
    """``name``, or ``name_2`` … where it is taken; the result is added to ``taken``."""
    candidate, n = name, 1
    while candidate in taken:
        n += 1
        candidate = f"{name}_{n}"
    taken.add(candidate)
    return candidate


__all__ = [
    "Mark", "Scheduled", "Step", "fresh", "literal_text", "loops_above", "merge_bands", "new_name",
    "path_to", "positive", "replace_loop", "rewrite", "tidy", "transformation",
    "with_loops",
]  # fmt: skip
