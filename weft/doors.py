"""Doors: how what is defined outside of Weft comes in. ``docs/extending.md`` shows each of them.

    @weft.operator          a function of tensor expressions, under a name that handlers call
    @weft.onnx_handler      what imports an ONNX node
    @weft.torch_handler     what imports a call of a PyTorch operator
    @weft.graph_pass        a pass over operator graphs, for ``Options(passes=("name",))``
    @weft.move              a step of schedules, which becomes a method of theirs
    @weft.seed              a schedule for programs of a kind, for ``Options(seeds=("name",))``
    @weft.provider          what runs subgraphs, a library say, for ``weft.place``
    weft.register(record)   a processor, an instruction or an accelerator, by its name

Packages register the same by entry points: operators and handlers in the group ``weft.operators``,
the others each in one of their own, ``weft.passes`` say. ``weft/ir/registry.py`` tells when these
are loaded, and what two definitions of one name mean.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction
from typing import Any, TypeVar, overload

from weft.accel.machines.named import register_machine
from weft.codegen.machines.named import register_target
from weft.codegen.target import Cpu
from weft.driver.providers import register_provider
from weft.driver.schedule_value import register_move
from weft.driver.seeds import register_seed
from weft.driver.targets import register_instruction
from weft.driver.user_passes import register_pass
from weft.frontend.onnx.context import Handler, register_handler
from weft.frontend.onnx.importer import load_own_handlers
from weft.frontend.operators.registry import register_operator, taking_tensors
from weft.frontend.torch.context import HANDLERS as TORCH_HANDLERS
from weft.frontend.torch.context import Handler as TorchHandler
from weft.frontend.torch.importer import load_own_handlers as load_torch_handlers
from weft.ir.accelerator import Accelerator
from weft.ir.errors import CompileError
from weft.ir.instruction import Instruction
from weft.ir.registry import Place, calling

F = TypeVar("F", bound=Callable[..., Any])


def _decorator(
    given: object,
    replace: bool,
    register: Callable[[str, Any, Place, bool], object],
    change: Callable[[Any], Any] = lambda function: function,
) -> Any:
    """``given``: the function, None or its name: with and without parentheses. What is registered
    and stays under the function's name is what ``change`` makes of it."""
    place = calling(2)

    def decorate(function: F) -> F:
        name = given if isinstance(given, str) else getattr(function, "__name__", "")
        made: F = change(function) if isfunction(function) else function
        register(name, made, place, replace)
        return made

    return decorate if given is None or isinstance(given, str) else decorate(given)  # type: ignore[type-var]


@overload
def operator(definition: F, /) -> F: ...
@overload
def operator(name: str | None = None, /, *, replace: bool = False) -> Callable[[F], F]: ...
def operator(definition: Any = None, /, *, replace: bool = False) -> Any:
    """Register an operator: ``definition(*tensors, **attributes)`` returns tensor expressions.

    ::

        @weft.operator
        def hard_mish(x: weft.Tensor) -> weft.Tensor:
            return weft.compute(x.shape, lambda *i: x[i] * …)

    ``hard_mish(x)`` of a tensor gives a tensor (of anything else ``ExpressionError``, WEFT-E0106);
    handlers call it by its name, or by ``name``, the first argument of the decorator:
    ``node.call("hard_mish", x)``. An optional input that is absent is None. Raises
    ``CompileError``: WEFT-E0005 where the name is taken (with ``replace=True`` this definition
    counts instead), E0006 for what is no function.
    """
    return _decorator(definition, replace, register_operator, taking_tensors)


@overload
def graph_pass(function: F, /) -> F: ...
@overload
def graph_pass(name: str | None = None, /, *, replace: bool = False) -> Callable[[F], F]: ...
def graph_pass(function: Any = None, /, *, replace: bool = False) -> Any:
    """Register a pass, a ``function`` from operator graph to operator graph, under its name or
    ``name``: ``Options(passes=("name",))`` has it run, before Weft's own. (A function alone needs
    no name: ``Options(passes=(function,))``.)

    Inputs and outputs stay; ``weft.GraphEdit`` has what most passes need. Raises ``CompileError``:
    WEFT-E0005 where the name is taken (with ``replace=True`` this definition counts instead), E0006
    for what is no function.
    """
    return _decorator(function, replace, register_pass)


