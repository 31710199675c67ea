"""Strings: on the host, or numbered there and then moved and looked up by compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from weft.frontend.onnx.tensors import dtype_of
from weft.host.full_match import full_match
from weft.host.onnx_host import Data, Host, HostTable


def string_concat(node: Host) -> Sequence[Data]:
    """Elementwise, with broadcasting."""
    left, right = node.strings(0), node.strings(1)
    try:
        pairs = np.broadcast(left, right)
    except ValueError as error:
        raise node.failed(f"shapes {left.shape} and {right.shape} do not broadcast") from error
    return [texts([a + b for a, b in pairs], pairs.shape)]


def string_split(node: Host) -> Sequence[Data]:
    """Pieces in a new last dimension, padded with empty strings, and their numbers."""
    x = node.strings(0)
    delimiter, most = node.attribute("delimiter") or None, node.attribute("maxsplit", -1)
    pieces = [text.split(delimiter, most) for text in x.reshape(-1)]
    longest = max(map(len, pieces), default=0)
    padded = [p for row in pieces for p in [*row, *[""] * (longest - len(row))]]
    counts = np.array(list(map(len, pieces)), np.int64).reshape(x.shape)
    return [texts(padded, (*x.shape, longest)), counts]


def regex_full_match(node: Host) -> Sequence[Data]:
    x = node.strings(0)
    matches = full_match(str(node.attribute("pattern", "")), list(x.reshape(-1)), node.node.where)
    return [np.array(matches, np.bool_).reshape(x.shape)]


def string_normalizer(node: Host) -> Sequence[Data]:
    """Stop words out, then upper or lower case; never empty."""
    x = node.strings(0)
    if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
        raise node.malformed(f"strings of shape {x.shape}, not [C] or [1, C]")
    change = _CASES.get(node.attribute("case_change_action", "NONE"))
    if change is None:
        raise node.malformed("case_change_action is none of LOWER, UPPER, NONE")
    exact = bool(node.attribute("is_case_sensitive", 0))
    same: Callable[[str], str] = str if exact else str.casefold
    stops = {same(word) for word in node.attribute("stopwords") or []}
    kept = [change(t) for t in x.reshape(-1) if same(t) not in stops] or [""]
    return [texts(kept, (1, len(kept)) if x.ndim == 2 else (len(kept),))]


_CASES: dict[str, Callable[[str], str]] = {"LOWER": str.lower, "UPPER": str.upper, "NONE": str}


def cast(node: Host) -> Sequence[Data]:
    """Numbers from and to their decimal spelling."""
    x = node.array(0)
    target = node.attribute("to")
    if node.node.op_type == "CastLike":
        target = None if node.array(1).dtype.hasobject else node.array(1).dtype
    elif target == 8:
        target = None
    else:
        target = dtype_of(int(target), node.node.where).numpy
    if target is None:
        return [texts([_spelled(v) for v in x.reshape(-1)], x.shape)]
    if not x.dtype.hasobject:
        return node.itself([x])
    try:
        wide = np.array([float(text) for text in x.reshape(-1)], np.float64)
        exact = [int(text) for text in x.reshape(-1)] if target.kind in "iu" else wide
        return [np.array(exact).astype(target).reshape(x.shape)]
    except (ValueError, OverflowError) as error:
        raise node.failed(f"a string is no number: {error}") from error


def _spelled(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, np.bool_ | np.integer):
        return str(int(value)) if isinstance(value, np.integer) else str(bool(value))
    return str(np.asarray(value).astype(np.float32)[()]) if _is_small(value) else str(value)


def _is_small(value: object) -> bool:
    return np.asarray(value).dtype.itemsize < 4


def constant(node: Host) -> Sequence[Data]:
    """A Constant of strings."""
    one, many = node.attribute("value_string"), node.attribute("value_strings")
    if one is not None:
        return [texts([one], ())]
    return [texts(many, (len(many),)) if many is not None else node.attribute("value")]


def numbered(node: Host) -> Sequence[Data]:
    """An operator that only moves or compares elements, run on the strings' numbers.

    Numbers follow the strings' order, so that comparing, sorting and finding duplicates agree.
    """
    inputs = [None if x is None else np.asarray(x) for x in node.inputs]
    pool = sorted({text for x in inputs if x is not None and x.dtype.hasobject for text in x.flat})
    number = {text: index for index, text in enumerate(pool)}
    given = [_numbers(x, number) if x is not None and x.dtype.hasobject else x for x in inputs]
    results = node.itself(given)
    if node.node.op_type in ("Equal", "Shape", "Size"):
        return results
    strings = 1 if node.node.op_type == "Unique" else len(results)
    return [
        texts([pool[i] for i in r.reshape(-1)], r.shape) if position < strings else r
        for position, r in enumerate(results)
    ]


def _numbers(x: np.ndarray, number: dict[str, int], unknown: int = -1) -> np.ndarray:
    flat = [number.get(text, unknown) for text in x.reshape(-1)]
    return np.array(flat, np.int64).reshape(x.shape)


def tf_idf_vectorizer(node: Host) -> Sequence[Data]:
    """Words by their first position in the pool; the counting is compiled."""
    pool = node.attribute("pool_strings") or []
    number: dict[str, int] = {}
    for word in pool:
        number.setdefault(word, len(number))
    attributes = {k: v for k, v in node.node.attributes.items() if k != "pool_strings"}
    attributes["pool_int64s"] = [number[word] for word in pool]
    return node.itself([_numbers(node.strings(0), number)], attributes)


def label_encoder(node: Host) -> Sequence[Data]:
    """Keys and values that are strings as numbers; the looking up is compiled."""
    attributes = dict(node.node.attributes)
    x = node.array(0)
    keys = _strings_of(node, "keys")
    if x.dtype.hasobject:
        if keys is None:
            raise node.malformed("strings are looked up among keys that are none")
        number: dict[str, int] = {}
        for key in keys:
            number.setdefault(key, len(number))
        x = _numbers(x, number)
        attributes = {k: v for k, v in attributes.items() if not k.startswith("keys_")}
        attributes["keys_int64s"] = [number[key] for key in keys]
    values = _strings_of(node, "values")
    if values is None:
        return node.itself([x], attributes)
    default = node.attribute("default_string", "_Unused")
    tensor = node.attribute("default_tensor")
    if tensor is not None:
        default = str(np.asarray(tensor).reshape(-1)[0])
    attributes = {k: v for k, v in attributes.items() if not k.startswith(("values_", "default_"))}
    attributes |= {"values_int64s": list(range(len(values))), "default_int64": len(values)}
    (places,) = node.itself([x], attributes)
    known = [*values, default]
    return [texts([known[i] for i in places.reshape(-1)], places.shape)]


def _strings_of(node: Host, kind: str) -> list[str] | None:
    tensor = node.attribute(f"{kind}_tensor")
    if isinstance(tensor, np.ndarray) and tensor.dtype.hasobject:
        return [str(text) for text in tensor.reshape(-1)]
    found = node.attribute(f"{kind}_strings")
    return list(found) if found else None


def texts(items: Sequence[str], shape: tuple[int, ...]) -> np.ndarray:
    """An object array of ``items``."""
    flat = np.empty(len(items), object)
    flat[:] = items
    return flat.reshape(shape)


_MOVED = (
    "Equal", "Where", "Reshape", "Concat", "Gather", "GatherElements", "GatherND", "Squeeze",
    "Unsqueeze", "Flatten", "Transpose", "Slice", "Expand", "Tile", "Split", "Unique", "Compress",
    "ScatterElements", "ScatterND", "Shape", "Size", "Pad",
)  # fmt: skip

OPERATORS: HostTable = {
    ("", "StringConcat"): string_concat,
    ("", "StringSplit"): string_split,
    ("", "RegexFullMatch"): regex_full_match,
    ("", "StringNormalizer"): string_normalizer,
    ("", "TfIdfVectorizer"): tf_idf_vectorizer,
    ("", "Cast"): cast,
    ("", "CastLike"): cast,
    ("", "Constant"): constant,
    ("ai.onnx.ml", "LabelEncoder"): label_encoder,
} | {("", op): numbered for op in _MOVED}
