"""ONNX models as callables: what runs on the host around compiled segments.

``model`` is what users hold, ``onnx_model`` interprets regions over any compiler of graphs,
``staging`` runs one whose shapes depend on data (``data_sizes``: what is known of those between its
parts). Control flow, sequences and strings have a file
each.
"""