@overload
def move(function: F, /) -> F: ...
@overload
def move(name: str | None = None, /, *, replace: bool = False) -> Callable[[F], F]: ...
def move(function: Any = None, /, *, replace: bool = False) -> Any:
    """Register a step of schedules: a ``function`` of a ``weft.Schedule`` and of literals that
    gives another one, or a tree (``weft/ir/schedule_tree.py``) for the same statements.

    ::

        @weft.move
        def wavefront(s: weft.Schedule, outer: str, inner: str) -> weft.Schedule:
            return s.skew(inner, outer).skew(outer, inner).parallel(inner)

    It is a method of every schedule, ``s.wavefront("t", "i")``, under its own name or ``name``, and
    one step of its script. What it gives is proved as any step is, against the dependences of the
    program; what it asks for itself, it refuses by raising ``weft.IllegalScheduleError``. Raises
    ``CompileError``: WEFT-E0005 where the name is taken (with ``replace=True`` this definition
    counts instead), E0006 for what cannot be a method.
    """
    return _decorator(function, replace, register_move)


@overload
def seed(function: F, /) -> F: ...
@overload
def seed(name: str | None = None, /, *, replace: bool = False) -> Callable[[F], F]: ...
def seed(function: Any = None, /, *, replace: bool = False) -> Any:
    """Register a schedule for programs of a kind: a ``function`` of a ``weft.Schedule`` in the
    order of the source, whose ``scop`` says what the program reads and writes, of the machine's
    record (``weft/ir/machine.py``) and of ``choose``, that gives another schedule, or None where it
    has nothing to say.

    ::

        @weft.seed
        def rows(s, machine, choose):
            if len(s.scop.statements) != 1 or len(s.scop.statements[0].dims) != 2:
                return None
            (x,), (i, j) = s.scop.statements, s.scop.statements[0].dims
            tile = choose("rows", (16, 32, 64), 32)
            return s.nest(x.name, {"i_t": f"{i} // {tile}", "j": j, "i_p": f"{i} % {tile}"})

    ``Options(seeds=("rows",))`` asks it, under its own name or ``name``, and takes what it gives
    where that is estimated to cost least, which it may without being faster: docs/extending.md
    times both. What ``choose`` is asked is a decision of ``Executable.plan``. A step that is
    refused means that the seed does not apply. Raises ``CompileError``: WEFT-E0005 where the name
    is taken (with ``replace=True`` this definition counts instead), E0006 for what is no function.
    """
    return _decorator(function, replace, register_seed)


@overload
def provider(function: F, /) -> F: ...
@overload
def provider(name: str | None = None, /, *, replace: bool = False) -> Callable[[F], F]: ...
def provider(function: Any = None, /, *, replace: bool = False) -> Any:
    """Register what runs subgraphs in Weft's place: a ``function`` of a ``weft.Subgraph`` that
    gives something callable on arrays, or a ``weft.Runner``, or None where it does not take it.

    ::

        @weft.provider
        def products(part: weft.Subgraph):
            (node, *others), edit = part.graph.nodes, weft.GraphEdit(part.graph)
            if others or len(part.graph.inputs) != 2 or not edit.computes(node, "matmul"):
                return None
            return np.matmul

    ``weft.place`` asks it, under its own name or ``name``, where its ``providers`` have that.
    docs/providers.md says what it is held to. Raises ``CompileError``: WEFT-E0005 where the name is
    taken (with ``replace=True`` this definition counts instead), E0006 for what is no function.
    """
    return _decorator(function, replace, register_provider)


