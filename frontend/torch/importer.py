"""FX graphs of PyTorch's operators → operator graphs: one pass over the nodes.

The graphs are functional: they write to none of their inputs. What a graph returns is computed, or
is one of its inputs or a view of one, which costs nothing (``aliases=True``).
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

import weft.frontend.torch as handlers
from weft.frontend.graph_builder import GraphBuilder
from weft.frontend.operators.sizes import SizesDiffer, unify
from weft.frontend.torch.context import HANDLERS, find_handler
from weft.frontend.torch.counted import depends_on_data, find_counting
from weft.frontend.torch.layouts import Layout, layout_of, stored_order
from weft.frontend.torch.node_context import (
    FALL_BACK,
    FxNode,
    ImportContext,
    checked_dtype,
    where,
)
from weft.frontend.torch.open_sizes import OpenSizes
from weft.frontend.torch.results import (
    Alias,
    Computed,
    Counted,
    Given,
    Imported,
    Input,
    Result,
    SizeAt,
    SizeInput,
    is_dense,
    is_getitem,
    root_of,
    view_of,
)
from weft.frontend.torch.size_places import is_open, size_places, symbols_of, told, untold
from weft.frontend.torch.tensors import array_of
from weft.frontend.torch.torch_module import torch
from weft.ir import dtypes
from weft.ir.errors import ExpressionError, InternalError, ModelError, UnsupportedError
from weft.ir.interrupts import uninterrupted
from weft.ir.operator_graph import Value
from weft.ir.scalar_expr import Expr, variable_list
from weft.ir.scalar_printer import scalar_text

# Checks of what tracing has settled.
SETTLED = frozenset({"aten._assert_tensor_metadata.default"})
DATA_SIZES = (
    "choose by a mask over the first dimensions, torch.nonzero or masked_select, or keep the size"
    ' with torch.where; torch.compile(model, backend="weft") cuts the graph there, if'
    " torch._dynamo.config.capture_dynamic_output_shape_ops is set"
)
ITEM = "aten._local_scalar_dense.default"
PLACES = 3  # of each operator, that errors name


def import_fx(
    module: Any,
    name: str,
    *,
    constants: Mapping[str, np.ndarray] | None = None,
    in_place: Mapping[int, str] | None = None,
    aliases: bool = False,
    sizes: OpenSizes | None = None,
) -> Imported:
    """The operator graph of ``module``, a ``torch.fx.GraphModule``.

    ``constants``: data of placeholders by name. ``in_place``: result number -> the placeholder that
    a call overwrites with it; all inputs stay then, else those that are read. ``sizes``: what is
    known of open sizes. Raises ``UnsupportedError``: WEFT-E0271 and E0272 with everything that Weft
    lacks, E0273 for sizes that depend on data or have to be known.
    """
    run = _run(module, constants or {}, sizes or OpenSizes())
    if run.unsupported:
        raise all_unsupported(run.unsupported)
    return run.imported(name, in_place, aliases)


def import_parts(
    modules: Sequence[Any],
    name: str,
    constants: Mapping[str, np.ndarray],
    sizes: OpenSizes,
) -> list[Imported]:
    """The same of the parts of a graph (``parts.py``), each of which gives what data decide the
    size of as long as it can get; ``sizes``: of the first."""
    known = [sizes, *(OpenSizes() for _ in modules[1:])]
    runs = [
        _run(module, constants, own, counts=True)
        for module, own in zip(modules, known, strict=True)
    ]
    unsupported = {node: error for run in runs for node, error in run.unsupported.items()}
    if unsupported:
        raise all_unsupported(unsupported)
    return [run.imported(f"{name}_{number}", None, False) for number, run in enumerate(runs, 1)]


def unsupported_nodes(module: Any, sizes: OpenSizes) -> dict[FxNode, UnsupportedError]:
    """The nodes of ``module`` that Weft does not compile, and why."""
    return _run(module, {}, sizes).unsupported


def _run(
    module: Any, constants: Mapping[str, np.ndarray], sizes: OpenSizes, counts: bool = False
) -> _Import:
    """Anew for each two sizes that turn out to be one: what came before may depend on them."""
    load_handlers()
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    sizes.declare((size, name) for node in placeholders for size, name, _, _ in told(node))
    while True:
        run = _Import(module, constants, sizes, counts)
        run.builder.reserve(node.name for node in placeholders)
        try:
            for node in module.graph.nodes:
                run.node(node)
        except _Unified:
            continue
        return run


class _Unified(Exception):
    """Two open sizes are one from now on."""


@cache
def load_own_handlers() -> None:
    """Weft's own handlers."""
    with uninterrupted():
        for found in sorted(m.name for m in pkgutil.iter_modules(handlers.__path__)):
            importlib.import_module(f"{handlers.__name__}.{found}")


