"""The gemm suite: matrix products of every kind, each with a known and an unknown right side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from weft.benchmarks.case import (
    TOLERANCE,
    Case,
    Planned,
    aligned,
    one_node,
    operands,
    outputs_of,
    random_array,
)
from weft.benchmarks.peers.onnx_runtime import OnnxRuntime
from weft.benchmarks.peers.peer import Peer, Prepared, Unfit
from weft.benchmarks.peers.pytorch import Eager, OneDnn

# ---- NumPy's matrix product, whose BLAS is OpenBLAS (its threads and core type: environment.py).


@dataclass(frozen=True, slots=True)
class NumPyBlas:
    """Single products of floats, operands transposed in place; a BLAS cannot prepack."""

    name: str = "openblas"

    def prepare(self, case: Case, threads: int) -> Prepared:
        found = operands(case)
        if found is None:
            raise Unfit("no single product")
        a, b = found
        if a.dtype not in (np.float32, np.float64):
            raise Unfit(f"NumPy has no BLAS for {a.dtype}")
        ((shape, dtype),) = outputs_of(case.model)
        place = aligned(np.zeros(shape, dtype))

        def call() -> None:
            np.matmul(a, b, out=place)

        return Prepared(call, lambda: [place])


PEERS: tuple[Peer, ...] = (OnnxRuntime(), NumPyBlas(), Eager(), OneDnn())

WIDTHS = (
    (384, 384), (768, 768), (768, 3072), (3072, 768), (1024, 1024), (1024, 4096), (4096, 1024),
)  # fmt: skip
"""(K, N) of the layers of transformers."""


@dataclass(frozen=True, slots=True)
class Product:
    """C[m, n] = A[m, k] · B[k, n], ``batch`` times; ``transposed``: which of "ab" are stored so."""

    m: int
    n: int
    k: int
    dtype: str = "float32"
    transposed: str = ""
    batch: int = 1

    @property
    def label(self) -> str:
        many = f"{self.batch}x" if self.batch > 1 else ""
        sides = f" {self.transposed}t" if self.transposed else ""
        return f"{many}{self.m}x{self.n}x{self.k}{sides}"


PRODUCTS: tuple[Product, ...] = (
    *(Product(n, n, n) for n in (64, 128, 256, 512, 1024, 2048)),
    *(Product(rows, n, k) for k, n in WIDTHS for rows in (1, 16, 128)),
    *(Product(s, s, 64, batch=12) for s in (16, 128)),  # queries by keys
    *(Product(s, 64, s, batch=12) for s in (16, 128)),  # weights by values
    Product(12544, 64, 147), Product(3136, 64, 576), Product(784, 128, 1152),
    Product(196, 256, 2304), Product(49, 512, 4608),
    *(Product(n, n, n) for n in (127, 255, 257, 509, 511, 513, 1021, 1023, 1025)),
    *(Product(m, n, k, transposed=t) for m, n, k in ((512, 512, 512), (128, 3072, 768))
      for t in ("a", "b", "ab")),
    *(Product(n, n, n, "float64") for n in (64, 256, 512, 1024)),
    Product(128, 3072, 768, "float64"),
    *(Product(*sizes, dtype) for dtype in ("bfloat16", "int8") for sizes in (
        (64, 64, 64), (256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048),
        (1, 3072, 768), (16, 3072, 768), (128, 3072, 768), (509, 509, 509))),
)  # fmt: skip

QUICK: tuple[Product, ...] = (
    Product(64, 64, 64), Product(256, 256, 256), Product(512, 512, 512), Product(509, 509, 509),
    Product(1, 3072, 768), Product(128, 768, 768), Product(128, 128, 64, batch=12),
    Product(3136, 64, 576), Product(512, 512, 512, transposed="b"),
    Product(256, 256, 256, "float64"), Product(256, 256, 256, "bfloat16"),
    Product(256, 256, 256, "int8"),
)  # fmt: skip

_SHORT = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "int8": "int8"}


def cases(quick: bool) -> Iterator[Planned]:
    """The rows in order, each product with B constant (w) and as an argument (x)."""
    for product in QUICK if quick else PRODUCTS:
        for constant in (True, False):
            yield Planned(_name(product, constant), partial(case, product, constant=constant))


def _name(product: Product, constant: bool) -> str:
    return f"gemm {'w' if constant else 'x'} {_SHORT[product.dtype]} {product.label}"


def _group(product: Product, constant: bool) -> str:
    large = " from 256" if min(product.m, product.n, product.k) >= 256 else ""
    return f"{_SHORT[product.dtype]} {'w' if constant else 'x'}{large}"


def case(product: Product, *, constant: bool) -> Case:
    """``product`` as a model of one operator; random elements, the same for each shape."""
    lead = (product.batch,) if product.batch > 1 else ()
    a_shape = _stored((product.m, product.k), "a" in product.transposed)
    b_shape = _stored((product.k, product.n), "b" in product.transposed)
    a = random_array((*lead, *a_shape), product.dtype, 2)
    b = random_array((*lead, *b_shape), product.dtype, 1)
    flags = {f"trans{side.upper()}": 1 for side in product.transposed}
    op = "Gemm" if flags else "MatMulInteger" if product.dtype == "int8" else "MatMul"
    result = np.int32 if product.dtype == "int8" else a.dtype
    model, inputs = one_node(
        op,
        [("a", a), ("b", b)],
        ((*lead, product.m, product.n), result),
        constants=["b"] if constant else [],
        attributes=flags,
    )
    plain = replace(product, dtype="float32")
    single = replace(product, m=1, n=1, k=1, batch=min(product.batch, 2))
    return Case(
        _name(product, constant),
        _group(product, constant),
        model,
        inputs,
        lambda: [_exact(*(_plain(s, n in product.transposed) for s, n in ((a, "a"), (b, "b"))))],
        TOLERANCE[product.dtype],
        2.0 * product.batch * product.m * product.n * product.k,
        product.dtype,
        lambda: case(single, constant=constant),
        own="" if product.dtype in ("float32", "float64") else _name(plain, constant),
    )


def _stored(sizes: tuple[int, int], transposed: bool) -> Sequence[int]:
    return sizes[::-1] if transposed else sizes


def _plain(array: np.ndarray, transposed: bool) -> np.ndarray:
    return array.T if transposed else array


def _exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """In float64, which holds every sum of products of int8 exactly."""
    return np.asarray(a.astype(np.float64) @ b.astype(np.float64))
