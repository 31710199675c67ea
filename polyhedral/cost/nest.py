"""A statement's instances in the coordinates of the loops around it, as numbers.

The loops ``t // 32, (t + i) // 64, t, t + i`` have two coordinates, ``t`` and ``t + i``. Inside the
first two loops both are known up to 32 and 64 values, inside the third ``t`` is known, and so on.
How often a loop runs and how far an index reaches meanwhile follow from how many values each
coordinate has left. Where coordinates bound each other (triangles, skewed loops), these are means
over points drawn along the nest, from bounds by Fourier-Motzkin; they are exact for boxes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from weft.polyhedral.cost.forms import ONE, ZERO, Array, Form, total, unpriced

SAMPLES = 64
ROWS = 80  # inequalities that a projection may come to
Row = tuple[tuple[float, ...], float]  # coefficients and constant, together at least 0


class Mixed(Exception):
    """Candidates differ in more than the sizes of tiles: each has to be read alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """``matrix``: dims × coordinates, what each dim is of them; ``coordinates`` in the order in
    which loops make them known, ``fixed``: per loop, which coordinate, up to how many values (None:
    nothing new). ``spans[p, c]``: values of coordinate c where the first p are known."""

    dims: tuple[str, ...]
    matrix: Array
    fixed: tuple[tuple[int, Array] | None, ...]
    spans: Array
    domains: Sequence[Domain]
    _memo: dict[int, tuple[Array, Array]] = field(default_factory=dict)
    _shares: dict[tuple[int, tuple[int, ...]], Array] = field(default_factory=dict)

    @property
    def is_box(self) -> bool:
        """Whether no coordinates bound each other."""
        return not any(domain.tied for domain in self.domains)

    def known(self, depth: int) -> int:
        """How many coordinates the first ``depth`` loops know, up to a few values."""
        return len({at[0] for at in self.fixed[:depth] if at is not None})

    def iterations(self, depth: int) -> Array:
        """How often the first ``depth`` loops run."""
        return self._at(depth)[0]

    def widths(self, depth: int) -> Array:
        """Per coordinate, the values that are left in one iteration of the first ``depth`` loops,
        on average."""
        return self._at(depth)[1]

    def _at(self, depth: int) -> tuple[Array, Array]:
        if depth not in self._memo:
            known = self.known(depth)
            steps: dict[int, Array] = {}
            for at in self.fixed[:depth]:
                if at is not None:
                    steps[at[0]] = np.minimum(at[1], steps.get(at[0], np.inf))
            times: Array = np.ones(1)
            widths = []
            for c in range(self.spans.shape[1]):
                if c < known:
                    span, step = self.spans[c, c], np.maximum(steps[c], 1.0)
                    whole = span == np.rint(span)
                    cut = np.where(whole, np.ceil(span / step), (span + step - 1) / step)
                    turns = np.where(step == 1, span, np.where(span > 0, cut, 0.0))
                    times = times * turns
                    widths.append(span / np.maximum(turns, 1e-9))
                else:
                    widths.append(self.spans[known, c])
            self._memo[depth] = times, np.stack(np.broadcast_arrays(*widths, times)[:-1] or [times])
        return self._memo[depth]

    def share(self, depth: int, moved: Collection[int]) -> Array:
        """Of the box of ``widths`` over the coordinates ``moved``, as much as there are points: of
        a triangle half."""
        first = self.known(depth)
        left = tuple(sorted(c for c in moved if c >= first))
        if len(left) < 2 or not any(domain.tied.issuperset(left[:2]) for domain in self.domains):
            return np.ones(1)
        if (first, left) not in self._shares:
            self._shares[first, left] = np.array([d.share(first, left) for d in self.domains])
        return self._shares[first, left]

    @property
    def points(self) -> Array:
        """Points of the domain, about."""
        found: Array = np.ones(1)
        for c in range(self.spans.shape[1]):
            found = found * self.spans[c, c]
        return found

    def over(self, slopes: Mapping[str, Array]) -> list[Array]:
        """What changes by ``slopes`` per dim, per coordinate."""
        rows = [(slopes[d], self.matrix[n]) for n, d in enumerate(self.dims) if d in slopes]
        columns = range(self.matrix.shape[1])
        return [sum((s * row[c] for s, row in rows if row[c]), np.zeros(1)) for c in columns]


