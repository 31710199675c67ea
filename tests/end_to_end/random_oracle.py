"""What single nodes give: onnxruntime's answer, or that of ``onnx.reference`` where it has none.

A node runs alone, on the values that it reads, so that nothing is fused. How far results may lie
from these answers is measured: the same nodes run again, each on inputs that are off by as much as
one rounding of their type.
"""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.end_to_end.oracle_faults import FAULTS, REFERENCE_FAULTS, faulty
from tests.end_to_end.random_types import is_float, numpy_type, rounding

os.environ["ALLOW_RELEASED_ONNX_OPSET_ONLY"] = "0"  # kernels of old operators serve newer opsets

IR_VERSION = 13
STANDARD = "?bhilqBHILQefdO"  # types of arrays that onnxruntime takes and gives
SAMPLES = 8

onnxruntime.set_default_logger_severity(4)

Values = Mapping[str, Any]
Run = Callable[[Values], list[Any]]


class Refused(Exception):
    """A node that cannot be part of the model."""


class Lacking(Refused):
    """onnxruntime has no kernel for the node, which may be right for all that."""


def reads_of(node: onnx.NodeProto) -> list[str]:
    """The names that ``node`` reads, those that its bodies capture among them."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        body = attribute.g
        own = {v.name for v in body.input} | {v.name for v in body.initializer}
        own |= {name for inner in body.node for name in inner.output}
        inner_reads = [n for inner in body.node for n in reads_of(inner)]
        inner_reads += [v.name for v in body.output]
        names += [n for n in inner_reads if n not in own]
    return list(dict.fromkeys(names))


def info(name: str, array: Any) -> onnx.ValueInfoProto:
    """The declaration of a value; without a type where ``array`` is None."""
    if array is None:
        return onnx.ValueInfoProto(name=name)
    element = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, element, array.shape)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Values,
    constants: Values,
    outputs: Values,
    opset: int,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "random",
        [info(n, a) for n, a in inputs.items()],
        [info(n, a) for n, a in outputs.items()],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    domains = {"": opset} | {n.domain: domain_version(n.domain, opset) for n in nodes}
    opsets = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def domain_version(domain: str, opset: int) -> int:
    """The version of a domain that goes with ``opset``: of ai.onnx.ml one of two."""
    return {"": opset, "ai.onnx.ml": 3 if opset % 2 else 5}.get(domain, 1)


def onnxruntime_session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """One thread, no graph optimisations. Raises ``Refused`` with onnxruntime's own message."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    with _own_faults():
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )


LACKING = ("NOT_IMPLEMENTED", "No Op registered", "Numpy", "not a registered")


@contextlib.contextmanager
def _own_faults() -> Iterator[None]:
    """onnxruntime's exceptions, which have no common base, as ``Refused`` or ``Lacking``."""
    try:
        yield
    except Exception as error:
        said = str(error)
        raise (Lacking if any(text in said for text in LACKING) else Refused)(said) from error


def runner(
    nodes: Sequence[onnx.NodeProto], given: Values, constants: Values, wanted: Sequence[str],
    opset: int,
) -> Run:  # fmt: skip
    """A function of the values of ``given`` that gives those of ``wanted``."""
    model = model_of(nodes, given, constants, dict.fromkeys(wanted), opset)
    try:
        if faulty(FAULTS, nodes, {**given, **constants}):
            raise Lacking("it is wrong")
        session = onnxruntime_session(model)
        kinds = [numpy_type(output.type) for output in session.get_outputs()]
        if all(_standard(a.dtype) for a in (*given.values(), *constants.values())):

            def run(values: Values) -> list[Any]:
                with _own_faults():
                    found = session.run(None, {n: values[n] for n in given})
                return [_typed(a, kind) for a, kind in zip(found, kinds, strict=True)]

            run(given)
            return run
    except Lacking:
        pass
    if faulty(REFERENCE_FAULTS, nodes, {**given, **constants}):
        raise Refused("onnx.reference is wrong")
    return _by_reference(model, given, wanted)


def _standard(dtype: np.dtype) -> bool:
    return dtype.char in STANDARD


def _typed(value: Any, dtype: np.dtype | None) -> Any:
    """An array of 8-bit floats, which onnxruntime gives as bytes, in its own type."""
    if not isinstance(value, np.ndarray | np.generic):
        return value
    array = np.asarray(value)
    return array if dtype is None or dtype == array.dtype else array.view(dtype)


