"""How programs come in.

``operators`` defines operators as functions that return tensor expressions
(``operators/softmax.py`` is a good first one), ``onnx`` and ``torch`` read models into operator
graphs, which ``graph_builder`` builds node by node, ``loops`` reads plain Python functions of
affine loops into statements, ``zoo`` writes the models of ``weft run``.
"""