def nest_of(
    dims: tuple[str, ...], domain: Sequence[tuple[Form, bool]], loops: Sequence[Form]
) -> Nest:
    """Of a statement over ``dims``, where each form of ``domain`` is at least 0, or 0 (True).

    Raises Mixed, and CompileError (WEFT-E0480) for a domain without bounds.
    """
    along = [_direction(dims, loop) for loop in loops]
    found = [x for x in along if x is not None]
    # Loops over points first: along them, what they go along is all that changes.
    rows = [*(x.row for x in found if x.exact), *(x.row for x in found if not x.exact)]
    basis: list[Array] = []
    for row in (*rows, *np.eye(len(dims))):
        if np.linalg.matrix_rank(np.array([*basis, row])) > len(basis):
            basis.append(row)
    fixed, order = _fixed(along, np.array(basis))
    matrix = np.linalg.inv(np.array([basis[c] for c in order])) if basis else np.zeros((0, 0))
    matrix[np.abs(matrix) < 1e-9] = 0.0
    domains = _domains(_rows(dims, domain, matrix), len(dims))
    spans = np.stack([domain.spans for domain in domains], axis=-1)
    return Nest(dims, matrix, fixed, spans, domains)


@dataclass(frozen=True, slots=True, eq=False)
class _Direction:
    """What a loop makes known, over the dims, up to ``step`` values; ``exact``: of points."""

    row: Array
    step: Array
    exact: bool


def _direction(dims: tuple[str, ...], loop: Form) -> _Direction | None:
    if (stepped := _stepped(loop)) is None:
        return None
    slopes, step = stepped
    if any(np.ptp(c) > 1e-9 for c in slopes.values()):
        raise Mixed
    row = np.array([slopes[d][0] if d in slopes else 0.0 for d in dims])
    content = np.gcd.reduce(np.abs(np.rint(row)).astype(int)) if len(row) else 0
    if not content or np.any(np.abs(row - np.rint(row)) > 1e-6):
        return None
    return _Direction(row / content, step / content, bool(loop.linear))


def _fixed(
    along: Sequence[_Direction | None], basis: Array
) -> tuple[tuple[tuple[int, Array] | None, ...], list[int]]:
    """The coordinate that each loop makes known, and up to how many values; and the order in which
    they come. Of several that a loop goes along, it is the one that is open most, and of these the
    one that no other loop makes known soon."""
    shares = [None if x is None else np.abs(np.linalg.solve(basis.T, x.row)) for x in along]
    left, order = dict.fromkeys(range(len(basis)), np.inf), []
    found: list[tuple[int, Array] | None] = []
    for d, (x, share) in enumerate(zip(along, shares, strict=True)):
        if x is None or share is None:
            found.append(None)
            continue

        def later(c: int, d: int = d) -> int:
            alone = (n for n in range(d + 1, len(shares)) if _is_alone(shares[n], c))
            return next(alone, len(shares))

        moved = [c for c in left if share[c] > 1e-6]
        chosen = max(moved, key=lambda c: (left[c], later(c), c))
        step = x.step / float(share[chosen])
        left[chosen] = min(left[chosen], float(step[0]))
        order += [] if chosen in order else [chosen]
        found.append((chosen, step))
    order += [c for c in left if c not in order]
    return tuple(None if at is None else (order.index(at[0]), at[1]) for at in found), order


def _is_alone(share: Array | None, c: int) -> bool:
    return share is not None and bool(share[c] > 1e-6) and np.count_nonzero(share > 1e-6) == 1


