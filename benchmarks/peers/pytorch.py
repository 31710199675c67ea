"""PyTorch: eager operators as ATen chooses them, and oneDNN's products on weights of its layout."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from weft.benchmarks.case import Case, is_constant, operands
from weft.benchmarks.peers.onnx_to_torch import Unknown, module_of
from weft.benchmarks.peers.peer import Prepared, Unfit


def _torch(threads: int) -> Any:
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise Unfit("not installed") from None
    torch.set_num_threads(threads)
    return torch


def tensor_of(torch: Any, array: np.ndarray) -> Any:
    """``array`` as a tensor, on the same memory where that may be written."""
    if array.dtype == ml_dtypes.bfloat16:
        return tensor_of(torch, array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def array_of(torch: Any, tensor: Any) -> np.ndarray:
    """``tensor`` as an array."""
    plain = tensor.detach().contiguous()
    if plain.dtype == torch.bfloat16:
        return np.asarray(plain.view(torch.uint16).numpy().view(ml_dtypes.bfloat16))
    return np.asarray(plain.numpy())


def _prepared(torch: Any, run: Callable[[], Any]) -> Prepared:
    """``run`` returns a tensor or a tuple of them; each call keeps what it returned."""
    held: list[Any] = [None]

    def call() -> None:
        held[0] = run()

    def results() -> list[np.ndarray]:
        found = held[0] if isinstance(held[0], tuple) else (held[0],)
        return [array_of(torch, tensor) for tensor in found]

    try:
        with torch.inference_mode():
            call()
    except Exception as error:  # of many types, all its own affair
        raise Unfit(" ".join(str(error).split())[:160]) from None
    return Prepared(_without_gradients(torch, call), results)


def _without_gradients(torch: Any, call: Callable[[], None]) -> Callable[[], None]:
    torch.set_grad_enabled(False)
    return call


@dataclass(frozen=True, slots=True)
class Eager:
    """Operator after operator."""

    name: str = "torch"

    def prepare(self, case: Case, threads: int) -> Prepared:
        torch = _torch(threads)
        sides = operands(case)
        if sides is not None:
            return _prepared(torch, _product(torch, case, *sides))
        module, given = _translated(torch, case)
        return _prepared(torch, lambda: module(*given))


@dataclass(frozen=True, slots=True)
class Compiled:
    """``torch.compile`` with freezing: weights are constants, folded and packed."""

    name: str = "torch.compile"

    def prepare(self, case: Case, threads: int) -> Prepared:
        torch = _torch(threads)
        module, given = _translated(torch, case)
        config: Any = importlib.import_module("torch._inductor.config")
        config.freezing = True
        torch._dynamo.reset()  # what it keeps of other models makes it refuse some
        torch.set_grad_enabled(False)
        compiled = torch.compile(module.eval())
        return _prepared(torch, lambda: compiled(*given))


@dataclass(frozen=True, slots=True)
class OneDnn:
    """oneDNN's inner product, as frozen models call it: B packed beforehand where it is known."""

    name: str = "onednn"

    def prepare(self, case: Case, threads: int) -> Prepared:
        torch = _torch(threads)
        sides = operands(case)
        if sides is None or sides[0].ndim != 2:
            raise Unfit("no single product of matrices")
        if sides[0].dtype not in (np.float32, ml_dtypes.bfloat16):
            raise Unfit(f"no product of {sides[0].dtype}")
        a, b = (_view(torch, side) for side in sides)
        weight, ops = b.T, torch.ops.mkldnn
        try:
            if is_constant(case):
                weight = ops._reorder_linear_weight(weight, a.shape[0])
        except Exception as error:
            raise Unfit(" ".join(str(error).split())[:160]) from None
        return _prepared(torch, lambda: ops._linear_pointwise(a, weight, None, "none", [], ""))


def _view(torch: Any, array: np.ndarray) -> Any:
    """A tensor of ``array``, which may be the transpose of a contiguous one."""
    if array.flags.c_contiguous or array.ndim != 2:
        return tensor_of(torch, array)
    return tensor_of(torch, array.T).T


def _product(torch: Any, case: Case, a: np.ndarray, b: np.ndarray) -> Callable[[], Any]:
    if a.dtype == np.uint8:  # elements are below 128
        left, right = tensor_of(torch, a.view(np.int8)), tensor_of(torch, b)
        return lambda: torch._int_mm(left, right)
    left, right = _view(torch, a), _view(torch, b)
    place = torch.empty(*left.shape[:-1], right.shape[-1], dtype=left.dtype)
    return lambda: torch.matmul(left, right, out=place)


def _translated(torch: Any, case: Case) -> tuple[Any, list[Any]]:
    try:
        module = module_of(torch, case.model)
    except Unknown as error:
        raise Unfit(f"no translation of {error}") from None
    return module, [tensor_of(torch, array) for array in case.inputs.values()]
