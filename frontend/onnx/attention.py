"""Handler of Attention."""

from __future__ import annotations

from weft import dtypes
from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.frontend.onnx.tensors import dtype_of


@handler("Attention", since=23)
def attention(node: NodeContext) -> Results:
    """Outputs are Y, present key, present value and scores; the last three are optional."""
    inputs = node.inputs(7)
    present = node.wants(1) or node.wants(2)
    heads = [node.attribute(name) for name in ("q_num_heads", "kv_num_heads")]
    if any(count is not None and count < 1 for count in heads):
        raise node.malformed(f"numbers of heads {heads}")
    mode = int(node.attribute("qk_matmul_output_mode", 0))
    if mode not in range(4):
        raise node.malformed(f"qk_matmul_output_mode is {mode}")
    window = tuple(int(node.attribute(f"{side}_window_size", -1)) for side in ("left", "right"))
    if min(window) < -1:
        raise node.malformed(f"window sizes {list(window)}")
    precision = int(node.attribute("softmax_precision", 0))
    scale = node.attribute("scale")
    results = node.call(
        "attention",
        *inputs,
        q_heads=heads[0],
        kv_heads=heads[1],
        scale=None if scale is None else float(scale),
        causal=bool(node.attribute("is_causal", 0)),
        window=window,
        softcap=float(node.attribute("softcap", 0.0)),
        precision=dtype_of(precision, node.name) if precision else dtypes.float32,
        present=present,
        scores_output=mode if node.wants(3) else None,
    )
    many = list(results) if isinstance(results, tuple) else [results]
    y, rest = many[0], many[1:]
    keys = rest[:2] if present else [None, None]
    scores = rest[-1:] if node.wants(3) else []
    return [y, *keys, *scores][: node.n_outputs]
