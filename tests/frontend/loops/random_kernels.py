"""Random loop kernels as Python text: loops of all steps, conditions, scalars, data-dependent
subscripts. All that they do is exact in integers, and no subscript is out of range."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

ARRAYS = {"A": (7,), "B": (5, 7), "C": (6,)}
HEAD = "def kernel(A: weft.i64[7], B: weft.i64[5, 7], C: weft.i32[6], N: int, M: int):"


@dataclass
class Writer:
    """Writes one kernel; ``scalars`` are assigned before anything else happens."""

    choice: random.Random
    lines: list[str] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)
    count: int = 0

    def kernel(self) -> str:
        self.lines = ["import weft", "", "", "@weft.kernel", HEAD]
        for name in ("s", "t"):
            self.line(1, f"{name} = {self.choice.randint(0, 9)}")
        self.block(1, 3)
        self.line(1, f"A[0] = {self.value(1)}")
        return "\n".join(self.lines) + "\n"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, depth: int, most: int) -> None:
        for _ in range(self.choice.randint(1, most)):
            kind = self.choice.random()
            if kind < 0.45 and len(self.loops) < 3:
                self.loop(depth)
            elif kind < 0.6 and depth < 6:
                self.condition(depth)
            else:
                self.assignment(depth)

    def loop(self, depth: int) -> None:
        name = f"i{self.count}"
        self.count += 1
        step = self.choice.choice([1, 1, 1, 2, 3, -1, -2])
        start, stop = self.affine(), self.affine()
        if step < 0:
            start, stop = f"{start} + 3", f"{stop} - 1"
        self.line(depth, f"for {name} in range({start}, min({stop}, 9), {step}):")
        self.loops.append(name)
        self.block(depth + 1, 2)
        self.loops.pop()

    def condition(self, depth: int) -> None:
        if self.choice.random() < 0.2:
            element = self.element()
            self.line(depth, f"if {self.value(1)} > {self.value(0)}:")
            self.line(depth + 1, f"{element} = {self.value(1)}")
            self.line(depth, "else:")
            self.line(depth + 1, f"{element} = {self.value(2)}")
            return
        self.line(depth, f"if {self.test()}:")
        self.block(depth + 1, 2)
        if self.choice.random() < 0.3:
            self.line(depth, f"elif {self.test()}:")
            self.block(depth + 1, 1)
        if self.choice.random() < 0.4:
            self.line(depth, "else:")
            self.block(depth + 1, 1)

    def assignment(self, depth: int) -> None:
        kind = self.choice.random()
        if kind < 0.25:
            target = self.choice.choice("st")
            self.line(depth, f"{target} = ({self.value(2)}) % 97")
        elif kind < 0.35 and self.loops:
            name = f"k{self.count}"
            self.count += 1
            self.line(depth, f"{name} = {self.affine()}")
            self.line(depth, f"{self.element(name)} = {name}")
        elif kind < 0.65:
            op = self.choice.choice(["+=", "-=", "^=", "*="])
            self.line(depth, f"{self.element()} {op} {self.value(1)}")
        elif kind < 0.75:
            first, second = self.element(), self.element()
            self.line(depth, f"{first}, {second} = {self.value(1)}, {self.value(1)}")
        else:
            element = self.element()
            form = self.choice.choice(
                ["{v}", "max({e}, {v})", "min({v}, {e})", "{v} + {e}", "{e} * 3"]
            )
            self.line(depth, f"{element} = " + form.format(e=element, v=self.value(2)))

    def test(self) -> str:
        parts = [self.comparison() for _ in range(self.choice.choice([1, 1, 2, 3]))]
        text = parts[0]
        for part in parts[1:]:
            text = f"{text} {self.choice.choice(['and', 'or'])} {part}"
        return f"not ({text})" if self.choice.random() < 0.2 else text

    def comparison(self) -> str:
        op = self.choice.choice(["<", "<=", ">", ">=", "==", "!="])
        kind = self.choice.random()
        if kind < 0.6:
            return f"{self.affine()} {op} {self.affine()}"
        if kind < 0.75:
            return f"{self.affine()} <= {self.affine()} < {self.affine()}"
        return f"{self.value(1)} {op} {self.value(0)}"

    def affine(self) -> str:
        names = [*self.loops, "N", "M"]
        text = f"{self.choice.choice([1, 1, 1, 2, -1])} * {self.choice.choice(names)}"
        if self.choice.random() < 0.4:
            text += f" {self.choice.choice('+-')} {self.choice.choice(names)}"
        text += f" + {self.choice.randint(-2, 2)}"
        form = self.choice.random()
        if form < 0.1:
            return f"({text}) // {self.choice.choice([2, 3])}"
        if form < 0.2:
            return f"({text}) % {self.choice.choice([2, 3, 4])}"
        if form < 0.3:
            other = self.choice.choice(names)
            return f"{self.choice.choice(['min', 'max'])}({text}, {other})"
        return f"abs({text})" if form < 0.35 else text

    def element(self, index: str = "") -> str:
        array = self.choice.choice("AB")
        return f"{array}[{self.subscripts(array, index)}]"

    def subscripts(self, array: str, index: str = "") -> str:
        found = []
        for size in ARRAYS[array]:
            text = index or self.affine()
            if self.choice.random() < 0.08:
                text = f"C[({self.affine()}) % 6]"
            found.append(f"({text}) % {size}")
        return ", ".join(found)

    def value(self, depth: int) -> str:
        kind = self.choice.random()
        if depth > 0 and kind < 0.5:
            op = self.choice.choice(["+", "-", "*", "^", "&"])
            return f"({self.value(depth - 1)}) {op} ({self.value(depth - 1)})"
        if depth > 0 and kind < 0.6:
            return f"({self.value(0)} if {self.test()} else {self.value(0)})"
        if depth > 0 and kind < 0.65:
            return f"({self.value(0)}) // {self.choice.choice([3, -4])}"
        if kind < 0.7:
            return str(self.choice.randint(-9, 9))
        if kind < 0.75:
            return self.choice.choice("st")
        if kind < 0.85:
            return self.affine()
        return self.element()


def random_kernel(seed: int) -> str:
    """A module with one kernel, ``kernel``."""
    return Writer(random.Random(seed)).kernel()
