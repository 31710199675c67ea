"""A kernel that calls another: the callee's arguments become values of the caller's."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import NoReturn

from weft.frontend.loops.builder import Place, ScopBuilder
from weft.frontend.loops.expressions import Expressions
from weft.frontend.loops.frame import Frame
from weft.frontend.loops.signature import Argument, signature
from weft.frontend.loops.source import LoopFunction, Source
from weft.frontend.loops.values import Scalar, Value, View, convert, is_pure, loads
from weft.ir.errors import ExpressionError
from weft.ir.scalar_affine import Affine, to_affine, to_expr
from weft.ir.scalar_expr import Expr, Load, Var, substitute, variable_list
from weft.ir.scop import Constraint


def inlined(
    call: ast.Call, callee: LoopFunction, place: Place, builder: ScopBuilder, outer: Expressions
) -> Frame:
    """The frame in which the body of ``callee`` runs for ``call``.

    Raises ``KernelError`` (WEFT-E0169: arguments that do not fit, recursion; E0172: sizes).
    """
    source, caller = callee.source, outer.frame
    if source in (*caller.callers, caller.source):
        outer.source.refuse(
            "E0169", call, f"{source.name} calls itself", hint="kernels are inlined: use a loop"
        )
    arguments = signature(source)
    binding = _Binding(call, place, builder, outer)
    given = _arranged(call, arguments, source, outer)
    for argument, node in zip(arguments, given, strict=True):
        binding.bind(argument, node)
    binding.unify()
    fixed = {a.name: "an argument" for a in arguments}
    fixed |= {n: "a size" for n in binding.sizes if n not in fixed}
    return Frame(source, binding.env, fixed, (*caller.callers, caller.source))


def _arranged(
    call: ast.Call, arguments: tuple[Argument, ...], callee: Source, outer: Expressions
) -> list[ast.expr]:
    names = [a.name for a in arguments]
    given = dict(zip(names, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg not in names or keyword.arg in given:
            outer.source.refuse("E0169", call, f"{callee.name} takes {', '.join(names)}")
        given[keyword.arg] = keyword.value
    if len(call.args) > len(names) or len(given) < len(names):
        outer.source.refuse(
            "E0169",
            call,
            f"{callee.name} takes {len(names)} arguments, not {len(call.args)}",
            hint=f"{callee.name}({', '.join(names)})",
        )
    return [given[name] for name in names]


@dataclass(slots=True)
class _Binding:
    call: ast.Call
    place: Place
    builder: ScopBuilder
    outer: Expressions
    env: dict[str, Value] = field(default_factory=dict)
    sizes: dict[str, Expr] = field(default_factory=dict)
    pairs: list[tuple[Expr, Expr, Argument]] = field(default_factory=list)  # declared, actual

    def bind(self, argument: Argument, node: ast.expr) -> None:
        value = self.outer.value(node)
        if argument.kind == "array":
            self.env[argument.name] = self._array(argument, value, node)
        else:
            self.env[argument.name] = self._scalar(argument, value, node)

    def _array(self, argument: Argument, value: Value, node: ast.expr) -> View:
        text = self.outer.source.code(node)
        if not isinstance(value, View):
            self._refuse(f"{text} is no array, but {argument.name} is", node)
        if value.dtype != argument.dtype or len(value.shape) != len(argument.shape):
            self._refuse(
                f"{text}, {value.dtype} of {len(value.shape)} dimensions, is passed as"
                f" {argument.name}, {argument.dtype} of {len(argument.shape)}",
                node,
            )
        for declared, actual in zip(argument.shape, value.shape, strict=True):
            self.pairs.append((declared, actual, argument))
            if isinstance(declared, Var) and declared.name not in self.sizes:
                self.sizes[declared.name] = actual
        return self.builder.settled(value, self.place, self.outer.source, self.call)

    def _refuse(self, what: str, node: ast.AST) -> NoReturn:
        self.outer.source.refuse("E0169", node, what)

    def _scalar(self, argument: Argument, value: Value, node: ast.expr) -> Scalar:
        if not isinstance(value, Scalar):
            self._refuse(f"{self.outer.source.code(node)} is no number", node)
        try:
            expr = convert(value, argument.dtype)
        except ExpressionError as error:
            self.outer.source.refuse(
                "E0169", node, f"argument {argument.name}: {error.what}", hint=error.hint
            )
        weak = argument.kind == "parameter"
        if weak and is_pure(expr):
            self.sizes.setdefault(argument.name, expr)
        if is_pure(expr) or all(self._is_constant(load) for load in loads(expr)):
            return Scalar(expr, weak)
        return Scalar(self.builder.held(expr, self.place, self.outer.source, self.call), weak)

    def _is_constant(self, load: Load) -> bool:
        """Whether it is a scalar argument of the kernel, which nothing can assign."""
        tensor = self.builder.tensors[str(load.source)]
        return tensor.role == "input" and not tensor.shape

    # ---- sizes --------------------------------------------------------------------------------

    def unify(self) -> None:
        """Solve for sizes, and make sure that declared sizes are the actual ones."""
        for declared, actual, _ in self.pairs:
            self._solve(declared, actual)
        for declared, actual, argument in self.pairs:
            unknown = [n for n in variable_list(declared) if n not in self.sizes]
            if unknown:
                self._wrong(argument, f"size {unknown[0]} is not known")
            difference = to_affine(substitute(declared, self.sizes) - actual)
            if difference is None or not self._equal(difference):
                shown = to_affine(substitute(declared, self.sizes)), to_affine(actual)
                self._wrong(argument, f"one size would be {shown[0]} and {shown[1]}")
        for name, size in self.sizes.items():
            self.env.setdefault(name, Scalar(size, weak=True))

    def _solve(self, declared: Expr, actual: Expr) -> None:
        unknown = [n for n in variable_list(declared) if n not in self.sizes]
        form = to_affine(substitute(declared, self.sizes))
        known = to_affine(actual)
        if len(unknown) != 1 or form is None or known is None:
            return
        if form.coefficient(unknown[0]) == 1:
            rest = form - Affine(((unknown[0], 1),))
            if unknown[0] not in rest.variables():
                self.sizes[unknown[0]] = to_expr(known - rest)

    def _equal(self, difference: Affine) -> bool:
        """Whether it is 0, or will be because calls are checked for it."""
        if difference.is_constant:
            return difference.constant == 0
        if difference.variables() <= set(self.builder.parameters):
            self.builder.assume([Constraint(to_expr(difference), equality=True)])
            return True
        return False

    def _wrong(self, argument: Argument, why: str) -> NoReturn:
        self.outer.source.refuse(
            "E0172", self.call, f"the sizes of {argument.name} do not fit", why=why
        )
