"""PyTorch models of well-known architectures with random weights, for tests and measurements.

``modules`` has small ones as they are written, ``open_sizes`` says where they and those of
``transformers`` are open, ``measured`` has larger ones. All import PyTorch.
"""