def load_handlers() -> None:
    """All handlers: Weft's own, and those of installed packages."""
    load_own_handlers()
    HANDLERS.load()


def all_unsupported(found: Mapping[FxNode, UnsupportedError]) -> UnsupportedError:
    """One error that lists all of ``found``, with the first few places of each."""
    errors = list(found.values())
    unknown = [str(n.target) for n, error in found.items() if error.code == "WEFT-E0271"]
    refused = [error.what for error in errors if error.code != "WEFT-E0271"]
    what = list(dict.fromkeys(refused))
    if unknown:
        names = ", ".join(dict.fromkeys(unknown))
        what.insert(0, f"operators that Weft does not compile: {names}")
    places: dict[str, list[str]] = {}
    for node in found:
        places.setdefault(str(node.target), []).append(where(node))
    return UnsupportedError(
        errors[0].code,
        "; ".join(what),
        where="; ".join(place for each in places.values() for place in each[:PLACES]),
        why="; ".join(dict.fromkeys(error.why for error in errors if error.why)),
        hint="; ".join(dict.fromkeys(error.hint for error in errors if error.hint)),
    )


@dataclass(slots=True)
class _Import:
    module: Any
    constants: Mapping[str, np.ndarray]
    sizes: OpenSizes
    counts: bool  # whether results may have sizes that depend on data
    builder: GraphBuilder = field(default_factory=GraphBuilder)
    values: dict[FxNode, Any] = field(default_factory=dict)  # Value, tuple of them, number, None
    inputs: dict[str, Input] = field(default_factory=dict)  # by the name of the graph's input
    places: list[SizeAt] = field(default_factory=list)  # of open sizes
    given: list[Value] = field(default_factory=list)
    numbers: dict[FxNode, int] = field(default_factory=dict)  # of placeholders
    layouts: list[Layout] = field(default_factory=list)  # of outputs
    unsupported: dict[FxNode, UnsupportedError] = field(default_factory=dict)
    counted: dict[FxNode, tuple[Value | None, Value]] = field(default_factory=dict)

    def node(self, node: FxNode) -> None:
        if node.op == "output":
            return
        try:
            self.values[node] = self._value(node)
        except UnsupportedError as error:
            self.unsupported[node] = error
            self.values[node] = self._stand_in(node)
        except ExpressionError as error:
            if isinstance(error, SizesDiffer) and self.sizes.unify(*error.sizes):
                raise _Unified from error
            code = "WEFT-E0273" if is_open(node) else "WEFT-E0272"
            self.unsupported[node] = UnsupportedError(
                code, f"{node.target}: {error.what}", why=error.why, hint=FALL_BACK
            )
            self.values[node] = self._stand_in(node)

    def _value(self, node: FxNode) -> Any:
        match node.op:
            case "placeholder":
                return self._placeholder(node)
            case "get_attr":
                return self._attribute(node)
            case "call_function":
                return self._called(node)
        raise UnsupportedError("WEFT-E0271", f"{node.op} {node.target}", hint=FALL_BACK)

    def _placeholder(self, node: FxNode) -> Any:
        self.numbers[node] = len(self.numbers)
        if node.name in self.constants:
            return self.builder.initializer(node.name, self.constants[node.name])
        tensor = node.meta.get("val")
        for found, _, what, dim in told(node):
            size = self.sizes.stride(found)
            if isinstance(size, Expr):
                self.places.append(SizeAt(size, self.numbers[node], what, dim))
                self.builder.symbols.update(variable_list(size))
        if isinstance(tensor, torch().SymInt):
            return self.sizes.size(tensor)
        if isinstance(tensor, tuple | list):  # of an earlier part, which is refused
            return self._stand_in(node)
        if not isinstance(tensor, torch().Tensor):
            return tensor
        dtype, layout = checked_dtype(tensor), layout_of(tensor, self.sizes)
        order = stored_order(layout) or tuple(range(len(layout.shape)))
        value = self.builder.input(node.name, [layout.shape[d] for d in order], dtype)
        self.given.append(value)
        self.inputs[value.name] = Input(self.numbers[node], order)
        return self._transposed(value, [order.index(d) for d in range(len(order))], node)

    def _transposed(self, value: Value, perm: Sequence[int], node: FxNode) -> Value:
        if list(perm) == sorted(perm):
            return value
        attributes = {"perm": tuple(perm)}
        return self.builder.call("transpose", (value,), attributes, value.name, where(node))[0]

    def _attribute(self, node: FxNode) -> Any:
        found: Any = self.module
        for part in node.target.split("."):
            found = getattr(found, part)
        if not isinstance(found, torch().Tensor):
            raise UnsupportedError("WEFT-E0271", f"the attribute {node.target}", hint=FALL_BACK)
        checked_dtype(found)
        with torch()._subclasses.fake_tensor.unset_fake_temporarily():  # tracing may be going on
            data = array_of(found)
        return self.builder.initializer(self.builder.fresh(node.name), data)

    def _called(self, node: FxNode) -> Any:
        for source in node.all_input_nodes:
            if self.values[source] is None and isinstance(source.meta.get("val"), torch().Tensor):
                checked_dtype(source.meta["val"])  # complex, say
        arguments = torch().fx.node.map_arg(node.args, self.values.__getitem__)
        named = torch().fx.node.map_arg(node.kwargs, self.values.__getitem__)
        found = node.meta.get("val")
        if depends_on_data(node):
            return self._bounded(node, arguments, named)
        if isinstance(found, torch().SymInt | torch().SymFloat | torch().SymBool):
            return self.sizes.number(found)
        if not isinstance(node.target, torch()._ops.OpOverload):
            return self._python(node, arguments, named)
        if str(node.target) in SETTLED:
            return None
        if str(node.target) == "aten._assert_scalar.default":
            self.sizes.assume(arguments[0])
            return None
        handler = find_handler(str(node.target))
        if handler is None or node.target._schema.is_mutable:
            raise UnsupportedError("WEFT-E0271", str(node.target), hint=FALL_BACK)
        context = ImportContext(node, self.builder, self.sizes)
        with _explained(node):
            found = handler(context, *arguments, **named)
        self._check(context, found)
        return found

    def _bounded(self, node: FxNode, arguments: Any, named: Any) -> Value | None:
        """The result of ``node`` as long as it can get, and how much of it counts, for parts that
        follow; what a number is taken from for this part."""
        found: tuple[Value | None, Value] | None = None
        if self.counts and str(node.target) == ITEM:
            scalar: Value = arguments[0]
            self.counted[node] = None, scalar
            return scalar
        if self.counts and (definition := find_counting(str(node.target))) is not None:
            context = ImportContext(node, self.builder, self.sizes)
            with _explained(node):
                found = definition(context, *arguments, **named)
        if found is None:
            raise UnsupportedError(
                "WEFT-E0273",
                f"{node.target} gives a size that depends on data",
                where=where(node),
                why="no greatest size of it is known"
                if self.counts
                else "the sizes of a program follow from those of its arguments",
                hint=DATA_SIZES,
            )
        self.counted[node] = found
        return None

    def _python(self, node: FxNode, arguments: Any, named: Any) -> Any:
        """Functions of Python itself: parts of several results, arithmetic on sizes."""
        numbers = all(isinstance(a, int | float | bool) for a in arguments) and not named
        if (
            not (numbers or is_getitem(node))
            or getattr(node.target, "__module__", "") not in PYTHON
        ):
            raise UnsupportedError("WEFT-E0271", str(node.target), hint=FALL_BACK)
        return node.target(*arguments)

    def _check(self, context: ImportContext, found: Any) -> None:
        """What PyTorch says of results holds of ``found``."""
        many = [found] if isinstance(found, Value) else list(found)
        for value, result in zip(many, context.results, strict=True):
            if value is None or result is None:
                continue
            if value.dtype == result.dtype and len(value.shape) == len(result.shape):
                for size, promised in zip(value.shape, result.shape, strict=True):
                    unify(size, promised, f"the sizes of {context.target} and its result")
            if value.shape != result.shape or value.dtype != result.dtype:
                raise InternalError(
                    "WEFT-E0279",
                    f"{context.target} gives {value.dtype}{list(value.shape)},"
                    f" not {result.dtype}{list(result.shape)}",
                    where=where(context.node),
                )

    def _stand_in(self, node: FxNode) -> Any:
        """Inputs in the place of results that Weft cannot compute, so that what reads them can be
        looked at."""

        def one(tensor: Any) -> Any:
            if isinstance(tensor, torch().SymInt):
                self.sizes.declare([(tensor, node.name)])
                return self.sizes.size(tensor)
            if isinstance(tensor, torch().SymFloat):
                return Value(self.builder.fresh(node.name), (), dtypes.float64)
            if not isinstance(tensor, torch().Tensor):
                return tensor
            self.sizes.declare((n, f"{node.name}_{d}") for d, n in enumerate(tensor.shape))
            try:
                shape, dtype = tuple(map(self.sizes.size, tensor.shape)), checked_dtype(tensor)
            except UnsupportedError:
                return None
            return Value(self.builder.fresh(node.name), shape, dtype)

        value = node.meta.get("val")
        return tuple(map(one, value)) if isinstance(value, tuple | list) else one(value)

    # ---- results ----------------------------------------------------------------------------

    def imported(self, name: str, in_place: Mapping[int, str] | None, aliases: bool) -> Imported:
        (output,) = [node for node in self.module.graph.nodes if node.op == "output"]
        computed: list[Value] = []
        overwritten = {
            number: next(n for n in self.numbers if n.name == placeholder)
            for number, placeholder in (in_place or {}).items()
        }
        returned = _returns(output)
        shared = self._shared(returned) if aliases else {}
        bases: dict[FxNode, Computed] = {}
        results: list[Result] = []
        for number, node in enumerate(returned):
            base = shared.get(node)
            if base is None:
                place = overwritten.get(number, node)
                results.append(self._returned(node, computed, aliases, place))
                continue
            if base not in bases:
                found = self._returned(base, computed, False, base)
                assert isinstance(found, Computed)
                bases[base] = found
            results.append(view_of(bases[base].number, node, base, self.sizes, made=True))
        graph = self.builder.graph(name, self.given, computed)
        names = [v.name for v in graph.inputs]
        pairs = []
        for number, node in overwritten.items():
            result = results[number]
            assert isinstance(result, Computed)
            pairs.append((result.number, names.index(node.name)))
        read = {v.name for node in graph.nodes for v in node.inputs}
        read |= {v.name for v in graph.outputs}
        kept = tuple(v for v in graph.inputs if not aliases or v.name in read)
        inputs: list[Input | SizeInput] = [self.inputs[v.name] for v in kept]
        places = size_places(self.places)
        missing = untold(graph, kept, places)
        inputs += map(SizeInput, missing)
        more = tuple(Value(self._size_name(p), (p.declared, 0), dtypes.uint8) for p in missing)
        assumptions = self.sizes.assumed(symbols_of((*kept, *more)))
        graph = replace(
            graph, inputs=(*kept, *more), in_place=tuple(pairs), assumptions=assumptions
        )
        return Imported(graph, tuple(inputs), tuple(self.layouts), tuple(results), places)

    def _size_name(self, place: SizeAt) -> str:
        """What the input is called that tells the size at ``place``: as the argument that it is."""
        if place.what == "value":
            return next(str(n.name) for n, k in self.numbers.items() if k == place.number)
        return self.builder.fresh(scalar_text(place.declared))

    def _shared(self, returned: Sequence[FxNode]) -> dict[FxNode, FxNode]:
        """Of those ``returned`` that are one value, or views of one, that value: what is written to
        one of them is seen in all."""
        roots = [
            (node, root_of(node))
            for node in returned
            if isinstance(node, torch().fx.Node) and isinstance(self.values[node], Value)
        ]
        counts = Counter(root for _, root in roots)
        return {
            node: root
            for node, root in roots
            if counts[root] > 1 and root not in self.numbers and is_dense(root, self.sizes)
        }

    def _returned(
        self, node: FxNode, computed: list[Value], aliases: bool, place: FxNode
    ) -> Result:
        """``node`` as a result, which is laid out as ``place`` is."""
        if not isinstance(node, torch().fx.Node):
            return Given(node)
        if node in self.counted:
            first = len(computed)
            for one in filter(None, self.counted[node]):
                rank = len(one.shape)
                order = tuple(range(rank))
                rows = Layout(one.shape, (1,) * rank, 0, order)
                self._output(node, one, rows, computed)
            count = len(computed) - 1
            return Counted(first if count > first else None, count)
        value = self.values[node]
        if not isinstance(value, Value):
            return Given(value)
        root = self._root(node) if aliases else None
        if root is not None:
            number = self.numbers[root]
            return Alias(number) if root is node else view_of(number, node, root, self.sizes)
        self._output(node, value, layout_of(place.meta["val"], self.sizes), computed)
        return Computed(len(computed) - 1)

    def _root(self, node: FxNode) -> FxNode | None:
        """The placeholder that ``node`` is, or is a view of, if it is one."""
        root = root_of(node)
        return root if root in self.numbers else None

    def _output(self, node: FxNode, value: Value, layout: Layout, computed: list[Value]) -> None:
        """``value`` as it is stored: what is repeated once, dimensions in the order of strides."""
        builder, origin = self.builder, where(node)
        sizes = [1 if stride == 0 else n for n, stride in zip(*layout.both, strict=True)]
        if sizes != list(layout.shape):
            attributes = {"starts": [0] * len(sizes), "steps": [1] * len(sizes), "sizes": sizes}
            value = builder.call("strided_slice", (value,), attributes, node.name, origin)[0]
        value = self._transposed(value, layout.order, node)
        if self._taken(value, computed):
            value = builder.copy(value, builder.fresh(node.name), origin)
        computed.append(value)
        self.layouts.append(layout)

    def _taken(self, value: Value, computed: list[Value]) -> bool:
        """Whether ``value`` cannot itself be an output: an input, a constant, one already."""
        return value in computed or value in self.given or value.name in self.builder.data


PYTHON = ("_operator", "math", "builtins")


def _returns(output: FxNode) -> Sequence[FxNode]:
    """What the node ``output`` returns, in order."""
    (returned,) = output.args
    return returned if isinstance(returned, tuple | list) else (returned,)


@contextlib.contextmanager
def _explained(node: FxNode) -> Iterator[None]:
    """Errors inside name the node."""
    try:
        yield
    except ModelError as error:  # an index out of range among constants, say
        raise ModelError(
            error.code, f"{node.target}: {error.what}", where=where(node), why=error.why
        ) from error
