"""How programs come in.

``operators`` defines operators as functions that return tensor expressions
(``operators/softmax.py`` is a good first one), ``onnx`` reads models into operator graphs,
``loops`` reads plain Python functions of affine loops into statements, ``zoo`` writes the models
of ``weft run``.
"""