def _stepped(form: Form) -> tuple[Mapping[str, Array], Array] | None:
    """What a loop makes known, and up to how many values: ``i // 32`` i up to 32, ``i % 32`` i;
    ``t // 8 + i // 8``, a wavefront of tiles, t + i up to 8."""
    if form.linear:
        return form.linear, np.ones(1)
    summed: dict[str, Array] = {}
    first, least = None, np.full(1, np.inf)
    for factor, inner, divisor in form.floors:
        if (stepped := _stepped(inner)) is None:
            return None
        direction, step = stepped[0], stepped[1] * divisor
        for name, c in direction.items():
            summed[name] = summed.get(name, np.zeros(1)) + c * factor / step
        first, least = first or direction, np.minimum(least, step / np.maximum(np.abs(factor), 1))
    if first is None or not any(np.any(np.abs(c) > 1e-9) for c in summed.values()):
        return None if first is None else (first, least)  # i // 8 - 8 * (i // 64)
    return {name: c * least for name, c in summed.items()}, least


# ---- bounds -------------------------------------------------------------------------------------


def _rows(
    dims: tuple[str, ...], domain: Sequence[tuple[Form, bool]], matrix: Array
) -> list[tuple[list[Array], Array]]:
    """The domain over the coordinates; floors in inequalities between their means and what they may
    be, so that neither of two complements seems empty, in equalities at what they may be."""
    found = []
    for form, equality in domain:
        for side in (form, form.scaled(-ONE)) if equality else (form,):
            slopes, constant = _linear(side, equality)
            columns: list[Array] = [
                total(c * matrix[dims.index(d)][k] for d, c in slopes.items())
                for k in range(len(dims))
            ]
            found.append((columns, constant))
    return found


def _linear(form: Form, most: bool) -> tuple[Mapping[str, Array], Array]:
    """Slopes and constant of ``form`` without floors; ``most``: nowhere less."""
    slopes, constant = dict(form.linear), form.constant
    for c, inner, d in form.floors:
        below, rest = _linear(inner.scaled(np.sign(c)), most)
        for name, slope in below.items():
            slopes[name] = slopes.get(name, ZERO) + slope * np.abs(c) / d
        ends, mean = np.where(c < 0, 1 - d, 0.0), np.sign(c) * (d - 1) / 2
        constant = constant + np.abs(c) / d * (rest - (ends if most else (ends + mean) / 2))
    return slopes, constant


def _domains(rows: list[tuple[list[Array], Array]], count: int) -> list[Domain]:
    """That of each candidate, or of all where they have the same."""
    every = [x for columns, constant in rows for x in (*columns, constant)]
    plain = np.stack(np.broadcast_arrays(*every, np.zeros(1)))[:-1]
    known: dict[bytes, Domain] = {}
    for column in plain.T:
        if column.tobytes() not in known:
            parts = column.reshape(len(rows), count + 1)
            known[column.tobytes()] = Domain([(tuple(p[:-1]), float(p[-1])) for p in parts], count)
    return [known[column.tobytes()] for column in plain.T]


