"""Loops that scan the instances of a Scop in the order of a schedule tree, by isl's code generator.

Reference: Grosser, Verdoolaege, Cohen, Polyhedral AST generation is more than scanning polyhedra,
TOPLAS 37 (2015).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import islpy as isl

from weft.ir import dtypes
from weft.ir.errors import InternalError
from weft.ir.isl_context import CONTEXT, bounded
from weft.ir.loop_ir import Block, For, If, Stmt
from weft.ir.named_isl import anonymous_space, context_set, decode
from weft.ir.scalar_expr import Apply, Expr, Var, apply, literal, select
from weft.ir.schedule_times import paths, schedule_map
from weft.ir.schedule_tree import Loop, Tree
from weft.ir.scop import Scop

Instance = Callable[[str, tuple[Expr, ...]], Stmt]

_BUDGET = 40_000_000  # isl operations for the loops of one kernel
# islpy's types lack the names that end in _, and say that isl's kinds are numbers.
_FOR, _IF = isl.ast_node_type["for_"], isl.ast_node_type["if_"]
_AND, _OR = isl.ast_expr_op_type["and_"], isl.ast_expr_op_type["or_"]
_LOGICAL = (
    _AND,
    isl.ast_expr_op_type.and_then,
    _OR,
    isl.ast_expr_op_type.or_else,
)
_CHOICES = (isl.ast_expr_op_type.select, isl.ast_expr_op_type.cond)
_BINARY = {
    isl.ast_expr_op_type.add: "add",
    isl.ast_expr_op_type.sub: "sub",
    isl.ast_expr_op_type.mul: "mul",
    isl.ast_expr_op_type.div: "floordiv",  # known to be exact
    isl.ast_expr_op_type.fdiv_q: "floordiv",
    isl.ast_expr_op_type.pdiv_q: "floordiv",  # the dividend is not negative
    isl.ast_expr_op_type.pdiv_r: "mod",
    isl.ast_expr_op_type.zdiv_r: "mod",  # only compared with 0
    _AND: "and",
    isl.ast_expr_op_type.and_then: "and",
    _OR: "or",
    isl.ast_expr_op_type.or_else: "or",
    isl.ast_expr_op_type.eq: "eq",
    isl.ast_expr_op_type.le: "le",
    isl.ast_expr_op_type.lt: "lt",
    isl.ast_expr_op_type.ge: "ge",
    isl.ast_expr_op_type.gt: "gt",
    isl.ast_expr_op_type.min: "min",
    isl.ast_expr_op_type.max: "max",
}


def scan(scop: Scop, tree: Tree, instance: Instance) -> Stmt:
    """Loops over all instances, ``instance(statement, values of its dims)`` at each.

    Loops take names and kinds from ``tree``. Raises ``BudgetError`` if isl needs too long.
    """
    order = paths(tree)
    with bounded(_BUDGET, f"scanning the loops of {scop.name}"):
        root = _isl_ast(scop, tree, order)
        return _Scan(order, instance, frozenset(scop.parameters)).node(root, {})


def _isl_ast(scop: Scop, tree: Tree, order: Mapping[str, tuple[Loop | int, ...]]) -> isl.AstNode:
    depth = max((len(path) for path in order.values()), default=0)
    build = isl.AstBuild.from_context(context_set(scop))
    identifiers = isl.IdList.alloc(CONTEXT, depth)
    for k in range(depth):
        identifiers = identifiers.add(isl.Id(f"c{k}", None, CONTEXT))
    build = build.set_iterators(identifiers)
    # Guards inside loops, not split loops: a parallel loop in two parts is two worksharing loops.
    times, atomic = anonymous_space(depth), anonymous_space(1, "atomic")
    every = isl.Map.from_domain_and_range(isl.Set.universe(times), isl.Set.universe(atomic))
    build = build.set_options(every.to_union_map())
    return build.node_from_schedule_map(schedule_map(scop, tree))


@dataclass(slots=True)
class _Scan:
    order: Mapping[str, tuple[Loop | int, ...]]
    instance: Instance
    parameters: frozenset[str]

    def node(self, node: isl.AstNode, names: Mapping[str, Expr]) -> Stmt:
        """``node`` in loop IR; ``names`` gives isl's iterators."""
        kind = isl.ast_node_type(node.get_type())
        if kind == isl.ast_node_type.block:
            children = node.block_get_children()
            return Block(
                tuple(self.node(children.get_at(k), names) for k in range(children.n_ast_node()))
            )
        if kind == _IF:
            test = condition(node.if_get_cond(), names)
            then = self.node(node.if_get_then_node(), names)
            if node.if_has_else_node():
                return If(test, then, self.node(node.if_get_else_node(), names))
            return If(test, then)
        if kind == _FOR:
            return self._for(node, names)
        if kind == isl.ast_node_type.user:
            call = node.user_get_expr()
            count = call.op_get_n_arg()
            name = decode(call.op_get_arg(0).id_get_id().get_name())
            values = tuple(expression(call.op_get_arg(k), names) for k in range(1, count))
            return self.instance(name, values)
        raise InternalError("WEFT-E0911", f"isl made an unexpected node: {node.to_C_str()}")

    def _for(self, node: isl.AstNode, names: Mapping[str, Expr]) -> Stmt:
        iterator = node.for_get_iterator().id_get_id().get_name()
        lower = expression(node.for_get_init(), names)
        if node.for_is_degenerate():
            return self.node(node.for_get_body(), {**names, iterator: lower})
        loop = self._loop(node, int(iterator[1:]))
        taken = {v.name for v in names.values() if isinstance(v, Var)} | self.parameters
        name = loop.name
        while name in taken:
            name += "_"
        inner = {**names, iterator: Var(name)}
        upper = self._upper(node.for_get_cond(), inner)
        step = node.for_get_inc().int_get_val().to_python()
        body = self.node(node.for_get_body(), inner)
        return For(name, lower, upper, loop.kind, body, step)

    def _loop(self, node: isl.AstNode, depth: int) -> Loop:
        """The loop of the tree that an isl loop at ``depth`` stands for."""
        for statement in _statements(node):
            entry = self.order[statement][depth]
            if isinstance(entry, Loop):
                return entry
        raise InternalError("WEFT-E0911", "isl made a loop that the schedule does not have")

    @staticmethod
    def _upper(test: isl.AstExpr, names: Mapping[str, Expr]) -> Expr:
        limit = expression(test.op_get_arg(1), names)
        kind = isl.ast_expr_op_type(test.op_get_type())
        return _next(limit) if kind == isl.ast_expr_op_type.le else limit


