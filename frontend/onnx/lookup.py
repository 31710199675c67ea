"""Handlers of ai.onnx.ml: tables of keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.frontend.onnx.linear_models import ML


def _entries(node: NodeContext, kind: str) -> np.ndarray:
    """``keys_*`` or ``values_*`` as a one-dimensional array."""
    tensor = node.attribute(f"{kind}_tensor")
    if tensor is not None:
        data = np.asarray(tensor).reshape(-1)
        if data.dtype == object:
            raise node.unsupported("strings")
        return data
    for name, dtype in ((f"{kind}_int64s", np.int64), (f"{kind}_floats", np.float32)):
        given: Any = node.attribute(name)
        if given:
            return np.array(given, dtype)
    if node.attribute(f"{kind}_strings"):
        raise node.unsupported("strings")
    raise node.malformed(f"no {kind} are given")


@handler("LabelEncoder", domain=ML, since=2)
def label_encoder(node: NodeContext) -> Results:
    x, keys, values = node.input(0), _entries(node, "keys"), _entries(node, "values")
    if len(keys) != len(values):
        raise node.malformed(f"{len(keys)} keys for {len(values)} values")
    default = node.attribute("default_tensor")
    if default is None and values.dtype.kind == "i":
        default = node.attribute("default_int64", -1)
    elif default is None:
        default = node.attribute("default_float", -0.0)
    number = np.asarray(default).astype(values.dtype).reshape(-1)[0].item()
    given = (node.constant(keys.astype(x.dtype.numpy)), node.constant(values))
    return node.call("look_up", x, *given, default=number)


@handler("OneHotEncoder", domain=ML)
def one_hot_encoder(node: NodeContext) -> Results:
    x = node.input(0)
    categories = node.attribute("cats_int64s")
    if not categories:
        if node.attribute("cats_strings"):
            raise node.unsupported("strings")
        raise node.malformed("no categories are given")
    given = node.constant(np.array(categories, np.int64).astype(x.dtype.numpy))
    zeros = bool(node.attribute("zeros", 1))
    return node.call("one_hot_categories", x, given, unknown_is_zero=zeros)


@handler("Imputer", domain=ML)
def imputer(node: NodeContext) -> Results:
    x = node.input(0)
    kind = ("imputed_value_floats", "replaced_value_float", 0.0)
    if not x.dtype.is_float:
        kind = ("imputed_value_int64s", "replaced_value_int64", 0)
    values = node.attribute(kind[0])
    if not values:
        raise node.malformed(f"{kind[0]} is needed for {x.dtype}")
    given = node.constant(np.array(values).astype(x.dtype.numpy))
    return node.call("impute", x, given, missing=node.attribute(kind[1], kind[2]))
