"""The result of compiling for an accelerator: a stream, main memory before it, a map of tensors.

    Artifact ::= stream, image, tensors: Placed…, base
    Placed   ::= name, role, dtype, layout, address
    Layout   ::= shape, inner: (axis, block)…, order, around: (before, after)…

Main memory is one image of bytes. A main memory of the machine (``depth`` None) is a view of it:
its element k is at byte k times the bytes of an element. ``manifest`` turns all this into files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np

from weft.ir.dtypes import DType
from weft.ir.errors import StreamError
from weft.ir.instruction_stream import Stream

Array = np.ndarray[Any, Any]
Role = Literal["input", "output", "constant", "scratch"]
MAX_DIMS, MAX_BYTES = 32, 1 << 40  # of a layout; of a tensor and of the image


@dataclass(frozen=True, slots=True)
class Layout:
    """How an array of ``shape`` lies in memory: all axes in ``order`` (None: unchanged), those of
    ``inner`` blocked; then the blocks' axes, in the order of ``inner``. The last block of an axis
    is padded with zeros; each axis is padded before and after with ``around`` numbers ``fill``
    (empty: none). Activations with 16 channels and 1 image in an element: ``Layout((n, c, h, w),
    ((0, 1), (1, 16)))`` is [n][c/16][h][w][1][16].

    Raises ``StreamError`` (WEFT-E1020) for an invalid layout.
    """

    shape: tuple[int, ...]
    inner: tuple[tuple[int, int], ...] = ()
    order: tuple[int, ...] | None = None
    around: tuple[tuple[int, int], ...] = ()
    fill: float = 0

    def __post_init__(self) -> None:
        axes = range(len(self.shape))
        blocked = [axis for axis, _ in self.inner]
        if (
            min((*self.shape, 0)) < 0
            or not set(blocked) <= set(axes)
            or len(set(blocked)) != len(blocked)
            or min((block for _, block in self.inner), default=1) < 1
            or (self.order is not None and sorted(self.order) != list(axes))
            or len(self.around) not in (0, len(self.shape))
            or min((n for both in self.around for n in both), default=0) < 0
            or len(self.shape) + len(self.inner) > MAX_DIMS
        ):
            raise StreamError(
                "WEFT-E1020",
                f"no layout: {self.inner} of {self.shape} by {self.order}",
                hint="each axis has one block at most, of at least 1, and one place in the order",
            )

    @property
    def blocks(self) -> tuple[int, ...]:
        """The number of blocks of each axis; unblocked axes have blocks of 1."""
        of = dict(self.inner)
        return tuple(-(-size // of.get(axis, 1)) for axis, size in enumerate(self._surrounded))

    @property
    def padded(self) -> tuple[int, ...]:
        """The shape in memory."""
        outer = self._order
        return (*(self.blocks[axis] for axis in outer), *(block for _, block in self.inner))

    @property
    def size(self) -> int:
        """Scalars in memory, padding included."""
        return prod(self.padded)

    def pack(self, array: Array) -> Array:
        """``array``, of ``shape``, as a contiguous array of ``padded`` shape in memory order.

        Raises ``StreamError`` (WEFT-E1020) for arrays of another shape.
        """
        self._expect(array, self.shape)
        of = dict(self.inner)
        blocks = self.blocks
        full = [blocks[axis] * of.get(axis, 1) for axis in range(len(self.shape))]
        filled = np.zeros(full, array.dtype)
        filled[tuple(slice(size) for size in self._surrounded)] = self.fill
        filled[self._own] = array
        split = [part for axis, n in enumerate(blocks) for part in (n, of.get(axis, 1))]
        packed: Array = filled.reshape(split).transpose(self._places).reshape(self.padded)
        return packed.copy("C")

    def unpack(self, array: Array) -> Array:
        """The array of ``shape`` in an array of ``padded`` shape, or of as many scalars.

        Raises ``StreamError`` (WEFT-E1020) for arrays of another shape.
        """
        if array.shape != (self.size,):
            self._expect(array, self.padded)
        of = dict(self.inner)
        blocks, places = self.blocks, self._places
        split = [part for axis, n in enumerate(blocks) for part in (n, of.get(axis, 1))]
        turned = array.reshape([split[place] for place in places]).transpose(np.argsort(places))
        full = turned.reshape([n * of.get(axis, 1) for axis, n in enumerate(blocks)])
        return full[self._own].copy("C")

    @property
    def _surrounded(self) -> tuple[int, ...]:
        """The shape with ``around``."""
        if not self.around:
            return self.shape
        return tuple(b + n + a for n, (b, a) in zip(self.shape, self.around, strict=True))

    @property
    def _own(self) -> tuple[slice, ...]:
        """The slices of the array within that."""
        around = self.around or ((0, 0),) * len(self.shape)
        return tuple(slice(b, b + n) for n, (b, _) in zip(self.shape, around, strict=True))

    @property
    def _order(self) -> tuple[int, ...]:
        return self.order if self.order is not None else tuple(range(len(self.shape)))

    @property
    def _places(self) -> list[int]:
        """The permutation from (blocks, block) of each axis in turn to memory order."""
        cut = [axis for axis, _ in self.inner]
        whole = [axis for axis in range(len(self.shape)) if axis not in cut]  # blocks of 1
        return [2 * a for a in self._order] + [2 * a + 1 for a in cut] + [2 * a + 1 for a in whole]

    def _expect(self, array: Array, shape: tuple[int, ...]) -> None:
        if array.shape != shape:
            raise StreamError("WEFT-E1020", f"an array of {array.shape}, where {shape} is laid out")


@dataclass(frozen=True, slots=True)
class Placed:
    """A tensor in main memory, ``name``, from byte ``address`` of the image: an "input", "output",
    "constant" or "scratch", as ``role`` says, of ``dtype``, laid out as ``layout`` says."""

    name: str
    role: Role
    dtype: DType
    layout: Layout
    address: int

    @property
    def nbytes(self) -> int:
        """Bytes that it takes, the filling included."""
        return self.layout.size * self.dtype.itemsize

    def write(self, image: Array, array: Array) -> None:
        """``array``, of the layout's shape and of ``dtype``, into ``image``.

        Raises ``StreamError`` (WEFT-E1020) for another shape or dtype.
        """
        if array.dtype != self.dtype.numpy:
            raise StreamError("WEFT-E1020", f"{self.name} is {self.dtype}, not {array.dtype}")
        data = self.layout.pack(array).reshape(-1).view(np.uint8)
        image[self.address : self.address + self.nbytes] = data

    def read(self, image: Array) -> Array:
        """What ``image`` holds of it, as an array of the layout's shape."""
        data = image[self.address : self.address + self.nbytes].copy()
        return self.layout.unpack(data.view(self.dtype.numpy))


