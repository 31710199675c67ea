"""Tensors whose data lies in files beside the model, read with distrust.

A location must be a relative path to a regular file inside the model's folder, symbolic links
resolved; offset and length must lie inside that file. Overlapping regions cannot be used to make a
small download ask for a lot of memory: all that is read together is at most what the files hold.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from weft.errors import BudgetError, ModelError

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
        offset = _number(entries.get("offset", "0"), where)
        length = _number(entries.get("length", str(max(size - offset, 0))), where)
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


def _number(text: str, where: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ModelError("WEFT-E0262", f"external data offset or length {text[:40]!r}", where=where)
    return int(text)
