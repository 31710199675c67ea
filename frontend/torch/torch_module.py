"""PyTorch itself: imported when the first model of its is met, never by ``import weft``."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.errors import UnsupportedError

VERSION = "2.13"  # the one whose operators, graphs and interfaces this package knows


@cache
def torch() -> Any:
    """The module ``torch``. Raises ``UnsupportedError`` (WEFT-E0270) where it is missing or another
    version."""
    try:
        found = importlib.import_module("torch")
    except ImportError as error:
        raise _unfit("PyTorch is not installed", str(error)) from None
    version = str(found.__version__)
    if not version.startswith(f"{VERSION}."):
        raise _unfit(f"PyTorch {version} is not supported", f"Weft knows PyTorch {VERSION}")
    return found


def _unfit(what: str, why: str) -> UnsupportedError:
    return UnsupportedError("WEFT-E0270", what, why=why, hint="pip install 'weft[torch]'")


def dtype_of(dtype: object) -> DType | None:
    """Weft's name for one of PyTorch's dtypes, None where it has none: complex, quantised."""
    return _DTYPES.get(str(dtype))


_DTYPES = {f"torch.{dtype.name}": dtype for dtype in dtypes.ALL}
