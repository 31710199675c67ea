"""What a tuner's records say about a program that is compiled: ``Options.tuned``.

Records are only ever read here. A plan that does not fit any more (of another Weft, say) is left
alone, with a warning: records make nothing fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.driver.options import Options
from weft.driver.targets import target_for, thread_count
from weft.ir.plan import Value
from weft.ir.scop import Scop
from weft.runtime.records import (
    About,
    Confirmed,
    Records,
    digest,
    names_of,
    read_plan,
    scop_key,
    translated,
)

_SAME = ("program", "machine", "context", "version")


def about(scop: Scop, options: Options, sizes: str = "()", family: str = "") -> About:
    """What records of ``scop``, as it is scheduled, are about."""
    context = f"{thread_count(options)} threads, {options.key}"
    key, machine = scop_key(scop), machine_key(options)
    return About(key, sizes, family, machine, context, names_of(scop))


def machine_key(options: Options) -> str:
    """The processor that is compiled for, its record included, and the one that is timed on."""
    target = target_for(options)
    here = target_for(replace(options, target="host"))
    return f"{target.llvm.cpu} {digest(repr((target.machine, here.machine)).encode())[:12]}"


def advice(scop: Scop, options: Options) -> Mapping[str, Value]:
    """The confirmed plan for ``scop``, {} where there is none: for the sizes of the last search,
    where ``scop`` leaves sizes open."""
    with Records(options.records) as records:
        mine = about(scop, options)
        rows = [each for each in records.alike(Confirmed, mine, *_SAME) if each[1].sure]
        same = [each for each in rows if each[0].sizes == rows[0][0].sizes]
        for other, row in sorted(same, key=lambda each: -each[1].low):
            try:
                return translated(read_plan(row.plan), other.names, mine.names)
            except ValueError:
                continue
    return {}


def records_state(options: Options) -> str:
    """What of the records a compilation depends on; '' where it reads none."""
    if options.tuned == "off":
        return ""
    with Records(options.records) as records:
        return records.state
