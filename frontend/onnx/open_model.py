"""A path, bytes or a ``ModelProto`` -> ``ModelProto`` and the folder of its external data."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TypeAlias

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from weft.ir.errors import BudgetError, ModelError

MAX_MODEL_BYTES = 2**31  # protobuf's own limit

Source: TypeAlias = onnx.ModelProto | bytes | str | os.PathLike[str]


def open_model(source: Source) -> tuple[onnx.ModelProto, Path | None]:
    """The model and its folder (None: in memory).

    Raises ``ModelError`` for what is no model and ``BudgetError`` beyond 2 GiB.
    """
    if isinstance(source, onnx.ModelProto):
        return source, None
    if isinstance(source, bytes):
        return _parse(source, "the given bytes"), None
    path = Path(source)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISFIFO(status.st_mode):
            raise OSError("it is not a regular file")  # but a device, say, without an end
        if status.st_size > MAX_MODEL_BYTES:
            raise BudgetError("WEFT-E0265", f"{path} is larger than 2 GiB", hint=_EXTERNAL)
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise ModelError("WEFT-E0264", f"{str(path)!r} cannot be read", why=str(error)) from error
    try:
        return _parse(data, str(path)), path.parent
    except ModelError as error:
        if path.suffix == ".py":
            error.hint = "of a loop kernel, compile the function: `weft explain FILE.py:KERNEL`"
        raise


_EXTERNAL = "store the weights as external data"


def _parse(data: bytes, where: str) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RecursionError, ValueError) as error:
        raise ModelError(
            "WEFT-E0266", "this is not an ONNX model", where=where, why=str(error)
        ) from error
    if not model.HasField("graph") and not model.ir_version:
        raise ModelError("WEFT-E0266", "this is not an ONNX model", where=where)
    return model