def onnx_handler(
    domain: str, op_type: str, since: int = 1, *, replace: bool = False
) -> Callable[[Handler], Handler]:
    """Register what imports ``op_type`` of ``domain`` ("" is ONNX's own) from version ``since`` of
    the domain on, until a handler with a later one takes over.

    ::

        @weft.onnx_handler("com.example", "HardMish", since=1)
        def import_hard_mish(node: weft.NodeContext):
            return node.call("hard_mish", node.input(0))

    ``NodeContext`` says what a handler sees of the node; it returns the node's results in order.
    Raises ``CompileError``: WEFT-E0005 where there is a handler since that version (with
    ``replace=True`` this one counts instead), E0006 for what names no operator of ONNX.
    """
    place = calling(1)
    named = isinstance(domain, str) and isinstance(op_type, str) and op_type
    if not named or isinstance(since, bool) or not isinstance(since, int) or since < 1:
        raise CompileError(
            "WEFT-E0006",
            f"there is no handler for {domain!r}, {op_type!r}, since={since!r}",
            where=place.text,
            hint='@weft.onnx_handler("com.example", "HardMish", since=1), say',
        )
    load_own_handlers()

    def register(function: Handler) -> Handler:
        if not callable(function):
            raise CompileError(
                "WEFT-E0006",
                f"the handler of {op_type} is a {type(function).__name__}, not a function",
                where=place.text,
            )
        key = ("" if domain == "ai.onnx" else domain, op_type, since)
        register_handler(key, function, place, replace)
        return function

    return register


def torch_handler(target: str, *, replace: bool = False) -> Callable[[TorchHandler], TorchHandler]:
    """Register what imports calls of ``target``, an overload of a PyTorch operator,
    "mylib.hard_mish.default", or all of an operator's, "mylib.hard_mish".

    ::

        @weft.torch_handler("mylib.hard_mish")
        def import_hard_mish(node, x):
            return node.call("hard_mish", x)

    After the node (docs/pytorch.md) come the operator's own arguments: tensors as values of the
    graph. Raises ``CompileError``: WEFT-E0005 where there is a handler of that name (with
    ``replace=True`` this one counts instead), E0006 for what is no function or names no operator.
    """
    place = calling(1)
    if not isinstance(target, str) or "." not in target:
        raise CompileError(
            "WEFT-E0006",
            f"there is no handler for {target!r}",
            where=place.text,
            hint='@weft.torch_handler("mylib.hard_mish"), say',
        )
    load_torch_handlers()

    def register(function: TorchHandler) -> TorchHandler:
        if not callable(function):
            raise CompileError(
                "WEFT-E0006",
                f"the handler of {target} is a {type(function).__name__}, not a function",
                where=place.text,
            )
        TORCH_HANDLERS.add(target, function, place, replace)
        return function

    return register


def register(
    record: Cpu | Instruction | Accelerator, name: str | None = None, *, replace: bool = False
) -> None:
    """Give a name to ``record``, by default its own: what it is decides where.

    A ``weft.Cpu`` is a processor for ``target="name"`` (and ``WEFT_TARGET``, ``weft targets``); a
    ``weft.Instruction`` is for ``Options(instructions=("name",))``; a ``weft.hardware.Accelerator``
    for ``target="name"``, and for files of its streams. Raises ``CompileError``: WEFT-E0005 where
    the name is taken (with ``replace=True`` this record counts instead), E0006 for another kind of
    thing.
    """
    place = calling(1)
    for kind, enter in _RECORDS.items():
        if isinstance(record, kind):
            return enter(name or record.name, record, place, replace)
    raise CompileError(
        "WEFT-E0006",
        f"a {type(record).__name__} cannot be registered",
        where=place.text,
        hint="weft.Cpu, weft.Instruction or weft.hardware.Accelerator; functions have decorators",
    )


_RECORDS: dict[type, Callable[[str, object, Place, bool], None]] = {
    Cpu: register_target,
    Instruction: register_instruction,
    Accelerator: register_machine,
}
