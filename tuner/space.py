"""The space around a plan: other plans that are one step away.

A step takes one decision otherwise, or changes the script of the schedule: a constant of it (a tile
size wherever it stands), or a step less. Whether what comes of it is legal is not asked here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from weft.ir.plan import LARGEST, Decision, Plan, Value
from weft.runtime.records import Overrides

NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_TILE = re.compile(r"// (\d+)")
_CHANGED = ((1, 2), (2, 1), (3, 2), (2, 3), (3, 4), (4, 3))  # sizes that are tried for another
LEAST = 2  # of a constant that is a size and no index


def decided_otherwise(plan: Plan, overrides: Overrides) -> Iterator[Overrides]:
    """``overrides`` with one decision of ``plan``, which they led to, taken otherwise."""
    for decision in plan.decisions:
        for value in _others(decision):
            yield {**overrides, decision.own_name: value}


def _others(decision: Decision) -> Iterator[Value]:
    known = [o.value for o in decision.options if o.value != decision.chosen]
    if isinstance(decision.chosen, int) and decision.size:
        known += [n for n in sizes_near(decision.chosen) if n not in known]
    yield from known


def sizes_near(size: int) -> list[int]:
    """Sizes that are tried for another."""
    scaled = (size * up // down for up, down in _CHANGED)
    return sorted({n for n in scaled if 1 <= n <= LARGEST and n != size})


def rescripted(script: str, name: str) -> Iterator[Overrides]:
    """The schedule of ``script`` with one of its constants changed, or one of its steps left out.
    ``name``: of the decision that has scripts for values, and leaves nothing else to decide."""
    for constant in constants(script):
        for other in sizes_near(constant):
            if other >= LEAST:
                yield {name: resized(script, {constant: other})}
    lines = script.splitlines()
    for k in optional_steps(script):
        yield {name: "\n".join([*lines[:k], *lines[k + 1 :]])}


def constants(script: str) -> list[int]:
    """Sizes in ``script``: of tiles first, then those that stand in more places."""
    tiles = {int(text) for text in _TILE.findall(script)}
    found = Counter(int(text) for text in NUMBER.findall(script))
    sizes = [n for n in found if LEAST <= n <= LARGEST]
    return sorted(sizes, key=lambda n: (n not in tiles, -found[n], n))


def resized(script: str, sizes: Mapping[int, int]) -> str:
    """``script`` with other numbers for some, wherever they stand."""
    return NUMBER.sub(lambda m: str(sizes.get(int(m[0]), m[0])), script)


def optional_steps(script: str) -> list[int]:
    """Lines of ``script`` without which there still is a schedule, maybe."""
    built = ("s = s.nest(", "s = s.sequence(", "s = s.cut(")
    lines = enumerate(script.splitlines())
    return [k for k, line in lines if k and not line.startswith(built)]


def combined(some: Sequence[Overrides]) -> Iterator[Overrides]:
    """Pairs of ``some`` in one, where they do not contradict each other: what gained by itself may
    gain together."""
    for k, one in enumerate(some):
        for other in some[k + 1 :]:
            if all(one.get(n, v) == v for n, v in other.items()):
                both: Mapping[str, Value] = {**one, **other}
                if both not in (one, other):
                    yield both
