"""Records of a tuner: what was timed on which machine, and which plans are better for sure.

A SQLite file in the user's data folder, in write-ahead mode, which many processes may read and
write at a time. Rows are about a program, by a key that the names of its statements and tensors do
not change; a machine, by its record; and a context, the options that decide about code. Records of
another machine, or of another version of Weft, are never taken for true.

Where the file cannot be used (no room, no rights, damaged), records are kept for this process
alone, with one warning.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from platformdirs import user_data_path

import weft
from weft.ir.encoding import Encoding
from weft.ir.errors import CompileError, WeftWarning, short
from weft.ir.plan import Value
from weft.ir.scop import Access, Scop, Statement
from weft.runtime.certificate import encoding_with
from weft.runtime.files import folder_named

VERSION = 1  # of the tables
WAIT = 10.0  # seconds for another process's write
REPLACES = 1.02  # the lower end of a gain for which another plan is taken
_LARGEST = 1 << 20  # characters of a plan
_LATEST = 1 << 37  # seconds since 1970: the year 6325

Overrides = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class About:
    """What a record is about. ``program``: its ``scop_key``; ``sizes`` of its parameters;
    ``family``: the program without any size; ``machine``: a record of one, by ``machine_key``;
    ``context``: the options of the code; ``version`` of Weft; ``names`` of statements and tensors,
    as plans have them."""

    program: str
    sizes: str
    family: str
    machine: str
    context: str
    names: tuple[str, ...] = ()
    version: str = weft.__version__


@dataclass(frozen=True, slots=True)
class Trial:
    """``plan``, timed with some ``effort``: ``gain`` over the untuned program, or why there is none
    (``failed``); ``seconds`` of a call of the untuned one."""

    plan: str
    effort: int
    gain: float
    failed: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Confirmed:
    """``plan``, timed in several processes: faster than the untuned one by ``gain``, between
    ``low`` and ``high``."""

    plan: str
    gain: float
    low: float
    high: float

    @property
    def sure(self) -> bool:
        """Whether the plan replaces the untuned one."""
        return self.low > REPLACES


@dataclass(frozen=True, slots=True)
class Session:
    """A search that ``seed`` and ``budget`` began, and how far it came; once it is ``done``, the
    ``plan`` that it found, and why nothing else is left to find (``closed``), or ''."""

    seed: int
    budget: str
    trials: int
    seconds: float
    done: bool
    plan: str = "{}"
    closed: str = ""


Row = Trial | Confirmed | Session
KINDS: dict[str, type[Row]] = {"trial": Trial, "confirmed": Confirmed, "session": Session}
_SAME = {"trial": ("plan", "effort"), "confirmed": ("plan",), "session": ("seed", "budget")}
_SQL = {str: "TEXT", int: "INTEGER", float: "REAL", bool: "INTEGER"}
_ABOUT = [f.name for f in fields(About)]


def default_path() -> Path:
    return user_data_path("weft") / "records.sqlite"


class Records:
    """The records of a file, ``path`` (None: the user's). Use it as a context manager."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = default_path() if path is None else folder_named(str(path))
        self._rows = self._opened()

    # ---- what a tuner asks and tells -----------------------------------------------------------

    def find(self, kind: type[Row], about: About) -> list[Any]:
        """The rows of ``kind`` about just this, under these very names."""
        return [row for _, row in self._selected(kind, about, _ABOUT)]

    def alike(self, kind: type[Row], about: About, *same: str) -> list[tuple[About, Any]]:
        """Rows that have the fields ``same`` in common with ``about``, each with what it is about;
        the latest first."""
        return self._selected(kind, about, same)

    def keep(self, about: About, row: Row) -> None:
        """Add ``row``, in place of an older one of the same plan or session."""
        self._do(*_insertion(about, row, time.time()))

    # ---- files ---------------------------------------------------------------------------------

    def exported(self) -> Iterator[str]:
        """All rows as lines of JSON."""
        for kind, cls in KINDS.items():
            for about, row, at in self._all(kind, cls):
                data = {"kind": kind, **_plain(about), **asdict(row), "at": at}
                yield json.dumps(data, sort_keys=True)

    def take(self, lines: Iterable[str], where: str) -> int:
        """Add the rows that ``lines`` say, of the file ``where``; how many. Nothing is added where
        one of them is none: ``CompileError`` (WEFT-E1112) with its number; or where there is no
        room for all (WEFT-E1113)."""
        rows = [_parsed(line, f"{where}:{n}") for n, line in enumerate(lines, 1) if line.strip()]
        try:
            self._rows.execute("BEGIN IMMEDIATE")
            for row in rows:
                self._rows.execute(*_insertion(*row))
            self._rows.execute("COMMIT")
        except sqlite3.Error as error:
            if self._rows.in_transaction:
                self._rows.execute("ROLLBACK")
            what = f"the records {self.path} cannot be written"
            raise CompileError("WEFT-E1113", what, why=str(error)) from None
        return len(rows)

    def shown(self) -> list[tuple[About, Confirmed, float]]:
        """The confirmed plans, each with when it was found, in seconds since 1970."""
        return [(about, row, at) for about, row, at in self._all("confirmed", Confirmed)]

    def prune(self, *, older: float | None = None, machine: str | None = None) -> int:
        """Remove the rows of other versions of Weft; those last written ``older`` seconds ago or
        before; and those of ``machine``. How many."""
        before = self._count()
        tests: list[tuple[str, object]] = [("version <> ?", weft.__version__)]
        if older is not None:
            tests.append(("at <= ?", time.time() - older))
        if machine is not None:
            tests.append(("machine = ?", machine))
        for kind in KINDS:
            for test, value in tests:
                self._do(f"DELETE FROM {kind} WHERE {test}", [value])
        return before - self._count()

    @property
    def state(self) -> str:
        """Another one after each confirmed plan that comes or goes."""
        return repr(self._do("SELECT COUNT(*), TOTAL(at) FROM confirmed", []))

    def close(self) -> None:
        self._rows.close()

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- the tables ----------------------------------------------------------------------------

    def _opened(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return _prepared(sqlite3.connect(self.path, timeout=WAIT, isolation_level=None))
        except (sqlite3.Error, OSError, ValueError) as error:
            return self._for_now(error)

    def _for_now(self, error: Exception) -> sqlite3.Connection:
        warnings.warn(
            f"the records {self.path} cannot be used, and are kept for this process alone: {error}",
            WeftWarning,
            stacklevel=4,
        )
        return _prepared(sqlite3.connect(":memory:", isolation_level=None))

    def _do(self, text: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        try:
            return self._rows.execute(text, values).fetchall()
        except sqlite3.Error as error:
            before, self._rows = self._rows, self._for_now(error)
            with suppress(sqlite3.Error):  # what can be read still is
                before.backup(self._rows)
            before.close()
            _prepared(self._rows)
            return self._rows.execute(text, values).fetchall()

    def _selected(
        self, cls: type[Row], about: About, same: Sequence[str]
    ) -> list[tuple[About, Any]]:
        wanted = _plain(about)
        tests = " AND ".join(f"{name} = ?" for name in same)
        found = self._all(_kind(cls), cls, tests, [wanted[name] for name in same])
        return [(about, row) for about, row, _ in found]

    def _all(
        self, kind: str, cls: type[Row], tests: str = "", values: Sequence[object] = ()
    ) -> list[tuple[About, Any, float]]:
        names = [f.name for f in fields(cls)]
        where = f" WHERE {tests}" if tests else ""
        text = f"SELECT {', '.join([*_ABOUT, *names, 'at'])} FROM {kind}{where}"
        found = []
        for row in self._do(f"{text} ORDER BY at DESC, rowid DESC", values):
            data = dict(zip([*_ABOUT, *names], row[:-1], strict=True))
            try:
                found.append((*_row(cls, data), _when(row[-1])))
            except MALFORMED:  # somebody else's hand was in the file
                continue
        return found

    def _count(self) -> int:
        return sum(self._do(f"SELECT COUNT(*) FROM {kind}", [])[0][0] for kind in KINDS)


def _prepared(rows: sqlite3.Connection) -> sqlite3.Connection:
    """With the tables. Raises ``sqlite3.Error``, for those of another version, too."""
    try:
        rows.execute("PRAGMA journal_mode=WAL")
        rows.execute("PRAGMA synchronous=NORMAL")
        (found,) = rows.execute("PRAGMA user_version").fetchone()
        if found not in (0, VERSION):
            raise sqlite3.DatabaseError(f"version {found} of the tables, not {VERSION}")
        for kind, cls in KINDS.items():
            hints = get_type_hints(cls)
            columns = [f"{name} TEXT" for name in _ABOUT]
            columns += [f"{f.name} {_SQL[hints[f.name]]}" for f in fields(cls)]
            key = ", ".join([*_ABOUT, *_SAME[kind]])
            rows.execute(
                f"CREATE TABLE IF NOT EXISTS {kind} ({', '.join(columns)}, at REAL, UNIQUE ({key}))"
            )
        rows.execute(f"PRAGMA user_version = {VERSION}")
        return rows
    except sqlite3.Error:
        rows.close()
        raise


def _kind(cls: type[Row]) -> str:
    return next(kind for kind, known in KINDS.items() if known is cls)


def _insertion(about: About, row: Row, at: float) -> tuple[str, list[object]]:
    values = {**_plain(about), **asdict(row), "at": at}
    marks = ", ".join("?" * len(values))
    text = f"INSERT OR REPLACE INTO {_kind(type(row))} ({', '.join(values)}) VALUES ({marks})"
    return text, list(values.values())


def _plain(about: About) -> dict[str, str]:
    return {**asdict(about), "names": json.dumps(about.names)}


MALFORMED = (ValueError, TypeError, KeyError, RecursionError)


def _row(cls: type[Row], data: Mapping[str, Any]) -> tuple[About, Any]:
    """Raises one of ``MALFORMED`` for what is no such row."""
    about = {name: _as(str, data[name]) for name in _ABOUT}
    names = json.loads(about["names"])
    if not isinstance(names, list):
        raise TypeError("names are a list")
    hints = get_type_hints(cls)
    row = cls(**{f.name: _as(hints[f.name], data[f.name]) for f in fields(cls)})
    read_plan(row.plan)
    if not isinstance(row, Session) and row.gain <= 0:
        raise ValueError("gains are positive")
    return About(**{**about, "names": tuple(_as(str, n) for n in names)}), row


def _as(kind: Any, value: Any) -> Any:
    """``value``, which a column of that ``kind`` may have."""
    if kind is bool and value in (0, 1):
        return bool(value)
    if kind is float and type(value) in (int, float) and abs(value) < 1e300:
        return float(value)
    if kind is str and type(value) is str and len(value) <= _LARGEST:
        return value.encode().decode()  # surrogates that stand alone are no text
    if kind is int and type(value) is int and abs(value) < 1 << 63:
        return value
    raise TypeError(f"{short(value)} is no {kind.__name__}")


def _when(value: Any) -> float:
    """Seconds since 1970."""
    at: float = _as(float, value)
    if not 0 <= at < _LATEST:
        raise ValueError("there is no such time")
    return at


def _parsed(line: str, where: str) -> tuple[About, Row, float]:
    try:
        data = json.loads(line)
        if not isinstance(data, dict):
            raise TypeError("it is no object")
        return *_row(KINDS[data["kind"]], data), _when(data["at"])
    except MALFORMED as error:
        raise CompileError(
            "WEFT-E1112",
            "that is no record of a tuner",
            where=where,
            why=f"{type(error).__name__}: {error}",
            hint="lines that `weft records export` wrote",
        ) from None


# ---- what a program is, whatever it is called ----------------------------------------------------


def names_of(scop: Scop) -> tuple[str, ...]:
    """The names that plans may use: of its statements and tensors, in order."""
    return (*(s.name for s in scop.statements), *(t.name for t in scop.tensors))


def scop_key(scop: Scop) -> str:
    """The same for programs that differ in names alone."""
    numbers = {t.name: f"T{k}" for k, t in enumerate(scop.tensors)}

    def renamed(access: Access) -> Access:
        return replace(access, tensor=numbers[access.tensor])

    def plain(k: int, s: Statement) -> Statement:
        return replace(s.map_accesses(renamed), name=f"S{k}", origin=None)

    statements = tuple(plain(k, s) for k, s in enumerate(scop.statements))
    tensors = tuple(replace(t, name=numbers[t.name]) for t in scop.tensors)
    plain_scop = replace(scop, name="", statements=statements, tensors=tensors)
    return digest(_encoding().encode(plain_scop))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


@cache
def _encoding() -> Encoding:
    return encoding_with(())


def translated(plan: Overrides, before: Sequence[str], after: Sequence[str]) -> dict[str, Value]:
    """``plan`` for the same program under other names, ``before`` of what was recorded."""
    if tuple(before) == tuple(after):
        return dict(plan)
    names = dict(zip(before, after, strict=False))
    longest = sorted(names, key=len, reverse=True)
    token = re.compile(rf"(?<![A-Za-z0-9])({'|'.join(map(re.escape, longest))})(?![A-Za-z0-9])")

    def change(text: str) -> str:
        return token.sub(lambda m: names[m[1]], text) if names else text

    return {change(n): change(v) if isinstance(v, str) else v for n, v in plan.items()}


def plan_text(plan: Overrides) -> str:
    """``plan`` in one order, as records keep it."""
    return json.dumps(dict(sorted(plan.items())))


def read_plan(text: str) -> dict[str, Value]:
    """Raises ``ValueError`` for what is none."""
    data = json.loads(text)
    if not isinstance(data, dict) or not all(type(v) in (str, int) for v in data.values()):
        raise ValueError("a plan is an object of texts and numbers")
    return data
