"""Artifacts as files: instructions, the image of main memory, a manifest that describes both.

The manifest is JSON: the machine's name, configuration and fingerprint, every tensor, and names,
sizes and SHA-256 of the other files. Reading is strict: any mismatch is refused, with the numbers,
before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple
from hashlib import sha256

import msgspec
import numpy as np

from weft.accel.artifact import MAX_BYTES, Artifact, Layout, Placed, Role
from weft.ir.accelerator import Accelerator
from weft.ir.dtypes import as_dtype
from weft.ir.errors import ArtifactError, ExpressionError, StreamError
from weft.ir.instruction_stream import decode

FORMAT = "weft accelerator stream"
VERSION = 1

Machines = Callable[[str, Mapping[str, object]], Accelerator]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    file: str
    bytes: int
    sha256: str


class _Machine(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    configuration: dict[str, int | str | bool | float]
    fingerprint: str


class _Tensor(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    role: Role
    dtype: str
    address: int
    shape: tuple[int, ...]
    inner: tuple[tuple[int, int], ...]
    order: tuple[int, ...] | None
    around: tuple[tuple[int, int], ...] = ()
    fill: float = 0


class Manifest(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    version: int
    machine: _Machine
    instructions: int
    stream: _File
    image: _File
    tensors: tuple[_Tensor, ...]
    base: int = 0


def fingerprint(machine: Accelerator) -> str:
    """SHA-256 of all that a stream depends on: memories, queues, wires, channels, encodings."""
    operations = [
        (o.name, o.queue, o.encoding.bits, o.encoding.unit,
         [astuple(f) for f in o.encoding.fields], sorted(o.memories.items()))
        for o in machine.operations
    ]  # fmt: skip
    records = (machine.memories, machine.queues, machine.wires, machine.channels)
    described = [machine.name, *([astuple(each) for each in kind] for kind in records), operations]
    return sha256(repr(described).encode()).hexdigest()


def files_of(artifact: Artifact, stream: str, image: str) -> tuple[bytes, bytes, bytes]:
    """The stream, the image and the manifest, which has the given file names of the first two.

    Raises ``StreamError`` (WEFT-E1002) for instructions without an encoding.
    """
    machine = artifact.stream.accelerator
    code, memory = artifact.stream.encode(), artifact.image.tobytes()
    manifest = Manifest(
        FORMAT,
        VERSION,
        _Machine(machine.name, dict(machine.configuration), fingerprint(machine)),
        len(artifact.stream.issues),
        _File(stream, len(code), sha256(code).hexdigest()),
        _File(image, len(memory), sha256(memory).hexdigest()),
        tuple(
            _Tensor(t.name, t.role, t.dtype.name, t.address, t.layout.shape, t.layout.inner,
                    t.layout.order, t.layout.around, t.layout.fill)
            for t in artifact.tensors
        ),
        artifact.base,
    )  # fmt: skip
    return code, memory, msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def read_manifest(data: bytes) -> Manifest:
    """Raises ``ArtifactError`` (WEFT-E1024) for an invalid manifest."""
    try:
        found = msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise _unreadable("the manifest is no manifest of a stream", str(error)) from None
    if (found.format, found.version) != (FORMAT, VERSION):
        raise _unreadable(
            f"the manifest is {found.format!r}, version {found.version}",
            f"this Weft reads {FORMAT!r}, version {VERSION}",
        )
    return found


def artifact_of(
    manifest: Manifest, stream: bytes, image: bytes, machine: Accelerator | None, known: Machines
) -> Artifact:
    """The artifact in the three files, for ``machine``, or for the one that ``known`` finds by
    name.

    Raises ``ArtifactError`` (WEFT-E1024: truncated or corrupt; WEFT-E1025: for another machine),
    ``StreamError`` as ``instruction_stream.decode`` does, ``CompileError`` as ``known`` does.
    """
    for kind, each, data in (("stream", manifest.stream, stream), ("image", manifest.image, image)):
        _whole(kind, each, data)
    wanted = manifest.machine
    machine = machine or known(wanted.name, wanted.configuration)
    _same_machine(manifest, machine)
    found = decode(machine, stream)
    if len(found.issues) != manifest.instructions:
        raise _unreadable(
            f"the stream has {len(found.issues)} instructions",
            f"the manifest says {manifest.instructions}",
        )
    memory = np.frombuffer(image, np.uint8).copy()
    try:
        if not 0 <= manifest.base <= MAX_BYTES:
            raise StreamError("WEFT-E1021", f"no address: {manifest.base}")
        placed = tuple(_placed(each) for each in manifest.tensors)
        return Artifact(found, memory, placed, manifest.base)
    except (StreamError, ExpressionError) as error:
        raise _unreadable("the manifest places tensors where none can be", str(error)) from None


def _placed(each: _Tensor) -> Placed:
    sizes = (*each.shape, *(b for _, b in each.inner), *(n for both in each.around for n in both))
    if any(size > MAX_BYTES for size in (*sizes, each.address)):
        raise StreamError("WEFT-E1020", f"{each.name} is larger than {MAX_BYTES} bytes")
    if each.fill and not np.array(each.fill).astype(as_dtype(each.dtype).numpy) == each.fill:
        raise StreamError("WEFT-E1020", f"{each.fill} is no {each.dtype}")
    layout = Layout(each.shape, each.inner, each.order, each.around, each.fill)
    return Placed(each.name, each.role, as_dtype(each.dtype), layout, each.address)


def _whole(kind: str, each: _File, data: bytes) -> None:
    if len(data) != each.bytes:
        raise _unreadable(
            f"the {kind} {each.file} has {len(data)} bytes", f"the manifest says {each.bytes}"
        )
    if (found := sha256(data).hexdigest()) != each.sha256:
        raise _unreadable(
            f"the {kind} {each.file} is not the one that was written",
            f"its SHA-256 is {found[:16]}…, the manifest says {each.sha256[:16]}…",
        )


def _same_machine(manifest: Manifest, machine: Accelerator) -> None:
    wanted = manifest.machine
    if wanted.name != machine.name:
        raise ArtifactError(
            "WEFT-E1025", f"the stream is for {wanted.name!r}, not for {machine.name!r}"
        )
    given = dict(machine.configuration)
    different = [
        f"{key} is {wanted.configuration.get(key, 'not given')} in the stream, "
        f"{given.get(key, 'not given')} here"
        for key in sorted({*wanted.configuration, *given})
        if wanted.configuration.get(key) != given.get(key)
    ]
    if different or wanted.fingerprint != fingerprint(machine):
        raise ArtifactError(
            "WEFT-E1025",
            f"the stream is for another configuration of {wanted.name}",
            why="; ".join(different) or "memories, queues, wires or encodings differ",
            hint="the configuration in the stream's manifest, or a stream for this one",
        )


def _unreadable(what: str, why: str) -> ArtifactError:
    hint = "write the artifact again: files may be cut off, or belong to others"
    return ArtifactError("WEFT-E1024", what, why=why, hint=hint)
