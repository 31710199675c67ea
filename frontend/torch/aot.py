"""What ``torch.compile`` hands over → compiled code, by way of AOTAutograd.

AOTAutograd traces forward and backward graphs without mutations or views that matter, puts both
back around what is compiled, and says which values the backward graph needs. Nodes that Weft does
not compile stay with PyTorch: the graph is cut around them.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from weft.frontend.torch.counted import depends_on_data, import_counted
from weft.frontend.torch.decompositions import decompositions
from weft.frontend.torch.importer import all_unsupported, import_fx, unsupported_nodes
from weft.frontend.torch.node_context import FxNode
from weft.frontend.torch.open_sizes import OpenSizes
from weft.frontend.torch.results import (
    Alias,
    Computed,
    Given,
    Imported,
    Input,
    Result,
    SizeInput,
    is_getitem,
    is_part,
)
from weft.frontend.torch.tensors import array_of, laid_out, placing
from weft.frontend.torch.torch_module import torch
from weft.ir.errors import CompileError, UnsupportedError, WeftWarning
from weft.ir.operator_graph import Graph
from weft.ir.scalar_expr import Expr
from weft.ir.size_arithmetic import evaluate

GraphModule = Any  # torch.fx.GraphModule
Program = Callable[..., Any]  # of arrays, gives an array or several
Compiler = Callable[[Graph], Program]

SPECIALISED = "a model with open sizes is compiled anew for each new size"


def compile_traced(module: GraphModule, inputs: Sequence[Any], compiler: Compiler) -> Any:
    """What Dynamo calls in place of ``module``, which it traced with ``inputs``: compiled by
    ``compiler``, forward and backward."""
    functorch = importlib.import_module("functorch.compile")
    aot_autograd = importlib.import_module("torch._dynamo.backends.common").aot_autograd

    def forward(graph: GraphModule, given: Sequence[Any]) -> Any:
        return functorch.make_boxed_func(compile_or_split(graph, compiler, given))

    def backward(graph: GraphModule, _: Sequence[Any]) -> Any:
        return functorch.make_boxed_func(compile_or_split(graph, compiler))

    return aot_autograd(
        fw_compiler=forward,
        bw_compiler=backward,
        inference_compiler=forward,
        decompositions=decompositions(),
        partition_fn=functorch.min_cut_rematerialization_partition,
    )(module, inputs)


def specialise(inputs: Sequence[Any]) -> None:
    """Make every open size of ``inputs`` the number that it is in this call. Dynamo guards it: a
    call of another size is traced anew."""
    for symbol in _open(inputs):
        int(symbol)


def _open(inputs: Sequence[Any]) -> Iterator[Any]:
    """The open sizes of ``inputs``."""
    for one in inputs:
        tensor = isinstance(one, torch().Tensor)
        sizes = (*one.shape, *one.stride(), one.storage_offset()) if tensor else (one,)
        yield from (n for n in sizes if isinstance(n, torch().SymInt))


def compile_or_split(
    module: GraphModule, compiler: Compiler, inputs: Sequence[Any] = ()
) -> Callable[..., Sequence[Any]]:
    """``module`` compiled, or where it has nodes that Weft lacks, the parts between these; one
    warning lists them. Where open sizes have to be known, those of ``inputs`` are those of the
    call from now on."""
    missing = unsupported_nodes(module, OpenSizes())
    known = [
        error
        for node, error in missing.items()
        if error.code == "WEFT-E0273" and not depends_on_data(node)
    ]
    if known and any(True for _ in _open(inputs)):
        _warn(SPECIALISED, known[0])
        specialise(inputs)
        missing = unsupported_nodes(module, OpenSizes())
    if not missing:
        return compiled_or_eager(module, compiler)
    counted = _counted(missing, compiler)
    left = {node: error for node, error in missing.items() if node not in counted}
    if left:
        _warn("left to PyTorch", all_unsupported(left))
    fused = importlib.import_module("torch.fx.passes.infra.partitioner")
    support = importlib.import_module("torch.fx.passes.operator_support")

    def supported(_: object, node: FxNode) -> bool:
        source = node.args[0] if is_getitem(node) else node
        source = source.args[0] if is_part(source) else source
        return source.op == "call_function" and source not in missing and node not in missing

    partitioner = fused.CapabilityBasedPartitioner(
        module, support.create_op_support(supported), allows_single_node_partition=True
    )
    found = [p for p in partitioner.propose_partitions() if _computes(p.nodes)]
    whole = partitioner.fuse_partitions(found, prefix="weft_")
    for name, part in list(whole.named_children()):
        if name.startswith("weft_"):
            delattr(whole, name)
            setattr(whole, name, _single(compiled_or_eager(part, compiler), part))
    for node, call in counted.items():
        name = f"weft_{node.name}"
        setattr(whole, name, call)
        node.args, node.kwargs = tuple(node.all_input_nodes), {}
        node.op, node.target = "call_module", name
    whole.recompile()
    return whole  # type: ignore[no-any-return]


def _counted(nodes: Iterable[FxNode], compiler: Compiler) -> dict[FxNode, Callable[..., Any]]:
    """Those of ``nodes`` whose results have sizes that depend on data, and that Weft computes,
    compiled."""
    found: dict[FxNode, Callable[..., Any]] = {}
    for node in nodes:
        try:
            program = import_counted(node) if depends_on_data(node) else None
            if program is not None:
                found[node] = program.calling(compiler(program.graph))
        except CompileError as error:
            _warn("left to PyTorch", error)
    return found


def _computes(nodes: Sequence[FxNode]) -> bool:
    """Whether ``nodes`` are more than views, which cost PyTorch nothing."""
    return not all(is_part(node) for node in nodes)


def _single(call: Callable[..., Sequence[Any]], part: GraphModule) -> Callable[..., Any]:
    """``call`` as the part of a graph: what is no tuple there is none here."""
    (output,) = [node for node in part.graph.nodes if node.op == "output"]
    if isinstance(output.args[0], tuple | list):
        return call
    return lambda *tensors: call(*tensors)[0]


def compiled_or_eager(module: GraphModule, compiler: Compiler) -> Callable[..., Sequence[Any]]:
    """``module``, all of whose nodes Weft knows, compiled; as it is, with a warning, where Weft
    refuses what they make together."""
    sizes = OpenSizes()
    imported = import_fx(module, "graph", aliases=True, sizes=sizes)
    try:
        sizes.guard()
        program = compiler(imported.graph) if imported.graph.outputs else None
    except CompileError as error:
        _warn("a graph is left to PyTorch", error)
        return lambda *tensors: _many(module(*tensors))
    return calling(imported, program)


def _many(results: Any) -> Sequence[Any]:
    return results if isinstance(results, tuple | list) else (results,)


def _warn(what: str, error: CompileError | UnsupportedError) -> None:
    text = f"{what}: {error.what}" + (f"\n  where: {error.where}" if error.where else "")
    warnings.warn(text, WeftWarning, stacklevel=3)


def calling(imported: Imported, program: Program | None) -> Callable[..., Sequence[Any]]:
    """From tensors to the results of ``imported``: computed by ``program`` where they are."""
    given = [i for i in imported.inputs if isinstance(i, Input)]
    places = [(i.number, i.order, i.order != tuple(sorted(i.order))) for i in given]
    told = [i.place for i in imported.inputs if isinstance(i, SizeInput)]
    placed = placing(imported.layouts)

    def call(*tensors: Any) -> Sequence[Any]:
        sizes = imported.sizes_of(tensors)
        arrays = [
            array_of(tensors[k]).transpose(order) if permuted else array_of(tensors[k])
            for k, order, permuted in places
        ]
        arrays += [np.empty((place.of(tensors), 0), np.uint8) for place in told]
        found: Any = () if program is None else program(*arrays)
        made: Sequence[np.ndarray] = (found,) if isinstance(found, np.ndarray) else found
        computed = [place(array) for place, array in zip(placed(sizes), made, strict=True)]
        return [_result(result, tensors, computed, sizes) for result in imported.results]

    return call


def _result(
    result: Result,
    tensors: Sequence[Any],
    computed: list[Any],
    sizes: Mapping[str, int],
) -> Any:
    match result:
        case Given(Expr() as size):
            return evaluate(size, sizes)
        case Given(value):
            return value
        case Alias(number, None):
            return tensors[number]
        case Alias(number, own, whole, made):
            assert own is not None and whole is not None
            layout, of = own.at(sizes), whole.at(sizes)
            source = laid_out(computed[number] if made else tensors[number], of)
            offset = source.storage_offset() + layout.offset
            return source.as_strided(layout.shape, layout.strides, offset)
        case Computed(number):
            return computed[number]
    raise AssertionError(result)
