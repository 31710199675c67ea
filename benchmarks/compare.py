"""Two runs of a suite: which rows became slower by more than the noise of both.

Machines differ from run to run, so rows are compared by how long Weft took beside what ran in turns
with it: each peer, and the machine's own probe. Rounds say how far each of these medians can be
trusted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from weft.benchmarks.row import Row

MARGIN = 0.03  # what two runs of the same code differ by although neither says so


class Unreadable(Exception):
    """A file that holds no rows, and why."""


@dataclass(frozen=True, slots=True)
class Change:
    """``slower``: Weft's time over its old time, beside everybody who took part in both runs;
    infinite where there is no longer a right answer. ``noise``: how far it may be off 1 by chance.
    """

    name: str
    slower: float
    noise: float

    @property
    def regressed(self) -> bool:
        return self.slower > 1.0 + self.noise

    @property
    def improved(self) -> bool:
        return self.slower < 1.0 / (1.0 + self.noise)


def read(path: Path) -> list[Row]:
    """The rows that ``--json`` wrote. Raises ``Unreadable``."""
    try:
        rows = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path}: {error}") from None
    if not isinstance(rows, list) or not all(_is_row(row) for row in rows):
        raise Unreadable(f"{path} holds no rows of a suite beside peers")
    return rows


def _is_row(row: object) -> bool:
    if not isinstance(row, Mapping):
        return False
    relative = row.get("relative")
    return (
        isinstance(row.get("name"), str)
        and isinstance(row.get("right"), bool)
        and isinstance(row.get("threads"), int)
        and isinstance(relative, Mapping)
        and all(_is_pair(pair) for pair in relative.values())
    )


def _is_pair(pair: Any) -> bool:
    numbers = isinstance(pair, list) and len(pair) == 2
    return numbers and all(isinstance(n, int | float) and 0 <= n < math.inf for n in pair)


def compare(old: Sequence[Row], new: Sequence[Row]) -> list[Change]:
    """The rows of both runs at the same number of threads, in the order of the new one."""
    before = {(row["name"], row["threads"]): row for row in old}
    pairs = [(before.get((row["name"], row["threads"])), row) for row in new]
    return [change(one, other) for one, other in pairs if one is not None and one["right"]]


def change(old: Row, new: Row) -> Change:
    """Over the old ratio the new one, beside each that took part in both: their median, and the
    median of their noise. Where nobody did, there is nothing to tell."""
    if not new["right"]:
        return Change(new["name"], math.inf, 0.0)
    shared = [name for name in new["relative"] if old["relative"].get(name, [0])[0] > 0]
    if not shared:
        return Change(new["name"], 1.0, math.inf)
    ratios = [new["relative"][name][0] / old["relative"][name][0] for name in shared]
    noises = [new["relative"][name][1] + old["relative"][name][1] for name in shared]
    return Change(new["name"], median(ratios), MARGIN + median(noises))


def missing(old: Sequence[Row], new: Sequence[Row]) -> list[str]:
    """Rows that were right in the old run and are not in the new one."""
    there = {(row["name"], row["threads"]) for row in new}
    return [
        row["name"] for row in old if row["right"] and (row["name"], row["threads"]) not in there
    ]


def lines(changes: Sequence[Change], gone: Sequence[str]) -> list[str]:
    """For people: regressions first, then what became faster, then how much there was in all."""
    slower = sorted((c for c in changes if c.regressed), key=lambda c: -c.slower)
    faster = sorted((c for c in changes if c.improved), key=lambda c: c.slower)
    known = [c.slower for c in changes if math.isfinite(c.noise) and 0 < c.slower < math.inf]
    mean = math.exp(sum(map(math.log, known)) / len(known)) if known else 1.0
    return [
        *(f"REGRESSED {_line(c)}" for c in slower),
        *(f"faster {_line(c)}" for c in faster),
        *(f"not in the new run: {name}" for name in gone),
        *(f"nothing to compare with: {c.name}" for c in changes if c.noise == math.inf),
        f"{len(changes)} rows, {len(slower)} regressed, {len(faster)} faster;"
        f" geometric mean of new over old time {mean:.3f}",
    ]


def _line(found: Change) -> str:
    if found.slower == math.inf:
        return f"{found.name}: no right answer any more"
    return f"{found.name}: {found.slower:.3f} of the old time, noise {found.noise:.3f}"
