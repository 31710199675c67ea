"""A loop kernel → affine statements: its function is executed symbolically, block by block.

Loops become dims, conditions on indices domains, conditions on data guards, other kernels that it
calls a part of it. What is not affine is refused where it stands.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.frontend.loops.assign import Assigner, dtype_of, new_array
from weft.frontend.loops.builder import Assignment, Place, ScopBuilder
from weft.frontend.loops.calls import inlined
from weft.frontend.loops.conditions import Decision, Way, decide, whichever
from weft.frontend.loops.expressions import Expressions
from weft.frontend.loops.frame import Frame, Gone, Knowledge, Restart
from weft.frontend.loops.functions import statement
from weft.frontend.loops.loop_range import Turns, loop_range, with_derived
from weft.frontend.loops.signature import Argument, meaning, signature
from weft.frontend.loops.source import LoopFunction, Source
from weft.frontend.loops.values import Scalar, View, loads, whole
from weft.ir import dtypes
from weft.ir.errors import BudgetError
from weft.ir.scalar_expr import Expr, Load, Var, literal
from weft.ir.scalar_expr import walk as walk_expr
from weft.ir.scop import Constraint, Scop

_REFUSED: dict[type[ast.stmt], tuple[str, str]] = {
    ast.While: ("while", "a for loop over a range, with `if` inside"),
    ast.Break: ("break", "a condition on the rest of the loop's body: `if not found: …`"),
    ast.Continue: ("continue", "the rest of the loop's body in an `if`"),
    ast.Return: ("return", "an array argument that the kernel writes; a kernel ends at its end"),
    ast.FunctionDef: ("def", "a kernel of its own outside, called here"),
    ast.Try: ("try", "nothing in a kernel raises"),
    ast.Import: ("import", "import at the top of the file"),
    ast.ImportFrom: ("import", "import at the top of the file"),
    ast.Global: ("global", "arguments"),
    ast.Nonlocal: ("nonlocal", "arguments"),
    ast.Delete: ("del", "nothing: arrays of a kernel live as long as it runs"),
    ast.Raise: ("raise", "an assert on sizes"),
    ast.AnnAssign: ("x: type", "a value with it: x: weft.f32 = 0"),
    ast.Match: ("match", "if and elif"),
    ast.ClassDef: ("class", "arguments"),
    ast.AsyncFor: ("async for", "for"),
    ast.Expr: ("an expression alone", "an assignment, or the call of a kernel"),
}


@dataclass(frozen=True, slots=True)
class LoopKernel:
    """The statements of a kernel, ``scop``; its ``arguments`` in order; and ``tensors``, which
    these are, by the arguments' names: the same names but where those are no C identifiers."""

    scop: Scop
    arguments: tuple[Argument, ...]
    tensors: Mapping[str, str]


def lower_kernel(function: LoopFunction) -> LoopKernel:
    """``function`` as affine statements, in their textual order.

    Raises ``KernelError`` (WEFT-E0160 to E0172) at the line and column of what cannot be compiled,
    and ``BudgetError`` (WEFT-E0173).
    """
    source, knowledge = function.source, Knowledge()
    arguments = signature(source)
    while True:  # each turn has learned something about one more variable
        try:
            return _Lowering(source, arguments, knowledge).run()
        except Restart:
            continue
        except RecursionError:
            raise BudgetError(
                "WEFT-E0173",
                f"{source.name} is nested too deeply",
                where=source.where(source.tree),
                hint="split long elif chains and deeply nested expressions",
            ) from None