def _by_reference(model: onnx.ModelProto, given: Values, wanted: Sequence[str]) -> Run:
    try:
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except Exception as error:
        raise Refused(str(error)) from error
    types = {v.name: v.type for v in inferred.graph.output}

    def run(values: Values) -> list[Any]:
        try:
            with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                warnings.simplefilter("ignore")
                evaluator = ReferenceEvaluator(model)
                found = evaluator.run(None, {n: values[n] for n in given})
        except Exception as error:
            raise Refused(f"onnx.reference: {error}") from error
        arrays = [a if isinstance(a, list) or a is None else _array(a) for a in found]
        for name, array in zip(wanted, arrays, strict=True):
            declared = types[name].tensor_type
            if not isinstance(array, np.ndarray) or not declared.elem_type:
                continue
            expected = np.dtype(helper.tensor_dtype_to_np_dtype(declared.elem_type))
            sizes = [d.dim_value if d.HasField("dim_value") else -1 for d in declared.shape.dim]
            known = declared.HasField("shape")
            if array.dtype != expected or (known and not _agree(array.shape, sizes)):
                raise Refused(f"onnx.reference gives {array.dtype}{array.shape}")
        return arrays

    return run


def _agree(shape: Sequence[int], sizes: Sequence[int]) -> bool:
    return len(shape) == len(sizes) and all(b in (a, -1) for a, b in zip(shape, sizes, strict=True))


def _array(value: Any) -> np.ndarray:
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind == "U" else array


def moved(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """``array`` with each number off by up to about one rounding, unless all are whole."""
    if not is_float(array.dtype) or not array.size:
        return array
    wide = array.astype(np.float64)
    change = rounding(array.dtype) * rng.standard_normal(array.shape)
    with np.errstate(all="ignore"):
        whole = (wide == np.floor(wide)).all()
        return array if whole else np.asarray(wide * (1 + change)).astype(array.dtype)


def noise(model: onnx.ModelProto, inputs: Values, expected: Values) -> dict[str, np.ndarray]:
    """How far each output moves where every node reads what is a rounding or two off."""
    rng = np.random.default_rng(0)
    constants = {c.name: numpy_helper.to_array(c) for c in model.graph.initializer}
    opset = next(o.version for o in model.opset_import if not o.domain)
    samples = [{**constants, **inputs} for _ in range(SAMPLES)]
    for group in groups(model.graph.node, {*constants, *inputs}):
        reads = [n for node in group for n in reads_of(node)]
        made = [n for node in group for n in node.output if n]
        reads = [n for n in dict.fromkeys(reads) if n not in made]
        fixed = {n: a for n, a in constants.items() if n in reads and not is_float(a.dtype)}
        given = {n: samples[0][n] for n in reads if n not in fixed}
        try:
            run = runner(group, given, fixed, made, opset)
            for sample in samples:
                results = run({n: moved(sample[n], rng) for n in given})
                sample.update(zip(made, results, strict=True))
        except Refused:  # a shape that depends on data: nothing can be said of what follows
            break
    return {name: _spread([s.get(name) for s in samples], a) for name, a in expected.items()}


def groups(nodes: Sequence[onnx.NodeProto], known: set[str]) -> Iterator[list[onnx.NodeProto]]:
    """Single nodes; those that hand on sequences and optionals stay with their makers."""
    makers = {name: node for node in nodes for name in node.output}
    for node in nodes:
        if hands_on(node):
            continue
        group: list[onnx.NodeProto] = []
        pending = [node]
        while pending:
            group.insert(0, last := pending.pop())
            pending += [makers[n] for n in reads_of(last) if n in makers and hands_on(makers[n])]
        unique = [n for k, n in enumerate(group) if n not in group[:k]]
        yield unique


HANDING_ON = ("Sequence", "Optional", "SplitToSequence")
ENDING = ("SequenceAt", "SequenceLength", "OptionalHasElement")


def hands_on(node: onnx.NodeProto) -> bool:
    """Whether what ``node`` gives is no tensor: a sequence or an optional."""
    return node.op_type.startswith(HANDING_ON) and node.op_type not in ENDING


def _spread(found: Sequence[Any], expected: np.ndarray) -> np.ndarray:
    spread = np.zeros(expected.shape)
    for array in found:
        if not isinstance(array, np.ndarray):
            continue
        if array.shape != expected.shape:
            return np.full(expected.shape, np.inf)
        if expected.dtype == object:
            return spread
        with np.errstate(all="ignore"):
            a, b = array.astype(np.float64), expected.astype(np.float64)
            change = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        spread = np.maximum(spread, np.where(np.isnan(change), np.inf, change))
    return spread
