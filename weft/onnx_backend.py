"""Weft behind ``onnx.backend.base.Backend``, the ONNX community's own interface.

rep = weft.onnx_backend.prepare(model, "CPU")
outputs = rep.run(inputs)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

from weft.driver.compiler import compile_graph
from weft.host.onnx_model import OnnxModel, load_model
from weft.host.staging import CompileGraph
from weft.ir.errors import UnsupportedError

# Operators whose results are random draws. This interface exists to compare results.
RANDOM = frozenset(
    {
        "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
        "RandomUniformLike",
    }
)  # fmt: skip


class WeftRep(BackendRep):  # type: ignore[misc]
    """A prepared model; ``run`` takes inputs in order, or by name, and returns outputs in order."""

    def __init__(self, model: OnnxModel) -> None:
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """Outputs for ``inputs``: an array, a sequence of arrays in order, or arrays by name."""
        if isinstance(inputs, np.ndarray | np.generic):
            inputs = [inputs]
        try:
            if isinstance(inputs, Mapping):
                results = tuple(self.model.run(inputs).values())
            else:
                results = self.model.outputs(*inputs)
        except UnsupportedError as error:
            raise BackendIsNotSupposedToImplementIt(str(error)) from error
        return namedtupledict("Outputs", self.model.output_names)(*results)


class WeftBackend(Backend):  # type: ignore[misc]
    """What Weft lacks raises ``BackendIsNotSupposedToImplementIt``; nothing else does."""

    compile_graph: CompileGraph = staticmethod(compile_graph)

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> WeftRep:
        """``model`` compiled for ``device``."""
        if not cls.supports_device(device):
            raise BackendIsNotSupposedToImplementIt(f"device {device}")
        drawn = sorted({node.op_type for node in model.graph.node} & RANDOM)
        if drawn:
            raise BackendIsNotSupposedToImplementIt(
                f"{', '.join(drawn)}: ONNX defines no generator, so there is nothing to compare; "
                "weft.compile takes such models"
            )
        try:
            return WeftRep(load_model(model, cls.compile_graph))
        except UnsupportedError as error:
            raise BackendIsNotSupposedToImplementIt(str(error)) from error

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> Any:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> Any:
        """One node on its own, at the newest opset that onnx knows (or ``opset=``)."""
        arrays = [np.asarray(x) for x in inputs]
        names = [name for name in node.input if name]
        typed = [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in zip(names, arrays, strict=True)
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], node.op_type or "node", typed, outputs)
        opset = kwargs.pop("opset", onnx.defs.onnx_opset_version())
        imports = [onnx.helper.make_opsetid(node.domain, opset)]
        model = onnx.helper.make_model(graph, opset_imports=imports)
        return cls.prepare(model, device, **kwargs).run(dict(zip(names, arrays, strict=True)))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.partition(":")[0] == "CPU"


is_compatible = WeftBackend.is_compatible
prepare = WeftBackend.prepare
run_model = WeftBackend.run_model
run_node = WeftBackend.run_node
supports_device = WeftBackend.supports_device