class Domain:
    """Points of one statement with numbers for all sizes: ``tied`` coordinates bound each other."""

    def __init__(self, rows: list[Row], count: int) -> None:
        self.spans = np.zeros((count + 1, count))
        ties = [{c for c, x in enumerate(row) if x} for row, _ in rows]
        self.tied = frozenset(c for tie in ties if len(tie) > 1 for c in tie)
        self._rows = [row for row, tie in zip(rows, ties, strict=True) if tie & self.tied]
        self._order = list(range(count))
        if any(constant < 0 for (_, constant), tie in zip(rows, ties, strict=True) if not tie):
            return
        for c in set(self._order) - self.tied:
            low, high = _range(rows, c, np.zeros((1, count)))
            self.spans[:, c] = np.maximum(high - low + 1, 0.0)
        at, weights = self._start()
        for p in range(count + 1):
            total = float(weights.sum())
            for c in sorted(self.tied - set(self._order[:p])):
                low, length = self._left(self._order[:p], c, at)
                self.spans[p, c] = float(weights @ length) / total if total else 0.0
            if p in self.tied:
                weights = weights * self._draw(self._order[:p], p, at)

    def share(self, first: int, left: Sequence[int]) -> float:
        """``Nest.share`` where the first coordinates are known."""
        at, weights = self._start()
        before = self._order[:first]
        for n in range(first):
            weights = weights * (self._draw(before[:n], n, at) if n in self.tied else 1.0)
        total, box = float(weights.sum()), 1.0
        for n, c in enumerate(left):
            if c in self.tied:
                box *= float(self.spans[first, c])
                weights = weights * self._draw([*before, *left[:n]], c, at)
        return min(1.0, float(weights.sum()) / (total * box)) if total * box else 1.0

    def _start(self) -> tuple[Array, Array]:
        return np.zeros((SAMPLES, len(self._order))), np.ones(SAMPLES)

    def _left(self, known: Sequence[int], c: int, at: Array) -> tuple[Array, Array]:
        """The least value of ``c`` and how many it has, where ``known`` coordinates are ``at``."""
        low, high = _range(_projected(self._rows, {*known, c}), c, at)
        return low, np.maximum(high - low + 1, 0.0)

    def _draw(self, known: Sequence[int], c: int, at: Array) -> Array:
        """A value of ``c`` for each sample; how many there were. Additive recurrences fill the
        unit cube evenly (Roberts, "The unreasonable effectiveness of quasirandom sequences")."""
        low, length = self._left(known, c, at)
        even = np.arange(1, SAMPLES + 1) * 0.754877666 ** (c + 1) % 1.0
        at[:, c] = low + np.floor(even * length)
        return length


def _range(rows: list[Row], c: int, at: Array) -> tuple[Array, Array]:
    """The integers that coordinate ``c`` may have where the others are ``at``."""
    low, high = np.full(len(at), -np.inf), np.full(len(at), np.inf)
    for row, constant in rows:
        if row[c]:
            rest = constant + at @ np.where(np.arange(len(row)) == c, 0.0, row)
            if row[c] > 0:
                low = np.maximum(low, np.ceil(-rest / row[c] - 1e-9))
            else:
                high = np.minimum(high, np.floor(rest / -row[c] + 1e-9))
    if np.isinf(low).any() or np.isinf(high).any():
        raise unpriced("a loop has no bounds but data")
    return low, high


def _projected(rows: list[Row], kept: set[int]) -> list[Row]:
    """What follows for the coordinates ``kept`` alone (Fourier-Motzkin), those first that come to
    the fewest rows."""
    left = set(range(len(rows[0][0]) if rows else 0)) - kept
    while left and rows:
        signs = np.sign([row for row, _ in rows])
        cost = {c: np.sum(signs[:, c] > 0) * np.sum(signs[:, c] < 0) for c in sorted(left)}
        c = min(cost, key=cost.__getitem__)
        left.remove(c)
        above = [r for r in rows if r[0][c] < 0]
        below = [r for r in rows if r[0][c] > 0]
        rest = [r for r in rows if not r[0][c]]
        for low in below:
            for high in above:
                a, b = -high[0][c], low[0][c]
                row = tuple(a * x + b * y for x, y in zip(low[0], high[0], strict=True))
                rest.append((row, a * low[1] + b * high[1]))
        rows = _tightest(rest)[:ROWS]
    return rows


def _tightest(rows: list[Row]) -> list[Row]:
    """One of ``rows`` for each direction, those first that bind the fewest coordinates."""
    found: dict[tuple[float, ...], float] = {}
    for row, constant in rows:
        size = max(map(abs, row), default=0.0)
        if size:
            direction = tuple(x / size for x in row)
            found[direction] = min(constant / size, found.get(direction, np.inf))
    return sorted(found.items(), key=lambda row: np.count_nonzero(row[0]))
