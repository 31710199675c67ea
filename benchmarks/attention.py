"""The attention suite: causal attention, as an attribute, by a mask that is added or that chooses.

PyTorch's part is ``scaled_dot_product_attention``: where a model has it written out, the rows are
those of the attribute, for whoever reads them to compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import onnx
from onnx import helper

from weft.benchmarks.case import TOLERANCE, Case, Planned, model_of, random_array
from weft.benchmarks.peers.onnx_runtime import OnnxRuntime
from weft.benchmarks.peers.peer import Peer
from weft.benchmarks.peers.pytorch import Eager

PEERS: tuple[Peer, ...] = (OnnxRuntime(), Eager())
HEADS, FEATURES = 12, 64
TOKENS = (128, 512, 1024, 2048)
QUICK = (128, 512)
LEAST = float(np.finfo(np.float32).min)


def _attribute() -> list[onnx.NodeProto]:
    return [helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=1)]


def _written_out(masked: onnx.NodeProto) -> list[onnx.NodeProto]:
    """``masked`` makes "masked" of "scores"."""
    return [
        helper.make_node("Transpose", ["k"], ["turned"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "turned"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
        masked,
        helper.make_node("Softmax", ["masked"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v"], ["y"]),
    ]


def _added() -> list[onnx.NodeProto]:
    return _written_out(helper.make_node("Add", ["scores", "mask"], ["masked"]))


def _chosen() -> list[onnx.NodeProto]:
    return _written_out(helper.make_node("Where", ["kept", "scores", "never"], ["masked"]))


FORMS: dict[str, tuple[Callable[[], list[onnx.NodeProto]], float]] = {
    "causal": (_attribute, 0.0),
    "add -inf": (_added, -np.inf),
    "add least": (_added, LEAST),
    "where -inf": (_chosen, -np.inf),
}
"""Name → the nodes of the model, and what a mask has for what it rules out."""


def cases(quick: bool) -> Iterator[Planned]:
    """Every form for every number of tokens (quick: few)."""
    for tokens in QUICK if quick else TOKENS:
        for form in FORMS:
            name = _name(form, tokens)
            yield Planned(name, partial(case, form, tokens))


def _name(form: str, tokens: int) -> str:
    return f"attention {form} {HEADS}x{tokens}x{FEATURES}"


def case(form: str, tokens: int) -> Case:
    """``form`` of attention of ``tokens`` queries over as many keys."""
    nodes, never = FORMS[form]
    shape = (1, HEADS, tokens, FEATURES)
    data = {name: random_array(shape, "float32", seed) for seed, name in enumerate("qkv")}
    kept = np.tril(np.ones((tokens, tokens), bool))
    held = {
        "scale": np.array(FEATURES**-0.5, np.float32),
        "mask": np.where(kept, 0, never).astype(np.float32)[None, None],
        "kept": kept[None, None],
        "never": np.array(never, np.float32),
    }
    read = {name for node in nodes() for name in node.input}
    constants = {name: array for name, array in held.items() if name in read}
    model, inputs = model_of(
        nodes(), {**data, **constants}, {"y": (shape, np.float32)}, list(constants)
    )
    pairs = HEADS * int(kept.sum())
    return Case(
        _name(form, tokens),
        form,
        model,
        inputs,
        lambda: [exact(data["q"], data["k"], data["v"])],
        TOLERANCE["float32"],
        operations=4.0 * FEATURES * pairs,
        empty=lambda: case(form, 1),
    )


def exact(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Causal attention by its definition, in float64."""
    wide = [a.astype(np.float64) for a in (q, k, v)]
    scores = wide[0] @ wide[1].swapaxes(-1, -2) * q.shape[-1] ** -0.5
    scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True) @ wide[2])
