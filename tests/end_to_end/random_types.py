"""Element types of random models, as ONNX and NumPy spell them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper


def numpy_type(text: str) -> np.dtype | None:
    """The dtype of ``tensor(float16)``; None for what is no tensor of numbers that NumPy has."""
    name = text.removeprefix("tensor(").removesuffix(")").upper()
    if name not in set(TensorProto.DataType.keys()) or name in (
        "STRING",
        "COMPLEX64",
        "COMPLEX128",
    ):
        return None
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(name)))
    except (KeyError, TypeError):
        return None


def is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or (dtype.kind == "V" and "float" in dtype.name)


def rounding(dtype: np.dtype) -> float:
    """The distance from 1 to the next number of a floating type."""
    return float(ml_dtypes.finfo(dtype).eps)