@dataclass(frozen=True, slots=True)
class Artifact:
    """What a compiler of accelerators leaves: ``stream``, the instructions; ``image``,
    uint8[bytes], main memory before these run, constants and micro-operations, 0 where nothing is
    yet; ``tensors``, what lies in it; ``base``, the address of its first byte, from which
    instructions count.

    Raises ``StreamError`` (WEFT-E1021) if tensors exceed it or overlap.
    """

    stream: Stream
    image: Array
    tensors: tuple[Placed, ...]
    base: int = 0

    def __post_init__(self) -> None:
        if self.image.dtype != np.uint8 or self.image.ndim != 1:
            raise StreamError("WEFT-E1021", "an image is an array of bytes in a row")
        names = [each.name for each in self.tensors]
        if len(set(names)) != len(names):
            raise StreamError("WEFT-E1021", "two tensors of one name")
        for each in self.tensors:
            if each.address < 0 or each.address + each.nbytes > len(self.image):
                raise StreamError(
                    "WEFT-E1021",
                    f"{each.name} does not lie in the image",
                    why=f"it has {each.nbytes} bytes from {each.address}, "
                    f"the image {len(self.image)}",
                )

    def tensor(self, name: str) -> Placed:
        """Raises ``StreamError`` (WEFT-E1022) for an unknown name."""
        for each in self.tensors:
            if each.name == name:
                return each
        names = ", ".join(each.name for each in self.tensors)
        raise StreamError("WEFT-E1022", f"no tensor {name!r}", hint=f"there are {names or 'none'}")

    def filled(self, inputs: Mapping[str, Array]) -> Array:
        """The image with all ``inputs``: main memory before a simulation.

        Raises ``StreamError`` (WEFT-E1020, WEFT-E1022).
        """
        wanted = {each.name for each in self.tensors if each.role == "input"}
        if missing := sorted(wanted - inputs.keys()):
            raise StreamError("WEFT-E1022", f"missing: {', '.join(missing)}")
        if other := sorted(inputs.keys() - wanted):
            hint = f"inputs: {', '.join(sorted(wanted)) or 'none'}"
            raise StreamError("WEFT-E1022", f"no input {other[0]!r}", hint=hint)
        image = self.image.copy()
        for name, array in inputs.items():
            self.tensor(name).write(image, array)
        return image

    def outputs(self, image: Array) -> dict[str, Array]:
        """The outputs in ``image``, main memory after the stream."""
        return {each.name: each.read(image) for each in self.tensors if each.role == "output"}
