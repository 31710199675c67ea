"""ONNX import: one file of handlers per operator family."""
