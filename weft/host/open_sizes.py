"""An ONNX model compiled once for all of its open sizes, and what that takes for granted.

The program computes the model for sizes that keep its conditions: what its nodes need to be equal,
positive or divisible. ONNX allows more, a size of 1 that broadcasts say: such a call is served by
code for its sizes alone (``staging.py``), or is wrong by ONNX, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from weft.frontend.onnx.importer import import_region
from weft.frontend.onnx.node_context import NeedsHost, NeedsValue
from weft.frontend.onnx.onnx_graph import Region
from weft.frontend.size_symbols import SizeSymbols
from weft.host.staging import NOT_FITTING, CompileGraph, Executable
from weft.ir.errors import CallError, CompileError
from weft.ir.operator_graph import Value
from weft.ir.scalar_affine import Range


@dataclass(frozen=True, slots=True)
class OpenProgram:
    """``executable`` computes the outputs of a model from ``inputs``, for sizes that keep its
    ``conditions``, which are texts about the model's own names."""

    executable: Executable
    inputs: tuple[str, ...]
    conditions: tuple[str, ...]

    def run(self, given: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray] | CallError:
        """The outputs by name; or the error that names the condition which these sizes break."""
        try:
            return self.executable.run(given)
        except CallError as error:
            if error.code not in NOT_FITTING:
                raise
            return error


def compile_open(
    region: Region,
    values: Mapping[str, Value],
    ranges: Mapping[str, Range],
    compile_graph: CompileGraph,
) -> OpenProgram | str:
    """``region`` as one program for all sizes of its inputs' ``values`` within ``ranges``; or why
    there is none."""
    sizes = SizeSymbols()
    for name, (low, high) in ranges.items():
        sizes.open(name, low, high)
    try:
        graph = import_region(region, values, sizes=sizes)
        executable = compile_graph(graph)
    except NeedsHost:
        raise
    except NeedsValue as stop:
        return f"{stop.name!r}, on which shapes depend, is not known before a call"
    except CompileError as error:
        return " ".join(filter(None, (error.what, error.where and f"({error.where})")))
    return OpenProgram(executable, tuple(v.name for v in graph.inputs), sizes.conditions())
