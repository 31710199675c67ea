"""A pass: a convolution times a constant number becomes one with other weights."""

import weft


@weft.graph_pass
def factor_into_conv(graph: weft.Graph) -> weft.Graph:
    edit = weft.GraphEdit(graph)
    for mul in graph.nodes:
        conv = edit.computes(mul, "mul") and edit.producer(mul.inputs[0])
        factor = edit.number(mul.inputs[1]) if conv else None
        if factor is not None and edit.computes(conv, "conv"):
            x, *weights = conv.inputs
            scaled = [edit.call("mul", w, factor) for w in weights]
            edit.replace(mul.outputs[0], edit.call("conv", x, *scaled, **conv.attributes))
    return edit.graph()
