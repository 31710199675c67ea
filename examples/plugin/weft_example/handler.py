"""A handler: reads a node of ONNX and calls an operator."""

import weft


@weft.onnx_handler("com.example", "HardMish", since=1)
def import_hard_mish(node: weft.NodeContext) -> object:
    scale = node.attribute("scale", 1.0)
    if scale <= 0:
        raise node.malformed(f"scale is {scale}, not positive")
    return node.call("hard_mish", node.input(0), scale=scale)
