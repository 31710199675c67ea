"""Text of random loop kernels as people write them.

They make sense: loops run over the dimensions that they index, in all the forms that such loops
have (descending, in steps, triangular, banded, tiled), and what they do is taken from what programs
do. All values are exact, integers or small whole numbers in floats.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

HEAD = """\
@weft.kernel
def scale_row(row: weft.i64["K"], c: int):
    for q in range(K):
        row[q] = row[q] * 3 + c


@weft.kernel
def add_row(to: weft.i64["K"], of: weft.i64["K"]):
    s = 0
    for q in range(K):
        s += of[q]
        to[q] += of[q] - s


@weft.kernel
def k(
    A: weft.i64["N"], B: weft.i64["N", "M"], C: weft.i32["M", "N"], D: weft.i64["M"],
    E: weft.i64["N", "N"], F: weft.f64["N", "M"], G: weft.f64["N"], W: weft.i64[3],
    X: weft.i64["N"], T: int,
):
"""
SHAPES = {
    "A": ("N",), "B": ("N", "M"), "C": ("M", "N"), "D": ("M",), "E": ("N", "N"),
    "F": ("N", "M"), "G": ("N",), "W": ("3",), "X": ("N",),
}  # fmt: skip
FLOATS, NARROW = ("F", "G"), ("C",)
READ_ONLY = ("X",)  # indices


@dataclass(frozen=True, slots=True)
class _Loop:
    """``name`` runs within ``first`` … ``size`` - 1 - ``last``."""

    name: str
    size: str
    first: int
    last: int


@dataclass(slots=True)
class Source:
    """Writes one kernel ``k`` of the arrays in ``SHAPES`` and an integer T."""

    r: Random
    lines: list[str] = field(default_factory=list)
    loops: list[_Loop] = field(default_factory=list)
    shapes: dict[str, tuple[str, ...]] = field(default_factory=lambda: dict(SHAPES))
    scalars: list[str] = field(default_factory=list)
    count: int = 0

    def kernel(self) -> str:
        for _ in range(self.r.choice((0, 0, 1, 1, 2))):
            self._local()
        if self._maybe(0.3):
            self._say(1, "total = weft.i64(0)")
            self.scalars.append("total")
        parts = (
            self._nest, self._nest, self._nest, self._nest, self._product, self._line_in_time,
            self._plane_in_time, self._scan, self._window, self._common, self._intervals,
            self._histogram, self._rows, self._called,
        )  # fmt: skip
        for _ in range(self.r.choice((1, 1, 2, 2, 3))):
            self.r.choice(parts)(1)
            self.loops.clear()
        if self.scalars:
            self._say(1, "W[1] = total")
        return HEAD + "\n".join(self.lines) + "\n"

    def _say(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def _new(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def _one(self, *given: str) -> str:
        return self.r.choice(given)

    def _maybe(self, share: float) -> bool:
        return self.r.random() < share

    def _local(self) -> None:
        shape = self.r.choice((("N",), ("M",), ("N", "M"), ("M", "N"), ("3",)))
        name = self._new("L")
        sizes = shape[0] if len(shape) == 1 else f"({', '.join(shape)})"
        self._say(1, f"{name} = weft.{self._one('zeros', 'ones')}({sizes}, weft.i64)")
        self.shapes[name] = shape

    # ---- what programs do -----------------------------------------------------------------------

    def _nest(self, depth: int) -> None:
        """Any loops around any statements."""
        inner = self._loop(depth, self._one("N", "N", "M"))
        self._block(inner, self.r.choice((1, 1, 2)))

    def _product(self, depth: int) -> None:
        target, columns, one, other = self.r.choice((
            ("B", "M", "E[{i}, {m}]", "weft.i64(C[{j}, {m}])"), ("E", "N", "E[{i}, {m}]", "A[{m}]"),
            ("E", "N", "B[{m}, 0]", "E[{m}, {j}]"), ("F", "M", "G[{m}]", "F[{m}, {j}]"),
            ("B", "M", "E[{m}, {i}]", "B[{m}, {j}]"),
        ))  # fmt: skip
        order = self.r.sample("ijm", 3)
        name = {stem: self._new(stem) for stem in order}
        size = {"i": "N", "j": columns, "m": "N"}
        if self._maybe(0.4):
            i, j = self._new("i"), self._new("j")
            self._say(depth, f"for {i} in range(N):")
            self._say(depth + 1, f"for {j} in range({columns}):")
            self._say(depth + 2, f"{target}[{i}, {j}] = 0")
        for level, stem in enumerate(order):
            bound = size[stem]
            if stem == "m" and "i" in order[:level] and self._maybe(0.3):
                bound = self._one(name["i"], f"{name['i']}, N")
            self._say(depth + level, f"for {name[stem]} in range({bound}):")
        depth += 3
        if self._maybe(0.2):
            self._say(depth, f"if {name['m']} {self._one('<=', '!=', '>')} {name['i']}:")
            depth += 1
        value = f"{one} * {other}".format(**name)
        if target == "F":
            value = f"min(max({value}, -9.0), 9.0)"
        operator = self._one("+=", "+=", "-=")
        self._say(depth, f"{target}[{name['i']}, {name['j']}] {operator} {value}")

    def _line_in_time(self, depth: int) -> None:
        i, other = self._new("i"), self._new("i")
        self._say(depth, f"for t in range({self._one('T', 'T', '3', 'T + 1')}):")
        row, name = self._one("E[0, {}]", "E[{}, 0]"), self._one("A", "A", "B[0]")
        of = f"A[{i} - 1] + 2 * A[{i}] - A[{i} + 1]"
        if name != "A":
            of += f" + {name}[0] * t"
        self._say(depth + 1, f"for {i} in range(1, N - 1):")
        self._say(depth + 2, f"{row.format(i)} = {of}")
        if self._maybe(0.3):
            self._say(depth + 1, f"A[0] = {self._one('t', 'A[0] + 1', 'A[N - 1]')}")
        self._say(depth + 1, f"for {other} in range(1, N - 1):")
        self._say(depth + 2, f"A[{other}] = {row.format(other)} // {self._one('2', '3')}")

    def _plane_in_time(self, depth: int) -> None:
        i, j = self._new("i"), self._new("j")
        around = [("", ""), ("", " - 1"), ("", " + 1"), (" - 1", ""), (" + 1", ""),
                  (" - 1", " - 1"), (" + 1", " + 1"), (" - 1", " + 1")]  # fmt: skip
        near = " + ".join(f"B[{i}{a}, {j}{b}]" for a, b in self.r.sample(around, 3))
        target = self._one("B", "B", "F")
        self._say(depth, f"for t in range({self._one('T', 'T', '2')}):")
        self._say(depth + 1, f"for {i} in range(1, N - 1):")
        self._say(depth + 2, f"for {j} in range(1, M - 1):")
        if target == "F":
            near = near.replace("B[", "F[")
            self._say(depth + 3, f"F[{i}, {j}] = min(max({near}, -30.0), 30.0)")
        else:
            self._say(depth + 3, f"B[{i}, {j}] = ({near}) // {self._one('2', '3', '4')}")

    def _scan(self, depth: int) -> None:
        size = self._one("N", "M")
        own = "A" if size == "N" else "D"
        if self._maybe(0.5):
            name = self._new("s")
            self._say(depth, f"{name} = {self._one(f'{own}[0]', 'A[0]', 'weft.i64(1)')}")
            inner = self._loop(depth, size)
            at = f"{own}[{self.loops[-1].name}]"
            forms = (f"{name} + {at}", f"max({name}, {at})", f"2 * {name} - {at}", f"{at} - {name}")
            self._say(inner, f"{name} = {self._one(*forms)}")
            self._say(inner, f"{at} {self._one('=', '+=', '^=')} {name}")
            return
        inner = self._loop(depth, size)
        i = self.loops[-1].name
        self._say(inner, f"if {i} >= {self._one('1', '2')}:")
        back = self._one(f"max({i} - 1, 0)", f"max({i} - 2, 0)", f"{i} // 2")
        self._say(inner + 1, f"{own}[{i}] = {own}[{i}] + 2 * {own}[{back}]")

    def _window(self, depth: int) -> None:
        i, w, j = self._new("i"), self._new("w"), self._new("j")
        self._say(depth, f"for {i} in range(M - 2):")
        if self._maybe(0.5):
            self._say(depth + 1, f"for {w} in range(3):")
            self._say(depth + 2, f"D[{i}] += D[{i} + {w}] * W[{w}]")
            return
        operator = self._one("+=", "-=", "^=")
        self._say(depth + 1, f"for {j} in range(N):")
        self._say(depth + 2, f"for {w} in range(3):")
        self._say(depth + 3, f"B[{j}, {i}] {operator} weft.i64(C[{i} + {w}, {j}]) * W[{w}]")

    def _common(self, depth: int) -> None:
        """The longest common subsequence, more or less."""
        i, j = self._new("i"), self._new("j")
        self._say(depth, f"for {i} in range(1, N):")
        self._say(depth + 1, f"for {j} in range(1, N):")
        back = self._one(f"E[{i} - 1, {j}]", f"E[{i} - 1, {j} - 1]", f"E[{i} - 1, 0]")
        other = self._one(f"A[{j}] > 0", f"{i} == {j}", f"({i} + {j}) % 3 == 0")
        self._say(depth + 2, f"if A[{i}] == A[{j}] or {other}:")
        self._say(depth + 3, f"E[{i}, {j}] = E[{i} - 1, {j} - 1] + 1")
        self._say(depth + 2, "else:")
        self._say(depth + 3, f"E[{i}, {j}] = max({back}, E[{i}, {j} - 1])")

    def _intervals(self, depth: int) -> None:
        """Dynamic programming over intervals."""
        i, j, m = self._new("i"), self._new("j"), self._new("m")
        fold = self._one("max", "min")
        self._say(depth, f"for {i} in range(N - 1, -1, -1):")
        self._say(depth + 1, f"for {j} in range({i} + 1, N):")
        self._say(depth + 2, f"for {m} in range({i} + 1, {j}):")
        self._say(depth + 3, f"E[{i}, {j}] = {fold}(E[{i}, {j}], E[{i}, {m}] + E[{m}, {j}])")

    def _histogram(self, depth: int) -> None:
        inner = self._loop(depth, "N")
        i = self.loops[-1].name
        target = self._one("A[X[{}]]", "E[{}, X[{}]]", "E[X[{}], {}]").replace("{}", i)
        operator = self._one("+=", "+=", "=", "^=")
        self._say(
            inner, f"{target} {operator} {self._one('A[X[{}]]', 'A[{}]', '{}').format(i)} + 1"
        )

    def _rows(self, depth: int) -> None:
        """A row of its own in each turn."""
        inner = self._loop(depth, "N")
        i, row, j, other = self.loops[-1].name, self._new("row"), self._new("j"), self._new("j")
        self._say(inner, f"{row} = weft.{self._one('zeros', 'empty')}(M, weft.i64)")
        self._say(inner, f"for {j} in range(M):")
        self._say(inner + 1, f"{row}[{j}] = B[{i}, {j}] * 2 + {i}")
        self._say(inner, f"for {other} in range({self._one('M', '1, M')}):")
        at = self._one(other, f"M - 1 - {other}", f"max({other} - 1, 0)")
        self._say(inner + 1, f"B[{i}, {other}] {self._one('=', '+=')} {row}[{at}]")

    def _called(self, depth: int) -> None:
        if self._maybe(0.3):
            self._say(depth, self._one("scale_row(A, 2)", "scale_row(D, T)", "add_row(A, X)"))
            return
        inner = self._loop(depth, "N")
        i = self.loops[-1].name
        self._say(inner, self._one(
            f"scale_row(B[{i}], {i})", f"add_row(B[{i}], D)", f"add_row(D, B[{i}])",
            f"scale_row(E[:, {i}], 1)", f"add_row(E[{i}], A)", f"scale_row(E[{i}, {i}:], 2)",
        ))  # fmt: skip

    # ---- any loops and statements ---------------------------------------------------------------

    def _block(self, depth: int, count: int) -> None:
        for _ in range(count):
            kind = self.r.random()
            if kind < 0.5 and len(self.loops) < 3:
                inner = self._loop(depth, self._one("N", "N", "M"))
                self._block(inner, self.r.choice((1, 1, 2)))
                self.loops.pop()
            elif kind < 0.65 and depth < 6:
                self._say(depth, f"if {self._condition()}:")
                self._block(depth + 1, 1)
                if self._maybe(0.3):
                    self._say(depth, "else:")
                    self._block(depth + 1, 1)
            else:
                self._assignment(depth)

    def _loop(self, depth: int, size: str) -> int:
        """A loop over a dimension of ``size``, or over a part of it; the depth of its body."""
        name = self._new("i")
        around = [x for x in self.loops if x.size == size]
        a, b = self.r.choice(((0, 0), (0, 0), (0, 0), (1, 0), (0, 1), (1, 1), (2, 1)))
        low, high = str(a), f"{size} - {b}" if b else size
        if around and self._maybe(0.5):
            j = self.r.choice(around)
            a, b, low, high = self.r.choice((
                (0, j.last + 1, "0", j.name), (j.first + 1, 0, f"{j.name} + 1", size),
                (j.first, 0, j.name, size), (0, j.last, "0", f"{j.name} + 1"),
                (0, 0, f"max(0, {j.name} - 2)", f"min({size}, {j.name} + 3)"),
            ))  # fmt: skip
        elif a == b == 0 and self._maybe(0.1):
            block = self._new("b")
            self._say(depth, f"for {block} in range(({size} + 3) // 4):")
            low, high, depth = f"4 * {block}", f"min({size}, 4 * {block} + 4)", depth + 1
        step = self.r.choice((1, 1, 1, 1, 1, 2, 3, -1, -1, -2))
        if step > 0:
            text = high if (low, step) == ("0", 1) else f"{low}, {high}"
            text += f", {step}" if step > 1 else ""
        else:
            text = f"{high} - 1, {low} - 1, {step}"
        self._say(depth, f"for {name} in range({text}):")
        self.loops.append(_Loop(name, size, a, b))
        return depth + 1

    def _assignment(self, depth: int) -> None:
        kind = self.r.random()
        if self.scalars and kind < 0.15:
            self._say(depth, f"total {self._one('+=', '^=')} {self._value(1)}")
        elif kind < 0.25:
            name = self._new("v")
            target = self._element(self._target())
            self._say(depth, f"{name} = {self._value(2)}")
            self._say(depth, f"{target} = {name} * {name} % 1000")
        elif kind < 0.33:
            one, two = self._element("E"), self._element("E")
            self._say(depth, f"{one}, {two} = {two}, {one}")
        elif kind < 0.45:
            target = self._element(self._one("F", "F", "G"))
            value = f"min(max({self._float(2)}, -30.0), 30.0)"
            self._say(depth, f"{target} {self._one('=', '+=', '-=')} {value}")
        elif kind < 0.52:
            self._say(depth, f"{self._element('C')} {self._one('=', '+=')} weft.i32("
                             f"({self._value(2)}) % 100)")  # fmt: skip
        else:
            target = self._element(self._target())
            operator = self._one("=", "=", "+=", "+=", "-=", "*=", "^=", "|=", "&=")
            value = self._value(2)
            if operator == "=" and self._maybe(0.3):
                value = f"{self._one('max', 'min')}({target}, {value})"
            self._say(depth, f"{target} {operator} {value}")

    def _target(self) -> str:
        local = [name for name in self.shapes if name.startswith("L")]
        return self._one("A", "B", "B", "D", "E", "E", "W", *local, *local)

    def _condition(self) -> str:
        one, two = (x.name for x in self.r.choices(self.loops, k=2))
        relation = self._one("<", "<=", ">", "!=", "==", ">=")
        return self._one(
            f"{one} {relation} {two} + {self._one('0', '1', '2')}", f"{one} % 2 {relation} 1",
            f"({one} + {two}) % 3 {relation} 1", f"{one} {relation} {self._one('N', 'M')} // 2",
            f"{self._value(1)} {relation} {self._value(0)}", f"{self._value(0)} {relation} 0",
            f"{one} {relation} {two} or {self._value(0)} > 3", f"not ({one} < 2 and {two} > 1)",
            f"{one} {relation} T",
        )  # fmt: skip

    def _element(self, array: str) -> str:
        return f"{array}[{', '.join(map(self._subscript, self.shapes[array]))}]"

    def _subscript(self, size: str) -> str:
        if size == "3":
            return self._one("0", "1", "2", f"{self.loops[-1].name} % 3")
        over = [x for x in self.loops if x.size == size]
        if not over:
            return self._one("0", f"{size} - 1")
        x = self.r.choice(over)
        i = x.name
        if self._maybe(0.6):
            c = self.r.randint(-x.first, x.last)
            return f"{i} + {c}" if c > 0 else f"{i} - {-c}" if c < 0 else i
        other = self.r.choice(over).name
        forms = [
            i, f"{size} - 1 - {i}", f"{i} // 2", f"max({i} - 1, 0)", f"min({i} + 1, {size} - 1)",
            f"({i} + {other}) // 2", f"abs({i} - {other})", f"({i} if {i} < {other} else {other})",
            f"{i} % 4 if {size} > 3 else 0", f"{i} - {i} % 2",
        ]  # fmt: skip
        if size == "N":
            forms += [f"X[{i}]"]
        return self._one(*forms)

    def _value(self, depth: int) -> str:
        if depth == 0 or self._maybe(0.25):
            local = [name for name in self.shapes if name.startswith("L")]
            array = self._one("A", "B", "B", "C", "D", "E", "E", "W", "X", *local)
            read = self._element(array)
            read = f"weft.i64({read})" if array in NARROW else read
            name = self.r.choice(self.loops).name
            return self._one(read, read, read, read, name, str(self.r.randint(-3, 4)))
        one, two = self._value(depth - 1), self._value(depth - 1)
        return self._one(
            f"({one} + {two})", f"({one} + {two})", f"({one} - {two})", f"{one} * {two}",
            f"({one}) // {self._one('2', '3', '-4')}", f"({one}) % {self._one('2', '3', '5')}",
            f"max({one}, {two})", f"min({one}, {two})", f"abs({one})", f"-{one}",
            f"({one} if {self._condition_of(one, two)} else {two})", f"({one} ^ {two})",
        )  # fmt: skip

    def _condition_of(self, one: str, two: str) -> str:
        name = self.r.choice(self.loops).name
        return self._one(f"{one} > {two}", f"{name} % 2 == 0", f"{name} > 1", f"{one} < 0")

    def _float(self, depth: int) -> str:
        if depth == 0:
            read = self._element(self._one("F", "F", "G"))
            return self._one(read, read, read, self._one("1.0", "2.0", "-3.0"))
        one, two = self._float(depth - 1), self._float(depth - 1)
        return self._one(
            f"({one} + {two})", f"({one} - {two})", f"{one} * {two}", f"max({one}, {two})",
            f"min({one}, {two})", f"({one} if {self._condition_of('1', '0')} else {two})",
        )  # fmt: skip
