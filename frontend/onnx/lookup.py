"""Handlers of ai.onnx.ml: tables of keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.frontend.onnx.linear_models import ML
from weft.ir import dtypes
from weft.ir.operator_graph import Value


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


# ---- Handler of TfIdfVectorizer over integers; strings are numbered on the host first.


_MODES = ("TF", "IDF", "TFIDF")


@handler("TfIdfVectorizer")
def tf_idf_vectorizer(node: NodeContext) -> Results:
    x = node.input(0)
    if len(x.shape) not in (1, 2) or not x.dtype.is_integer:
        raise node.malformed("the input must be one or two dimensions of integers")
    places = node.required("ngram_indexes")
    mode = node.required("mode")
    if mode not in _MODES or not places or min(places) < 0:
        raise node.malformed(f"mode {mode!r} with {len(places)} n-grams")
    rows = node.call("reshape", x, shape=(1, *x.shape)) if len(x.shape) == 1 else x
    if rows.dtype.name != "int64":
        rows = node.call("cast", rows, to=dtypes.int64)
    width = max(places) + 1
    counts, used = _counts(node, rows, places)
    weights = node.attribute("weights") if mode != "TF" else None
    given = None
    if weights:
        if len(weights) < width:
            raise node.malformed(f"{len(weights)} weights for {width} places")
        given = node.constant(np.array(weights[:width], np.float32))
    where = node.constant(np.array(used, np.int64))
    vectors = node.call("ngram_vectors", counts, where, given, width=width, binary=mode == "IDF")
    return node.call("reshape", vectors, shape=(width,)) if len(x.shape) == 1 else vectors


def _counts(node: NodeContext, rows: Value, places: list[int]) -> tuple[Value, list[int]]:
    """(row, gram) -> count for the grams of all wanted lengths, and the grams' places."""
    shortest, longest = node.required("min_gram_length"), node.required("max_gram_length")
    pool, starts = node.attribute("pool_int64s") or [], node.required("ngram_counts")
    bounds = [*starts, len(pool)]
    if sorted(bounds) != bounds or bounds[0] < 0:
        raise node.malformed(f"ngram_counts {starts} of a pool of {len(pool)}")
    parts: list[Value] = []
    used: list[int] = []
    first = 0
    for length in range(1, len(starts) + 1):
        tokens = pool[bounds[length - 1] : bounds[length]]
        number = len(tokens) // length
        if shortest <= length <= longest and number:
            grams = np.array(tokens[: number * length], np.int64).reshape(number, length)
            skips = node.required("max_skip_count")
            parts.append(node.call("ngram_counts", rows, node.constant(grams), skips=skips))
            used += places[first : first + number]
        first += number
    if first > len(places):
        raise node.malformed(f"{len(places)} places for {first} n-grams")
    if not parts:
        empty = np.zeros((0, 1), np.int64)
        parts.append(node.call("ngram_counts", rows, node.constant(empty), skips=0))
    return parts[0] if len(parts) == 1 else node.call("concat", *parts, axis=1), used
