"""Schedule trees as text: loops as ``for name = value``, one node a line, children indented.

    for i_t = i // 32    parallel
      sequence
        for k = k
          mac
        relu

Where statements have different values of a loop, each is listed: ``for i = {conv: y, pool: 2*y}``.
"""

from __future__ import annotations

from weft.ir.quasi_affine import affine
from weft.ir.schedule_tree import Band, Leaf, Loop, Mark, Sequence, Tree


def print_schedule(tree: Tree) -> str:
    """``tree`` line by line, in execution order."""
    lines: list[str] = []
    stack: list[tuple[Tree, int]] = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        match node:
            case Leaf(statement):
                lines.append("  " * depth + statement)
            case Band(loops, child):
                lines += ["  " * (depth + k) + _loop(loop) for k, loop in enumerate(loops)]
                stack.append((child, depth + len(loops)))
            case Sequence(parts):
                lines.append("  " * depth + "sequence")
                stack.extend((part, depth + 1) for part in reversed(parts))
            case Mark(payload, child):
                lines.append("  " * depth + f"mark {payload}")
                stack.append((child, depth + 1))
    return "\n".join(lines) + "\n"


def _loop(loop: Loop) -> str:
    values = {statement: str(affine(value)) for statement, value in loop.at.items()}
    if len(set(values.values())) == 1:
        shown = next(iter(values.values()))
    else:
        shown = "{" + ", ".join(f"{s}: {value}" for s, value in values.items()) + "}"
    return f"for {loop.name} = {shown}" + ("" if loop.kind == "serial" else f"    {loop.kind}")
