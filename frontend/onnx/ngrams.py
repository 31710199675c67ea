"""The handler of TfIdfVectorizer, for integers."""

from __future__ import annotations

import itertools

import numpy as np

from weft import dtypes
from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.graph.operator_graph import Value


@handler("TfIdfVectorizer", since=9)
def tf_idf_vectorizer(node: NodeContext) -> Results:
    x = node.input(0)
    mode = node.required("mode")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise node.malformed(f"unknown mode {mode!r}")
    columns = np.array(node.required("ngram_indexes"), np.int64)
    if len(x.shape) > 2 or not columns.size or columns.min() < 0:
        raise node.malformed(f"an input of shape {x.shape} and ngram_indexes {columns[:9]}")
    rows = x if len(x.shape) == 2 else node.call("reshape", x, shape=(1, *(x.shape or (1,))))
    width = int(columns.max()) + 1
    counts = node.call("fill", shape=(rows.shape[0], width), value=0, dtype=dtypes.int64)
    lowest, highest = node.required("min_gram_length"), node.required("max_gram_length")
    at = 0
    for length, grams in enumerate(_grams(node, x), 1):
        if lowest <= length <= highest and len(grams):
            given = (
                node.constant(grams.astype(x.dtype.numpy)),
                node.constant(columns[at : at + len(grams)]),
            )
            skips = node.required("max_skip_count")
            counts = node.call("count_ngrams", rows, counts, *given, most_skipped=skips)
        at += len(grams)
    if at != len(columns):
        raise node.malformed(f"{at} n-grams for {len(columns)} ngram_indexes")
    weights = np.array(node.attribute("weights", []), np.float32)
    if mode == "TF" or not weights.size:
        weights = np.ones(width, np.float32)
    if len(weights) != width:
        raise node.malformed(f"{len(weights)} weights for {width} columns")
    result = node.call("weight_counts", counts, node.constant(weights), as_flags=mode == "IDF")
    return result if len(x.shape) == 2 else node.call("reshape", result, shape=(width,))


def _grams(node: NodeContext, x: Value) -> list[np.ndarray]:
    """The pool's n-grams (gram, n) for n = 1, 2, …."""
    if node.attribute("pool_strings"):
        raise node.unsupported("strings")
    pool = np.array(node.attribute("pool_int64s", []), np.int64)
    starts = [*node.required("ngram_counts"), len(pool)]
    if any(not 0 <= a <= b <= len(pool) for a, b in itertools.pairwise(starts)):
        raise node.malformed(f"ngram_counts {starts[:-1]} in a pool of {len(pool)}")
    parts = [pool[a:b] for a, b in itertools.pairwise(starts)]
    if any(len(part) % n for n, part in enumerate(parts, 1)):
        raise node.malformed(f"ngram_counts {starts[:-1]} cut an n-gram")
    return [part.reshape(-1, n) for n, part in enumerate(parts, 1)]
