"""What was measured of this processor, kept between runs: the record of "host-calibrated".

Nothing is measured unasked: two compilations for "host" are alike on every machine of one kind.
"""

from __future__ import annotations

import msgspec
from platformdirs import user_cache_path

from weft.cache import Cache
from weft.codegen.calibrate import Measured, calibrate, calibrated
from weft.codegen.machines.host import host
from weft.codegen.target import Target
from weft.errors import CompileError, WeftError
from weft.files import folder_named
from weft.options import Options

NAME = "host-calibrated"


def calibrate_host(options: Options) -> Target:
    """Measure this processor, some seconds, and keep the result.

    Raises ``WeftError`` (WEFT-E0808) where it cannot be kept.
    """
    cache = _cache(options)
    measured = calibrate()
    if not cache.put(_key(), [msgspec.msgpack.encode(measured)]):
        raise _not_kept(str(cache.folder))
    return calibrated(measured)


def calibrated_host(options: Options) -> Target:
    """The record of this processor as it was measured. Raises ``CompileError`` (WEFT-E0004) where
    that has not been done, or for another processor."""
    found = measured_host(options)
    if found is None:
        raise CompileError(
            "WEFT-E0004",
            "this processor has not been measured",
            hint="weft targets --calibrate does it, once; or compile for host",
        )
    return calibrated(found)


def measured_host(options: Options) -> Measured | None:
    """What was measured of this processor, if it was."""
    try:
        cache = _cache(options)
        payload = cache.get(_key())
        if payload is None:
            return None
        found = msgspec.msgpack.decode(payload, type=Measured)
    except (WeftError, msgspec.MsgspecError):
        return None
    return found if len(found.bandwidths) == len(host().machine.caches) else None


def _key() -> bytes:
    """The processor as it is without measuring: another one asks anew."""
    target = host()
    return msgspec.msgpack.encode(("calibration", repr(target.llvm), repr(target.machine)))


def _cache(options: Options) -> Cache:
    """A folder beside the compiled programs, so that clearing these leaves it alone."""
    chosen = options.cache_dir
    folder = user_cache_path("weft") if chosen is None else folder_named(chosen)
    try:
        return Cache(folder / "calibration")
    except OSError as error:
        raise _not_kept(str(error)) from None


def _not_kept(why: str) -> WeftError:
    return WeftError(
        "WEFT-E0808", "what is measured cannot be kept", why=why, hint="see WEFT_CACHE_DIR"
    )
