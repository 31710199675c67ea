"""Loads under a condition whose element the iteration has loaded anyway lose the condition.

    for i vector:                              for i vector:
      c = x[k, i] < best[i]                      c = x[k, i] < best[i]
      best[i] = x[k, i] if c else best[i]   →    known = x[k, i]
                                                 best[i] = known if c else best[i]

A load under a mask is a load and a branch for each lane where the target has no such instruction,
or where lanes lie apart. The element is there, as it has been loaded; LLVM sees that both loads are
one, unless a store between them may change it.

Also known as: speculation of safe loads; available expressions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.codegen.map_loops import unconditional_loads
from weft.codegen.rebuild import let, map_children, map_expressions
from weft.ir.loop_ir import Allocate, Block, For, Kernel, Let, Stmt, While, expressions
from weft.ir.scalar_expr import Expr, Load, Var, has_loads, rewrite
from weft.ir.scalar_expr import walk as walk_expr
from weft.polyhedral.analysis.linear import mentions


def known_loads(kernel: Kernel) -> Kernel:
    """``kernel`` with the loads of its vector loops that are safe anyway without conditions."""
    found = _Known()
    body = found.outside(kernel.body)
    return replace(kernel, body=body) if found.count else kernel


@dataclass(slots=True)
class _Known:
    count: int = 0  # of the loads that lost their condition

    def outside(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and stmt.kind == "vector":
            return replace(stmt, body=self.inside(stmt.body, set()))
        return map_children(stmt, self.outside)

    def inside(self, stmt: Stmt, loaded: set[Load]) -> Stmt:
        """``stmt`` of a vector loop where ``loaded`` have been loaded, to which its own are
        added."""
        match stmt:
            case Block(stmts):
                return Block(tuple(self.inside(s, loaded) for s in stmts))
            case Allocate():
                return replace(stmt, body=self.inside(stmt.body, loaded))
            case Let():
                return self._chain(stmt, loaded)
        lets, made = self._hoisted(stmt, loaded)
        return let(lets, map_children(made, lambda s: self.inside(s, {*loaded})))

    def _chain(self, stmt: Stmt, loaded: set[Load]) -> Stmt:
        """A chain of lets, which takes no stack."""
        lets: list[tuple[str, Expr]] = []
        names: list[str] = []
        inner = {*loaded}
        while isinstance(stmt, Let):
            more, made = self._hoisted(replace(stmt, body=Block(())), inner)
            assert isinstance(made, Let)
            lets += [*more, (made.name, made.value)]
            names.append(made.name)
            stmt = stmt.body
        body = self.inside(stmt, inner)
        loaded |= {load for load in inner if not any(mentions(i, names) for i in load.indices)}
        return let(lets, body)

    def _hoisted(self, stmt: Stmt, loaded: set[Load]) -> tuple[list[tuple[str, Expr]], Stmt]:
        """What ``stmt`` itself loads in a branch though it is ``loaded``, bound to names; and
        ``stmt`` with these. Its other loads are added."""
        own = expressions(stmt)
        sure = {
            n for e in own for n in unconditional_loads(e) if not any(map(has_loads, n.indices))
        }
        safe, known = loaded - sure, dict[Expr, Var]()
        if safe and not isinstance(stmt, While):  # which evaluates its condition again
            for node in (n for e in own for n in walk_expr(e)):
                if isinstance(node, Load) and node in safe and node not in known:
                    known[node] = Var(f"known.{self.count}", node.dtype)
                    self.count += 1
        loaded |= sure
        lets = [(name.name, load) for load, name in known.items()]
        return lets, map_expressions(stmt, lambda e: rewrite(e, known.get)) if known else stmt
