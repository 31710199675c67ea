"""A compiler worker: ``python -m weft.workers.worker`` answers jobs over a pipe, one by one.

Each message is its length (8 bytes, little-endian) and msgpack. A job is the name of a row of
``JOBS`` and bytes; the answer is bytes or an error. Jobs are pure functions of their bytes that
live inside Weft, so a worker never runs the user's script and never evaluates what it is sent. It
ends when its input does, which the death of its parent brings about.

This module imports next to nothing, so that a worker is up in the time that Python takes to start.
"""

from __future__ import annotations

import importlib
import os
import signal
import struct
import sys
import traceback
from typing import BinaryIO

import msgspec

from weft.ir import errors

JOBS = {
    "echo": "weft.workers.jobs:echo",
    "object": "weft.workers.jobs:compile_object",
    "cubin": "weft.codegen.cuda.nvrtc:compile_cubin",
    "trial": "weft.codegen.instruction_trial:run_trial",
    "draft": "weft.tuner.trial:draft",
    "build": "weft.tuner.trial:build",
    "rounds": "weft.tuner.trial:rounds",
    "rates": "weft.tuner.trial:measured_rates",
    "bound": "weft.tuner.trial:bound",
    "machine": "weft.tuner.trial:machine",
}
HELLO = b"weft worker 1"  # the first message of a worker
MAX_MESSAGE = 1 << 32  # bytes; more is taken for a broken stream
_LENGTH = struct.Struct("<Q")


class Job(msgspec.Struct, array_like=True, frozen=True):
    name: str
    payload: bytes


class Failure(msgspec.Struct, array_like=True, frozen=True):
    """A ``WeftError`` by the name of its class."""

    kind: str
    code: str
    what: str
    where: str = ""
    why: str = ""
    hint: str = ""


class Answer(msgspec.Struct, array_like=True, frozen=True):
    payload: bytes = b""
    failure: Failure | None = None


def send(stream: BinaryIO, message: bytes) -> None:
    """Write one message; ``OSError`` where the other side is gone."""
    stream.write(_LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def receive(stream: BinaryIO) -> bytes:
    """The next message; ``EOFError`` where the stream ends or makes no sense."""
    length = _LENGTH.unpack(_exactly(stream, _LENGTH.size))[0]
    if length > MAX_MESSAGE:
        raise EOFError("a broken stream")
    return _exactly(stream, length)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise EOFError("the stream ended")
    return data


def perform(job: Job) -> Answer:
    """Run ``job`` in this process; whatever it raises becomes a ``Failure``."""
    try:
        module, function = JOBS[job.name].split(":")
        return Answer(getattr(importlib.import_module(module), function)(job.payload))
    except errors.WeftError as error:
        kind = type(error).__name__
        return Answer(
            failure=Failure(kind, error.code, error.what, error.where, error.why, error.hint)
        )
    except Exception as error:
        return Answer(
            failure=Failure(
                "InternalError",
                "WEFT-E0902",
                f"job {job.name!r} failed: {type(error).__name__}: {error}",
                why=traceback.format_exc(limit=-6),
                hint="this is a bug in Weft: please report it",
            )
        )


def as_error(failure: Failure) -> errors.WeftError:
    """The exception that ``failure`` stands for."""
    kind = getattr(errors, failure.kind, None)
    if not (isinstance(kind, type) and issubclass(kind, errors.WeftError)):
        kind = errors.InternalError
    return kind(failure.code, failure.what, where=failure.where, why=failure.why, hint=failure.hint)


def main() -> None:
    """Serve until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    # Whatever a library prints must not end up between the messages.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    jobs = sys.stdin.buffer
    decoder, encoder = msgspec.msgpack.Decoder(Job), msgspec.msgpack.Encoder()
    try:
        send(answers, HELLO)
        while True:
            send(answers, encoder.encode(perform(decoder.decode(receive(jobs)))))
    except (EOFError, OSError):
        os._exit(0)  # quickly: nothing here needs tidying up


if __name__ == "__main__":
    importlib.import_module(
        "weft.workers.worker"
    ).main()  # one module, not a second one called __main__
