"""PyTorch's graphs → operator graphs.

``exported`` and ``aot`` take what PyTorch traced (``torch.export``, ``torch.compile``) as far as
functions of tensors without side effects, ``decompositions`` says of which operators these consist,
``importer`` calls a handler for each node. Handlers stand in one file for each family of operators,
see their node as ``context`` shows it, and need no PyTorch: ``torch_module`` alone imports it.
"""
