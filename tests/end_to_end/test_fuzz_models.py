"""A few random ONNX models against onnxruntime; ``fuzz_models`` runs many."""

import warnings

import numpy as np
import pytest
from onnx import defs

try:
    import onnxruntime  # noqa: F401
except ImportError:
    warnings.warn("random models are NOT compared: onnxruntime is missing", stacklevel=1)
    pytest.skip("onnxruntime is not installed: pip install 'weft[peers]'", allow_module_level=True)

from tests.end_to_end.fuzz_models import check, compare, outcome, smaller
from tests.end_to_end.random_models import Growing
from tests.end_to_end.random_nodes import OPSETS, attempt, random_model
from tests.end_to_end.random_operators import OPERATORS
from weft.frontend.onnx.context import HANDLERS
from weft.frontend.onnx.host_partition import HOST_OPERATORS
from weft.frontend.onnx.importer import load_handlers

SEEDS = range(8)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_random_model(seed):
    check(random_model(seed), threads=1 + seed % 2)


def test_every_operator_that_weft_imports_is_there():
    """Those with handlers, those of the host, and those that the standard defines by others."""
    load_handlers()
    handled = {(domain, name) for domain, name, _ in HANDLERS.names()}
    imported = {*handled, *(("", name) for name in HOST_OPERATORS), ("", "If")}
    for schema in defs.get_all_schemas():
        defined = schema.has_function or schema.has_context_dependent_function
        imported |= {(schema.domain, schema.name)} if defined and not schema.deprecated else set()
    assert imported - set(OPERATORS) == {("com.microsoft", "QLinearReduceMean")}  # has no oracle


@pytest.mark.parametrize("domain, name", sorted(OPERATORS))
def test_every_operator_is_made(domain, name):
    if domain != "com.microsoft" and not defs.has(name, domain):
        pytest.skip("newer than the installed onnx")
    for seed in range(200):
        rng = np.random.default_rng(seed)
        g = Growing(rng, opset=int(rng.choice(OPSETS)))
        if attempt(g, OPERATORS[domain, name]):
            break
    assert name in {node.op_type for node in g.nodes}


def test_the_same_seed_gives_the_same_model():
    first, second = random_model(3), random_model(3)
    assert first.model.SerializeToString() == second.model.SerializeToString()
    assert all((first.inputs[n] == second.inputs[n]).all() for n in first.inputs)


def test_models_have_twenty_nodes():
    assert all(20 <= len(random_model(seed).model.graph.node) < 40 for seed in SEEDS)


def test_a_wrong_answer_is_noticed_and_made_small():
    case = next(
        case for case in map(random_model, range(100))
        if sum(a.dtype == np.float32 and a.size > 0 for a in case.expected.values()) > 1
    )  # fmt: skip
    got = {name: array.copy() for name, array in case.expected.items()}
    compare(case, got)
    name = [n for n, a in got.items() if a.dtype == np.float32 and a.size][-1]
    got[name].flat[-1] += 0.5
    with pytest.raises(AssertionError, match=name):
        compare(case, got)
    small = smaller(case, lambda part: name in part.expected)
    (node,) = small.model.graph.node
    assert name in node.output
    assert outcome(small, 1)[0] == "good"
