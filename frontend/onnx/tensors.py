"""ONNX tensors as NumPy arrays, and ONNX element types as Weft's.

Nothing here trusts its input: the number of bytes or elements that a tensor carries is compared
with what its shape promises before anything is allocated.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx

from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.errors import BudgetError, ModelError, UnsupportedError

_T = onnx.TensorProto

ELEMENT_TYPES: dict[int, DType] = {
    _T.FLOAT: dtypes.float32,
    _T.UINT8: dtypes.uint8,
    _T.INT8: dtypes.int8,
    _T.UINT16: dtypes.uint16,
    _T.INT16: dtypes.int16,
    _T.INT32: dtypes.int32,
    _T.INT64: dtypes.int64,
    _T.BOOL: dtypes.bool_,
    _T.FLOAT16: dtypes.float16,
    _T.DOUBLE: dtypes.float64,
    _T.UINT32: dtypes.uint32,
    _T.UINT64: dtypes.uint64,
    _T.BFLOAT16: dtypes.bfloat16,
    _T.FLOAT8E4M3FN: dtypes.float8_e4m3fn,
    _T.FLOAT8E4M3FNUZ: dtypes.float8_e4m3fnuz,
    _T.FLOAT8E5M2: dtypes.float8_e5m2,
    _T.FLOAT8E5M2FNUZ: dtypes.float8_e5m2fnuz,
    _T.UINT4: dtypes.uint4,
    _T.INT4: dtypes.int4,
    _T.FLOAT4E2M1: dtypes.float4_e2m1fn,
}
# Newer than the oldest onnx that Weft runs with.
for _number, _dtype in ((24, dtypes.float8_e8m0fnu), (25, dtypes.uint2), (26, dtypes.int2)):
    if _number in _T.DataType.values():
        ELEMENT_TYPES[_number] = _dtype

_NUMBERS = {dtype.name: number for number, dtype in ELEMENT_TYPES.items()}


def dtype_of(element_type: int, where: str = "") -> DType:
    """The dtype of an ONNX element type; ``UnsupportedError`` for strings, complex and unknown."""
    if element_type in ELEMENT_TYPES:
        return ELEMENT_TYPES[element_type]
    if element_type in _T.DataType.values() and element_type != _T.UNDEFINED:
        name = _T.DataType.Name(element_type).lower()
        raise UnsupportedError("WEFT-E0202", f"element type {name}", where=where)
    raise ModelError(
        "WEFT-E0203", f"{element_type} is not an element type that ONNX knows", where=where
    )


def element_type_of(dtype: DType) -> int:
    """The ONNX element type of a dtype: ``dtype_of`` backwards."""
    return _NUMBERS[dtype.name]


def tensor_to_array(
    tensor: onnx.TensorProto, where: str = "", external: ExternalData | None = None
) -> np.ndarray:
    """The tensor's data, read-only, in its own dtype; strings as an object array of ``str``.

    Raises ``ModelError`` where data and shape disagree, ``UnsupportedError`` for element types that
    Weft has not.
    """
    place = f"tensor {tensor.name!r}" + (f" of {where}" if where else "")
    shape = checked_shape(tensor.dims, place)
    if tensor.data_type == _T.STRING:
        return _frozen(_strings(tensor, shape, place))
    dtype = dtype_of(tensor.data_type, place)
    if tensor.data_location == _T.EXTERNAL:
        raw = (external or ExternalData(None)).read(tensor, place)
        flat = _from_bytes(raw, dtype, math.prod(shape), place)
    elif tensor.HasField("raw_data"):
        flat = _from_bytes(tensor.raw_data, dtype, math.prod(shape), place)
    else:
        flat = _from_fields(tensor, dtype, math.prod(shape), place)
    return _frozen(flat.reshape(shape))


def sparse_to_array(
    sparse: onnx.SparseTensorProto,
    limit: int,
    where: str = "",
    external: ExternalData | None = None,
) -> np.ndarray:
    """A sparse tensor made dense; ``BudgetError`` beyond ``limit`` elements."""
    place = f"sparse tensor {sparse.values.name!r}" + (f" of {where}" if where else "")
    shape = checked_shape(sparse.dims, place)
    count = math.prod(shape)
    if count > limit:
        raise BudgetError("WEFT-E0209", f"{count} elements when made dense", where=place)
    values = tensor_to_array(sparse.values, where, external).reshape(-1)
    indices = tensor_to_array(sparse.indices, where, external)
    rank = len(shape)
    if indices.dtype != np.int64 or indices.ndim not in (1, 2) or len(indices) != len(values):
        raise ModelError("WEFT-E0205", "one int64 index per value is needed", where=place)
    if indices.ndim == 2:
        if indices.shape[1] != rank:
            raise ModelError("WEFT-E0205", f"indices of rank {indices.shape[1]}", where=place)
        if np.any(indices < 0) or np.any(indices >= np.array(shape, np.int64)):
            raise ModelError("WEFT-E0205", "an index lies outside the shape", where=place)
        strides = [math.prod(shape[d + 1 :]) for d in range(rank)]
        indices = indices @ np.array(strides, np.int64)
    elif np.any(indices < 0) or np.any(indices >= count):
        raise ModelError("WEFT-E0205", "an index lies outside the shape", where=place)
    dense = np.zeros(count, values.dtype)
    dense[indices] = values
    return _frozen(dense.reshape(shape))


def checked_shape(dims: object, where: str = "") -> tuple[int, ...]:
    """``dims`` as a shape whose sizes and element count NumPy and int64 can hold."""
    shape = tuple(int(d) for d in dims)  # type: ignore[attr-defined]
    if any(d < 0 for d in shape):
        raise ModelError("WEFT-E0206", f"negative size in shape {list(shape)}", where=where)
    if len(shape) > 32 or math.prod(d for d in shape if d) >= 2**60:
        raise ModelError("WEFT-E0206", f"shape {list(shape)[:40]} is too large", where=where)
    return shape


def _from_bytes(raw: bytes, dtype: DType, count: int, where: str) -> np.ndarray:
    needed = -(-count * dtype.bits // 8)
    if len(raw) != needed:
        raise ModelError(
            "WEFT-E0207",
            f"{len(raw)} bytes of data where the shape needs {needed}",
            where=where,
            why=f"{count} elements of {dtype}",
        )
    if dtype.bits < 8:
        return _unpack(np.frombuffer(raw, np.uint8), dtype, count)
    flat = np.frombuffer(raw, np.uint8 if dtype == dtypes.bool_ else dtype.numpy)
    return flat != 0 if dtype == dtypes.bool_ else flat


def _unpack(packed: np.ndarray, dtype: DType, count: int) -> np.ndarray:
    """Elements of 2 or 4 bits, the first in the lowest bits of each byte."""
    shifts = np.arange(0, 8, dtype.bits, dtype=np.uint8)
    fields = ((packed[:, None] >> shifts) & ((1 << dtype.bits) - 1)).reshape(-1)[:count]
    if dtype.kind == "float":
        return fields.astype(np.uint8).view(ml_dtypes.float4_e2m1fn)
    if dtype.kind == "int":
        sign = 1 << (dtype.bits - 1)
        return ((fields ^ sign).astype(np.int8) - np.int8(sign)).astype(dtype.numpy)
    return fields.astype(dtype.numpy)


def _from_fields(tensor: onnx.TensorProto, dtype: DType, count: int, where: str) -> np.ndarray:
    """The typed repeated fields; small types travel as int32, 16-bit floats as their bits."""
    packed = dtype.bits < 8
    if dtype == dtypes.float32:
        data = np.array(tensor.float_data, np.float32)
    elif dtype == dtypes.float64:
        data = np.array(tensor.double_data, np.float64)
    elif dtype == dtypes.int64:
        data = np.array(tensor.int64_data, np.int64)
    elif dtype in (dtypes.uint32, dtypes.uint64):
        data = np.array(tensor.uint64_data, np.uint64)
    else:
        data = np.array(tensor.int32_data, np.int32)
    needed = -(-count * dtype.bits // 8) if packed else count
    if len(data) != needed:
        raise ModelError(
            "WEFT-E0207", f"{len(data)} elements where the shape needs {needed}", where=where
        )
    if packed:
        return _unpack(data.astype(np.uint8), dtype, count)
    if dtype.is_float and dtype.bits < 32:
        return data.astype(np.uint16 if dtype.bits == 16 else np.uint8).view(dtype.numpy)
    return data != 0 if dtype == dtypes.bool_ else data.astype(dtype.numpy)


def _strings(tensor: onnx.TensorProto, shape: tuple[int, ...], where: str) -> np.ndarray:
    if len(tensor.string_data) != math.prod(shape):
        raise ModelError(
            "WEFT-E0207",
            f"{len(tensor.string_data)} strings where the shape needs {math.prod(shape)}",
            where=where,
        )
    flat = np.empty(len(tensor.string_data), object)
    flat[:] = [s.decode("utf-8", "replace") for s in tensor.string_data]
    return flat.reshape(shape)


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


# ---- Tensors whose data lies in files beside the model, read with distrust.
#
# A location must be a relative path to a regular file inside the model's folder, symbolic links
# resolved; offset and length must lie inside that file. Overlapping regions cannot be used to
# make a small download ask for a lot of memory: all that is read together is at most what the
# files hold.


Extent = tuple[Path, int, int]  # file, offset, length


@dataclass(slots=True)
class ExternalData:
    """The external data of one model, in ``folder``; None: there is no folder to look in."""

    folder: Path | None
    files: dict[Path, int] = field(default_factory=dict)  # sizes
    regions: dict[Extent, bytes] = field(default_factory=dict)
    total: int = 0

    def read(self, tensor: onnx.TensorProto, where: str) -> bytes:
        """The bytes of ``tensor``; ``ModelError`` or ``BudgetError`` where it lies about them."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        path = self._path(entries.get("location", ""), where)
        size = self.files.setdefault(path, path.stat().st_size)
        offset = _declared_number(entries.get("offset", "0"), where)
        length = _declared_number(entries.get("length", str(max(size - offset, 0))), where)
        if offset + length > size:
            raise ModelError(
                "WEFT-E0262",
                f"external data ends at byte {offset + length} of a file of {size}",
                where=where,
            )
        key = (path, offset, length)
        if key not in self.regions:
            self.total += length
            if self.total > sum(self.files.values()):
                raise BudgetError(
                    "WEFT-E0263", "external tensors overlap in their files", where=where
                )
            with open(path, "rb") as file:
                file.seek(offset)
                self.regions[key] = file.read(length)
        return self.regions[key]

    def _path(self, location: str, where: str) -> Path:
        if self.folder is None:
            raise ModelError(
                "WEFT-E0204",
                "external data without a folder to look in",
                where=where,
                hint="load the model from its path",
            )
        if not location or "\0" in location or os.path.isabs(location) or "\\" in location:
            raise _outside(location, where)
        folder = self.folder.resolve()
        path = (folder / location).resolve()
        if not path.is_relative_to(folder) or ".." in Path(location).parts:
            raise _outside(location, where)
        if not path.is_file():
            raise ModelError(
                "WEFT-E0261", f"external data file {location!r} not found", where=where
            )
        return path


def _outside(location: str, where: str) -> ModelError:
    return ModelError(
        "WEFT-E0260", f"external data at {location!r} is outside the model's folder", where=where
    )


def _declared_number(text: str, where: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ModelError("WEFT-E0262", f"external data offset or length {text[:40]!r}", where=where)
    return int(text)
