"""ONNX models → operator graphs.

``open_model`` → ``read_model`` (protobuf to plain regions, functions inlined) → ``check_model`` →
``importer`` (a handler for each node). Handlers stand in one file for each family of operators
and see their node as ``node_context`` shows it. ``host_partition`` says what runs on the host
because its shape depends on data.
"""
