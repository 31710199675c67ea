"""How programs come in: tensor expressions, operator definitions, ONNX."""
