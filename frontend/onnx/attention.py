"""Handler of Attention."""

from __future__ import annotations

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.frontend.onnx.tensors import dtype_of
from weft.ir import dtypes


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


@handler("LinearAttention", since=27)
def linear_attention(node: NodeContext) -> Results:
    """``chunk_size`` is a hint, for which there is no use."""
    rule = str(node.attribute("update_rule", "gated_delta"))
    if rule not in ("linear", "gated", "delta", "gated_delta"):
        raise node.malformed(f"update_rule is {rule!r}")
    inputs = node.inputs(6)
    for index, name, needed in ((4, "decay", "gated" in rule), (5, "beta", "delta" in rule)):
        if (inputs[index] is not None) != needed:
            raise node.malformed(f"update_rule {rule!r} and {name} do not go together")
    q_heads, kv_heads = int(node.required("q_num_heads")), int(node.required("kv_num_heads"))
    if min(q_heads, kv_heads) < 1:
        raise node.malformed(f"numbers of heads {[q_heads, kv_heads]}")
    scale = float(node.attribute("scale", 0.0)) or None
    results = node.call(
        "linear_attention", *inputs, q_heads=q_heads, kv_heads=kv_heads, scale=scale
    )
    return results[: node.n_outputs]
