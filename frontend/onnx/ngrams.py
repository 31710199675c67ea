"""Handler of TfIdfVectorizer over integers; strings are numbered on the host first."""

from __future__ import annotations

import numpy as np

from weft import dtypes
from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.graph.operator_graph import Value

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
