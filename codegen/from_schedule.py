"""Schedule tree → loop IR: isl scans the instances, statements are instantiated at its leaves.

isl's AST generator turns the flat schedule into loops with exact bounds. A loop of the AST at depth
d is the tree's loop at place d of the paths of the statements below it, which gives it its kind.
Storage of local tensors is allocated just inside the loops that their contracted dims run over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import islpy as isl

from weft.codegen.instantiate import Messages, instantiate
from weft.codegen.loop_ir import Allocate, Block, Buffer, For, If, Kernel, Let, Stmt
from weft.errors import InternalError
from weft.frontend.scalar_expr import Expr, Literal, Var, apply, literal, select
from weft.polyhedral.named_isl import bounded, context_set, decode, paths, schedule_map
from weft.polyhedral.schedule_tree import Loop, Tree
from weft.polyhedral.scop import Scop, Tensor

_OP = isl.ast_expr_op_type
_BINARY = {
    _OP.add: "add", _OP.sub: "sub", _OP.mul: "mul", _OP.div: "floordiv", _OP.fdiv_q: "floordiv",
    _OP.pdiv_q: "floordiv", _OP.pdiv_r: "mod", _OP.zdiv_r: "mod", _OP.eq: "eq", _OP.le: "le",
    _OP.lt: "lt", _OP.ge: "ge", _OP.gt: "gt", _OP.and_: "and", _OP.or_: "or",
    _OP.and_then: "and", _OP.or_else: "or", _OP.min: "min", _OP.max: "max",
}  # fmt: skip


def build_kernel(scop: Scop, tree: Tree, name: str) -> Kernel:
    """The kernel that runs ``scop`` in the order of ``tree``.

    Buffers are the Scop's global tensors in order; parameters are the Scop's. Raises
    ``BudgetError`` where isl needs too long.
    """
    with bounded(what=f"code generation for {name}"):
        ast = _ast(scop, tree)
        builder = _Builder(scop, paths(tree))
        body = builder.convert(ast)
    used = {a.tensor for s in scop.statements for a in (*s.writes, *s.reads)}
    written = {w.tensor for s in scop.statements for w in s.writes}
    buffers = tuple(
        buffer_of(t, writable=t.name in written)
        for t in scop.tensors
        if t.scope == "global" and t.name in used
    )
    body = builder.allocate(0, scop.statements and {s.name for s in scop.statements}, body)
    return Kernel(name, scop.parameters, buffers, body, tuple(builder.messages.texts))


def buffer_of(tensor: Tensor, *, writable: bool = True) -> Buffer:
    """The row-major buffer that holds ``tensor``, without its contracted dims."""
    shape = tensor.shape[tensor.contracted :]
    strides: list[Expr] = []
    step: Expr = literal(1)
    for size in reversed(shape):
        strides.append(step)
        step = step * size
    return Buffer(
        tensor.name,
        tensor.dtype,
        shape,
        tuple(reversed(strides)),
        scope=tensor.scope,
        writable=writable,
    )


def _ast(scop: Scop, tree: Tree) -> isl.AstNode:
    schedule = schedule_map(scop, tree)
    build = isl.AstBuild.from_context(context_set(scop))
    depth = max((len(path) for path in paths(tree).values()), default=0)
    identifiers = isl.IdList.alloc(build.get_ctx(), depth)
    for d in range(depth):
        identifiers = identifiers.add(isl.Id.alloc(build.get_ctx(), f"c{d}", None))
    build = build.set_iterators(identifiers).set_options(_atomic(schedule, depth))
    return build.node_from_schedule_map(schedule)


def _atomic(schedule: isl.UnionMap, depth: int) -> isl.UnionMap:
    """isl's option that keeps each loop in one piece, with guards inside."""
    space = schedule.get_space()
    result = isl.UnionMap.empty(space)
    times = isl.Space.set_alloc(schedule.get_ctx(), 0, depth)
    option = isl.Space.set_alloc(schedule.get_ctx(), 0, 1).set_tuple_name(
        isl.dim_type.set, "atomic"
    )
    whole = isl.Map.from_domain_and_range(isl.Set.universe(times), isl.Set.universe(option))
    return result.union(whole.to_union_map())