def _next(expr: Expr) -> Expr:
    """``expr + 1``; in a minimum, of each operand."""
    if isinstance(expr, Apply) and expr.op == "min":
        return apply("min", *(_next(arg) for arg in expr.args))
    return expr + 1


def _statements(node: isl.AstNode) -> list[str]:
    """The first statement below ``node`` (all below one loop have that loop)."""
    while True:
        kind = isl.ast_node_type(node.get_type())
        if kind == _FOR:
            node = node.for_get_body()
        elif kind == _IF:
            node = node.if_get_then_node()
        elif kind == isl.ast_node_type.block:
            node = node.block_get_children().get_at(0)
        else:
            return [decode(node.user_get_expr().op_get_arg(0).id_get_id().get_name())]


def condition(expr: isl.AstExpr, names: Mapping[str, Expr]) -> Expr:
    """An isl condition over iterators and parameters; isl writes 1 for what always holds."""
    if isl.ast_expr_type(expr.get_type()) == isl.ast_expr_type.int:
        return literal(expr.int_get_val().to_python() != 0, dtypes.bool_)
    return expression(expr, names)


def expression(expr: isl.AstExpr, names: Mapping[str, Expr]) -> Expr:
    """An isl expression over iterators and parameters, in int64."""
    kind = isl.ast_expr_type(expr.get_type())
    if kind == isl.ast_expr_type.int:
        return literal(expr.int_get_val().to_python())
    if kind == isl.ast_expr_type.id:
        name = expr.id_get_id().get_name()
        return names[name] if name in names else Var(decode(name))
    op = isl.ast_expr_op_type(expr.op_get_type())
    given = [expr.op_get_arg(k) for k in range(expr.op_get_n_arg())]
    if op in _CHOICES:
        return select(condition(given[0], names), *(expression(e, names) for e in given[1:]))
    args = [(condition if op in _LOGICAL else expression)(e, names) for e in given]
    if op == isl.ast_expr_op_type.minus:
        return literal(0) - args[0]
    total = args[0]
    for arg in args[1:]:
        total = apply(_BINARY[op], total, arg)
    return total
