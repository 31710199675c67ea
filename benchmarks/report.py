"""What a run found, for people: every row, limits, overheads, geometric means, every loss."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from weft.benchmarks.row import Row

TOO_FAST = 1.02  # of the machine's peak (and what may be saved): the measurement is wrong
_WIDTH = 200  # columns where the output is no terminal


def failures(rows: Iterable[Row]) -> list[str]:
    """What must not be: wrong answers, refusals, rows above the machine's arithmetic peak."""
    found = []
    for row in rows:
        if row["failure"]:
            found.append(f"{row['name']}: {row['failure']}")
        elif not row["right"]:
            found.append(f"{row['name']}: wrong, max_error {row['max_error']:.1e}")
        elif row["limit"] != "copy" and (row["peak_fraction"] or 0.0) > TOO_FAST * row["saving"]:
            found.append(f"{row['name']}: {row['peak_fraction']:.2f} of the peak cannot be")
    return found


def show(
    title: str, rows: Sequence[Row], limits: Sequence[str], left_out: Sequence[str] = ()
) -> None:
    """Print everything; ``limits``: a line for each limit of the machine."""
    console = Console()
    console = console if console.is_terminal else Console(width=_WIDTH)
    console.print(_table(title, rows), markup=False)
    for line in [
        *limits,
        *_facts(rows),
        *_overheads(rows),
        *_means(rows),
        *_losses(rows),
        *_absent(rows),
    ]:
        console.print(line, markup=False, highlight=False)
    for name in left_out:
        console.print(f"no time for {name}", markup=False, highlight=False)
    for line in failures(rows):
        console.print(f"FAILED {line}", markup=False, highlight=False)


def line(row: Row) -> str:
    """``row`` as it comes."""
    return "  ".join(f"{text}" for text in _cells(row))


def _table(title: str, rows: Sequence[Row]) -> Table:
    table = Table("name", "weft ms", "of limit", "ratio", "peers ms", "error", title=title)
    for row in rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: Row) -> list[str]:
    peers = sorted(row["peers"].items(), key=lambda item: float(item[1]))
    return [
        row["name"],
        _number(row["weft_ms"], ".4f") or row["failure"],
        _number(row["peak_fraction"], ".3f"),
        _number(row["best_peer_ratio"], ".3f"),
        ", ".join(f"{name} {ms:.4f}" for name, ms in peers),
        _number(row["max_error"], ".0e"),
    ]


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _facts(rows: Sequence[Row]) -> list[str]:
    return [
        f"{row['name']}: {', '.join(f'{name} {value:,}' for name, value in row['facts'].items())}"
        for row in rows
        if row["facts"]
    ]


def _overheads(rows: Sequence[Row]) -> list[str]:
    """Of an empty call of each peer, already subtracted."""
    found: dict[str, list[float]] = {}
    for row in rows:
        for name, ms in row["overhead_ms"].items():
            found.setdefault(name, []).append(1e3 * ms)
    return [
        f"empty call of {name}: {min(us):.1f} to {max(us):.1f} us, subtracted"
        for name, us in found.items()
    ]


def _means(rows: Sequence[Row]) -> list[str]:
    """Of each group, of all but calls of nothing, and beside each peer alone."""
    lines = []
    for group in dict.fromkeys(row["group"] for row in rows):
        inside = [row for row in rows if row["group"] == group]
        speed = _mean([row["best_peer_ratio"] for row in inside], "of the best peer's speed")
        fraction = _mean([row["peak_fraction"] for row in inside], "of the limit")
        turns = _mean([row["turn_fraction"] for row in inside], "of it in the same turns")
        if speed or fraction:
            found = "; ".join(filter(None, (speed, fraction, turns)))
            lines.append(f"geometric mean, {group}: {found}")
    work = [row for row in rows if row["limit"] and row["weft_ms"]]
    whole = _mean([row["best_peer_ratio"] for row in work], "of the best peer's speed")
    lines += [f"geometric mean, all: {whole}"] if whole else []
    for peer in dict.fromkeys(name for row in work for name in row["peers"]):
        ratios = [row["peers"][peer] / row["weft_ms"] for row in work if peer in row["peers"]]
        lines.append(f"geometric mean beside {peer}: {_mean(ratios, 'of its speed')}")
    return lines + _own(work)


def _own(rows: Sequence[Row]) -> list[str]:
    """Each group of rows beside Weft's own others, where both were measured."""
    times = {row["name"]: row["weft_ms"] for row in rows}
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["own"] in times:
            found.setdefault(row["group"], []).append(times[row["own"]] / row["weft_ms"])
    return [
        f"geometric mean, {group} beside Weft's own float32: {_mean(ratios, 'times as fast')}"
        for group, ratios in found.items()
    ]


def _mean(values: Sequence[float | None], what: str) -> str:
    known = [value for value in values if value]
    if not known:
        return ""
    return f"{geometric_mean(known):.3f} {what} (least {min(known):.3f}, {len(known)} rows)"


def geometric_mean(values: Sequence[float]) -> float:
    """Of positive numbers."""
    return math.exp(sum(map(math.log, values)) / len(values))


def _losses(rows: Sequence[Row]) -> list[str]:
    lost = [
        row for row in rows if row["best_peer_ratio"] is not None and row["best_peer_ratio"] < 1
    ]
    lost.sort(key=lambda row: float(row["best_peer_ratio"]))
    return [f"{len(lost)} losses:"] + [
        f"  {row['best_peer_ratio']:.3f} {row['name']} against {row['best_peer']}" for row in lost
    ]


def _absent(rows: Sequence[Row]) -> list[str]:
    """Each reason once, with the groups of rows that it is about."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        for peer, reason in row["absent"].items():
            found.setdefault((peer, reason), {})[row["group"]] = None
    return [
        f"{peer} took no part in {', '.join(groups)}: {reason}"
        for (peer, reason), groups in found.items()
    ]


# ---- Two runs of a suite: which rows became slower by more than the noise of both.
#
# Machines differ from run to run, so rows are compared by how long Weft took beside what ran in
# turns with it: each peer, and the machine's own probe. Rounds say how far each of these medians
# can be trusted.


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
    """The rows of a suite beside peers that ``--json`` wrote. Raises ``Unreadable``."""
    rows = rows_of(path)
    if not all(_is_row(row) for row in rows):
        raise Unreadable(f"{path} holds no rows of a suite beside peers")
    return rows


def rows_of(path: Path) -> list[Row]:
    """The rows of any suite that ``--json`` wrote. Raises ``Unreadable``."""
    try:
        rows = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path}: {error}") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Unreadable(f"{path} holds no rows of a suite")
    return rows


def _is_row(row: Row) -> bool:
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