@dataclass(slots=True)
class _Builder:
    """Converts AST nodes, innermost last; ``env`` gives what isl's iterators are called here."""

    scop: Scop
    paths: Mapping[str, tuple[Loop | int, ...]]
    env: dict[str, Expr] = field(default_factory=dict)
    messages: Messages = field(default_factory=Messages)

    def convert(self, node: isl.AstNode) -> Stmt:
        match node.get_type():
            case isl.ast_node_type.for_:
                return self._loop(node)
            case isl.ast_node_type.if_:
                condition = self.expr(node.if_get_cond())
                then = self.convert(node.if_get_then_node())
                if node.if_has_else_node():
                    return If(condition, then, self.convert(node.if_get_else_node()))
                return If(condition, then)
            case isl.ast_node_type.block:
                parts = node.block_get_children()
                return Block(tuple(self.convert(parts.get_at(k)) for k in range(parts.size())))
            case isl.ast_node_type.user:
                return self._statement(node.user_get_expr())
            case isl.ast_node_type.mark:
                return self.convert(node.mark_get_node())
        raise InternalError("WEFT-E0910", f"isl gave an AST node of type {node.get_type()}")

    def _loop(self, node: isl.AstNode) -> Stmt:
        iterator = node.for_get_iterator().get_id().get_name()
        depth = int(iterator[1:])
        below = _statements(node.for_get_body())
        loop = next((e for s in sorted(below) if isinstance(e := self.paths[s][depth], Loop)), None)
        name = loop.name if loop is not None else f"seq{depth}"
        lower = self.expr(node.for_get_init())
        outer = dict(self.env)
        self.env[iterator] = Var(name)
        upper = literal(0) if node.for_is_degenerate() else self._upper(node.for_get_cond())
        body = self.allocate(depth + 1, below, self.convert(node.for_get_body()))
        self.env = outer
        if node.for_is_degenerate():
            return Let(name, lower, body)
        step = self.expr(node.for_get_inc())
        assert isinstance(step, Literal)
        kind = loop.kind if loop is not None else "serial"
        return For(name, lower, upper, kind, body, int(step.value))

    def _upper(self, condition: isl.AstExpr) -> Expr:
        """The exclusive upper bound in ``iterator < bound`` or ``iterator <= bound``."""
        bound = self.expr(condition.get_op_arg(1))
        return bound + 1 if condition.get_op_type() == _OP.le else bound

    def allocate(self, depth: int, below: set[str], body: Stmt) -> Stmt:
        """``body`` with storage around it for the local tensors that live at this depth."""
        for tensor in reversed(self.scop.tensors):
            if tensor.scope == "global":
                continue
            users = self._users(tensor)
            if users and users <= set(below) and self._depth_of(tensor) == depth:
                body = Allocate(buffer_of(tensor), body)
        return body

    def _users(self, tensor: Tensor) -> set[str]:
        return {
            s.name
            for s in self.scop.statements
            if any(a.tensor == tensor.name for a in (*s.writes, *s.reads))
        }

    def _depth_of(self, tensor: Tensor) -> int:
        """How many places of the paths are outside of one life of ``tensor``."""
        for s in self.scop.statements:
            for access in s.writes:
                if access.tensor == tensor.name:
                    fixed = access.indices[: tensor.contracted]
                    places = [
                        place + 1
                        for place, entry in enumerate(self.paths[s.name])
                        if isinstance(entry, Loop) and entry.at[s.name] in fixed
                    ]
                    return max(places, default=0)
        return 0

    def _statement(self, call: isl.AstExpr) -> Stmt:
        name = decode(call.get_op_arg(0).get_id().get_name())
        statement = self.scop.statement(name)
        dims = {dim: self.expr(call.get_op_arg(k + 1)) for k, dim in enumerate(statement.dims)}
        return instantiate(self.scop, statement, dims, self.messages)

    def expr(self, node: isl.AstExpr) -> Expr:
        match node.get_type():
            case isl.ast_expr_type.int:
                return literal(node.get_val().to_python())
            case isl.ast_expr_type.id:
                name = node.get_id().get_name()
                return self.env[name] if name in self.env else Var(decode(name))
        kind = node.get_op_type()
        args = [self.expr(node.get_op_arg(k)) for k in range(node.get_op_n_arg())]
        if kind in _BINARY:
            result = args[0]
            for arg in args[1:]:
                result = apply(_BINARY[kind], result, arg)
            return result
        if kind == _OP.minus:
            return literal(0) - args[0]
        if kind in (_OP.cond, _OP.select):
            return select(*args)
        raise InternalError("WEFT-E0910", f"isl gave an expression of type {kind}")


def _statements(node: isl.AstNode) -> set[str]:
    """Names of the statements below an AST node."""
    match node.get_type():
        case isl.ast_node_type.for_:
            return _statements(node.for_get_body())
        case isl.ast_node_type.if_:
            found = _statements(node.if_get_then_node())
            return found | (
                _statements(node.if_get_else_node()) if node.if_has_else_node() else set()
            )
        case isl.ast_node_type.block:
            parts = node.block_get_children()
            return set().union(*(_statements(parts.get_at(k)) for k in range(parts.size())))
        case isl.ast_node_type.mark:
            return _statements(node.mark_get_node())
    return {decode(node.user_get_expr().get_op_arg(0).get_id().get_name())}