class _Lowering:
    def __init__(
        self, source: Source, arguments: tuple[Argument, ...], knowledge: Knowledge
    ) -> None:
        self.source, self.arguments, self.knowledge = source, arguments, knowledge
        self.builder = ScopBuilder(source.name)
        self.assigner = Assigner(self.builder, knowledge)
        self.tensors: dict[str, str] = {}  # of the arguments

    def run(self) -> LoopKernel:
        frame = self._frame()
        self.block(self.source.tree.body, frame, Place())
        if not self.builder.statements:
            self.source.refuse(
                "E0162", self.source.tree, f"{self.source.name} assigns nothing", hint="A[i] = …"
            )
        return LoopKernel(self.builder.scop(), self.arguments, self.tensors)

    def _frame(self) -> Frame:
        """The kernel's arguments as tensors and parameters."""
        builder = self.builder
        symbols = [
            node.name
            for argument in self.arguments
            for size in argument.shape
            for node in walk_expr(size)
            if isinstance(node, Var)
        ]
        sizes = list(dict.fromkeys(symbols))
        env: dict[str, object] = {}
        for name in sizes:
            env[name] = Scalar(builder.parameter(name, Constraint(Var(name))), weak=True)
        for argument in self.arguments:
            env[argument.name] = self._argument(argument)
            if isinstance(view := env[argument.name], View):
                self.tensors[argument.name] = view.tensor
        fixed = dict.fromkeys(sizes, "a size") | {a.name: "an argument" for a in self.arguments}
        return Frame(self.source, env, fixed)

    def _argument(self, argument: Argument) -> Scalar | View:
        builder = self.builder
        if argument.kind == "parameter":
            return Scalar(builder.parameter(argument.name), weak=True)
        if argument.name in builder.parameters:
            node = argument.node or self.source.tree
            self.source.refuse("E0161", node, f"{argument.name} is a size and an array")
        shape = tuple(with_derived(size, builder) for size in argument.shape)
        name = builder.tensor(argument.name, shape, argument.dtype, "input")
        return whole(name, shape, argument.dtype)

    # ---- blocks -------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt], frame: Frame, place: Place) -> None:
        for number, stmt in enumerate(body):
            self.statement(stmt, frame, place, last=number == len(body) - 1)

    def statement(self, node: ast.stmt, frame: Frame, place: Place, *, last: bool) -> None:
        match node:
            case ast.Pass() | ast.Expr(ast.Constant()):
                pass
            case ast.Assign(targets, value):
                self._assign(targets, value, frame, place, node)
            case ast.AugAssign(target, op, value):
                self._augmented(node, target, op, value, frame, place)
            case ast.AnnAssign(ast.Name(name), annotation, value) if value is not None:
                self._declared(name, annotation, frame)
                self._assign([node.target], value, frame, place, node)
            case ast.For():
                self._for(node, frame, place)
            case ast.If():
                self._if(node, frame, place)
            case ast.With([item], body):
                self.block(body, frame, replace(place, label=self._label(item, frame)))
            case ast.Assert(test):
                self._assert(test, frame, place)
            case ast.Expr(ast.Call() as call):
                self._call(call, frame, place)
            case ast.Return(None) if last and frame.source.tree.body[-1] is node:
                pass
            case _:
                self._refuse(node, frame)

    def _refuse(self, node: ast.stmt, frame: Frame) -> None:
        name, instead = _REFUSED.get(type(node), (type(node).__name__, "assignments and loops"))
        frame.source.refuse(
            "E0162",
            node,
            f"`{name}` cannot stand in a loop kernel",
            why="its statements run for index values that are known before any data are"
            if name in ("while", "break", "continue")
            else "a kernel is assignments, for loops over ranges, if, and calls of kernels",
            hint=f"instead: {instead}",
        )

    # ---- assignments --------------------------------------------------------------------------

    def _assign(
        self,
        targets: list[ast.expr],
        value: ast.expr,
        frame: Frame,
        place: Place,
        node: ast.stmt,
    ) -> None:
        if self._local_array(targets, value, frame, place, node):
            return
        expressions = Expressions(frame, self.knowledge)
        found = expressions.value(value)
        if len(targets) == 1 and isinstance(targets[0], ast.Tuple):
            self._several(targets[0], found, frame, place, node)
        elif len(targets) == 1:
            self.assigner.assign(targets[0], found, frame, place, node)
        else:
            scalar = expressions.scalar(value)
            self.assigner.together(targets, [scalar] * len(targets), frame, place, node)

    def _several(
        self, target: ast.Tuple, found: object, frame: Frame, place: Place, node: ast.stmt
    ) -> None:
        values = found if isinstance(found, tuple) else ()
        if len(values) != len(target.elts):
            frame.source.refuse(
                "E0162", node, f"{len(target.elts)} targets need as many values on the right"
            )
        if not all(isinstance(v, Scalar) for v in values):
            frame.source.refuse("E0162", node, "only numbers can be assigned several at a time")
        self.assigner.together(target.elts, values, frame, place, node)

    def _augmented(
        self,
        node: ast.AugAssign,
        target: ast.expr,
        op: ast.operator,
        value: ast.expr,
        frame: Frame,
        place: Place,
    ) -> None:
        combined = ast.copy_location(ast.BinOp(target, op, value), node)
        found = Expressions(frame, self.knowledge).value(combined)
        self.assigner.assign(target, found, frame, place, node)

    def _declared(self, name: str, annotation: ast.expr, frame: Frame) -> None:
        if meaning(frame.source, annotation) in (int, float, bool):  # as in Python: no conversion
            return
        dtype = dtype_of(Expressions(frame, self.knowledge), annotation)
        if dtype is None:
            frame.source.refuse(
                "E0161", annotation, f"{frame.source.code(annotation)} is no type", hint="weft.f64"
            )
        self.assigner.declare(name, dtype, frame)

    def _local_array(
        self,
        targets: list[ast.expr],
        value: ast.expr,
        frame: Frame,
        place: Place,
        node: ast.stmt,
    ) -> bool:
        """``name = weft.zeros(shape, dtype)``; False where it is something else."""
        made = new_array(value, Expressions(frame, self.knowledge), self.builder)
        if made is None:
            return False
        wanted = targets[0].id if isinstance(targets[0], ast.Name) else "array"
        tensor = self.builder.tensor(wanted, made.shape, made.dtype, "temp")
        view = whole(tensor, made.shape, made.dtype)
        for target in targets:
            self.assigner.assign(target, view, frame, place, node)
        if made.fill is not None:
            self.assigner.fill(view, literal(made.fill, made.dtype), frame, place, node)
        return True

    # ---- control ------------------------------------------------------------------------------

    def _for(self, node: ast.For, frame: Frame, place: Place) -> None:
        if not isinstance(node.target, ast.Name) or node.orelse:
            frame.source.refuse(
                "E0162", node, "a loop has one variable and no else", hint="for i in range(N):"
            )
        name = node.target.id
        if name in frame.fixed:
            frame.source.refuse("E0171", node.target, f"{name} is {frame.fixed[name]}")
        for turns in loop_range(node, name, Expressions(frame, self.knowledge), self.builder):
            self._turns(node, name, turns, frame, place)
        self._leave([node], frame, "it was assigned in a loop that may not have run")
        frame.env[name] = Gone(f"it is the variable of the loop at line {node.lineno}", array=True)

    def _turns(self, node: ast.For, name: str, turns: Turns, frame: Frame, place: Place) -> None:
        fixed = {**frame.fixed, name: "the variable of a loop around it"}
        inner = replace(frame, env=dict(frame.env), fixed=fixed)
        self._leave(node.body, inner, "an earlier iteration may have assigned it")
        inner.env[name] = Scalar(turns.value, weak=True)
        outside = place.where(Way(turns.when))
        if not turns.when or self.builder.is_reached(outside):
            self.block(node.body, inner, outside.inside(turns.dim, turns.bounds))

    def _leave(self, body: list[ast.stmt], frame: Frame, why: str) -> None:
        """After, or around, ``body``: what it assigns may or may not be assigned."""
        for name in frame.source.assigned(*body):
            if frame.key(name) in self.knowledge.in_memory:
                frame.env[name] = self.assigner.variable(name, frame)
            else:
                frame.env[name] = Gone(why, isinstance(frame.env.get(name), View))

    def _if(self, node: ast.If, frame: Frame, place: Place) -> None:
        decision = decide(node.test, Expressions(frame, self.knowledge))
        element = whichever(node, decision, Expressions(frame, self.knowledge))
        if element is not None:
            target, value = element
            self.assigner.assign(target, Scalar(value), frame, place, node)
            return
        if id(node) in self.knowledge.held:
            decision = self._hold(decision, node, frame, place)
        first = len(self.builder.statements)
        for ways, body in ((decision.true, node.body), (decision.false, node.orelse)):
            for there in map(place.where, ways if body else ()):
                if self.builder.is_reached(there):
                    self.block(body, replace(frame, env=dict(frame.env)), there)
        self._leave([node], frame, f"it depends on the condition at line {node.lineno}")
        guards = [w.guard for w in (*decision.true, *decision.false) if w.guard is not None]
        if self._disturbs(first, guards, place):
            self.knowledge.held.add(id(node))
            raise Restart

    def _disturbs(self, first: int, guards: list[Expr], place: Place) -> bool:
        """Whether a statement from ``first`` on changes what a later one's guard reads."""
        read = {load.source for load in loads(*guards)}
        new = self.builder.statements[first:]
        return any(
            read & {write.tensor for write in made.writes}
            for made in new
            if made is not new[-1] or len(made.dims) > len(place.dims)
        )

    def _hold(self, decision: Decision, node: ast.If, frame: Frame, place: Place) -> Decision:
        """``decision`` with guards that were evaluated before either branch."""

        def held(ways: tuple[Way, ...]) -> tuple[Way, ...]:
            return tuple(self._held(way, node, frame, place) for way in ways)

        if decision.data is not None:
            (way,) = held(decision.true)
            assert way.guard is not None
            return Decision((way,), (Way(guard=~way.guard),))
        return Decision(held(decision.true), held(decision.false) if node.orelse else ())

    def _held(self, way: Way, node: ast.If, frame: Frame, place: Place) -> Way:
        if way.guard is None:
            return way
        name = self.builder.tensor("condition", (), dtypes.bool_, "temp")
        target = Load(name, (), dtypes.bool_)
        here = place.where(Way(way.constraints))
        self.builder.emit(here, [Assignment(target, way.guard)], frame.source, node.test)
        return Way(way.constraints, target)

    def _assert(self, test: ast.expr, frame: Frame, place: Place) -> None:
        """A condition on sizes, which every call is checked for."""
        decision = decide(test, Expressions(frame, self.knowledge))
        ways = decision.true
        if len(ways) != 1 or ways[0].guard is not None or place.dims or place.domain:
            frame.source.refuse(
                "E0162",
                test,
                "assert takes one condition on sizes, outside loops and ifs",
                hint="assert N >= 2",
            )
        self.builder.assume(ways[0].constraints)

    def _label(self, item: ast.withitem, frame: Frame) -> str:
        match item.context_expr:
            case ast.Call(function, [ast.Constant(str(name))]):
                if meaning(frame.source, function) is statement and name.isidentifier():
                    return name
        frame.source.refuse(
            "E0162",
            item.context_expr,
            "`with` names statements and nothing else",
            hint='with weft.statement("init"):',
        )

    def _call(self, call: ast.Call, frame: Frame, place: Place) -> None:
        expressions = Expressions(frame, self.knowledge)
        callee = expressions.value(call.func)
        if not isinstance(callee, LoopFunction):
            frame.source.refuse(
                "E0169",
                call,
                f"{frame.source.code(call.func)} is no kernel",
                hint="decorate it with @weft.kernel; other functions have no effect here",
            )
        inner = inlined(call, callee, place, self.builder, expressions)
        self.block(callee.source.tree.body, inner, place)
