"""What the operator definitions make of whole models is what onnxruntime makes of them."""

import numpy as np
import pytest

from weft.frontend.onnx.importer import import_model
from weft.frontend.zoo.registry import MODELS
from weft.ir.graph_interpreter import interpret_graph


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_imported_models_mean_what_onnxruntime_computes(name):
    onnxruntime = pytest.importorskip("onnxruntime")
    model, inputs = MODELS[name].build(), MODELS[name].seeded_inputs(3)
    if name != "minilm":
        inputs = _smaller(model, inputs)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    graph = import_model(model)
    results = interpret_graph(graph, [inputs[value.name] for value in graph.inputs])
    for result, expected in zip(results, session.run(None, inputs), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)


def _smaller(model, inputs):
    """The middle of the images, and ``model`` to go with it: interpreters are slow."""
    for dim in model.graph.input[0].type.tensor_type.shape.dim[2:]:
        dim.dim_value = 96
    return {name: image[:, :, 64:160, 64:160] for name, image in inputs.items()}
