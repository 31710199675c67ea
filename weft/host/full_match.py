"""Regular expressions in time linear in the text: Thompson's simulation of a small automaton.

The syntax is RE2's, without Unicode classes and flags: literals, ``.``, classes, escapes,
groups, ``|``, ``* + ? {m,n}`` (lazy ones too: greed does not matter to a full match),
``^`` and ``$``. Ken Thompson, "Regular Expression Search Algorithm", CACM 1968.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from weft.ir.errors import BudgetError, ModelError, UnsupportedError

MAX_STATES = 10_000
MAX_REPEAT = 1000  # RE2's bound too
MAX_DEPTH = 100

Test = Callable[[str], bool]
Fragment = tuple[int, int]  # first and last state


def full_match(pattern: str, texts: Sequence[str], where: str = "") -> list[bool]:
    """For each text, whether ``pattern`` matches all of it.

    Raises ``ModelError`` for a malformed pattern, ``UnsupportedError`` for syntax that is not
    implemented and ``BudgetError`` beyond ``MAX_STATES`` states.
    """
    automaton = _Parser(pattern, where).automaton()
    return [automaton.matches(text) for text in texts]


@dataclass(slots=True)
class _Automaton:
    """States with free moves, and for some one move over a character."""

    where: str
    free: list[list[int]] = field(default_factory=list)
    over: list[tuple[Test, int] | None] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)  # '^', '$', 'b' or 'B' where a state is one
    start: int = 0
    final: int = 0

    def state(self, check: str = "") -> int:
        if len(self.free) >= MAX_STATES:
            raise BudgetError("WEFT-E0236", "the pattern is too large", where=self.where)
        self.free.append([])
        self.over.append(None)
        self.checks.append(check)
        return len(self.free) - 1

    def step(self, test: Test) -> Fragment:
        first, last = self.state(), self.state()
        self.over[first] = (test, last)
        return first, last

    def empty(self) -> Fragment:
        state = self.state()
        return state, state

    def matches(self, text: str) -> bool:
        current = self._reached([self.start], text, 0)
        for position, character in enumerate(text, 1):
            moved = []
            for state in current:
                move = self.over[state]
                if move is not None and move[0](character):
                    moved.append(move[1])
            if not moved:
                return False
            current = self._reached(moved, text, position)
        return self.final in current

    def _reached(self, states: Sequence[int], text: str, position: int) -> dict[int, None]:
        seen: dict[int, None] = {}
        stack = list(states)
        while stack:
            state = stack.pop()
            if state not in seen and _holds(self.checks[state], text, position):
                seen[state] = None
                stack.extend(self.free[state])
        return seen


def _holds(check: str, text: str, position: int) -> bool:
    """Whether a zero-width check holds before the character at ``position``."""
    match check:
        case "^":
            return position == 0
        case "$":
            return position == len(text)
        case "b" | "B":
            around = text[max(position - 1, 0) : position], text[position : position + 1]
            before, after = (bool(c) and _CLASSES["w"](c) for c in around)
            return (before != after) == (check == "b")
    return True


@dataclass(slots=True)
class _Parser:
    pattern: str
    where: str
    at: int = 0
    depth: int = 0
    machine: _Automaton = field(init=False)

    def __post_init__(self) -> None:
        self.machine = _Automaton(self.where)

    def automaton(self) -> _Automaton:
        first, last = self.alternatives()
        if self.at < len(self.pattern):
            raise self.malformed("unmatched )")
        self.machine.start, self.machine.final = first, last
        return self.machine

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def take(self) -> str:
        character = self.peek()
        if not character:
            raise self.malformed("it ends too early")
        self.at += 1
        return character

    def accept(self, text: str) -> bool:
        if self.pattern.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def alternatives(self) -> Fragment:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise BudgetError("WEFT-E0236", "the pattern is nested too deeply", where=self.where)
        machine = self.machine
        first, last = machine.state(), machine.state()
        while True:
            begin, end = self.sequence()
            machine.free[first].append(begin)
            machine.free[end].append(last)
            if not self.accept("|"):
                break
        self.depth -= 1
        return first, last

    def sequence(self) -> Fragment:
        first, last = self.machine.empty()
        while self.peek() not in ("", "|", ")"):
            begin, end = self.repeated()
            self.machine.free[last].append(begin)
            last = end
        return first, last

    def repeated(self) -> Fragment:
        start = self.at
        fragment = self.atom()
        stop = self.at
        while True:
            bounds = self.bounds()
            if bounds is None:
                return fragment
            self.accept("?")  # lazy: the same for a full match
            resume, depth = self.at, self.depth
            fragment = self.copies(start, stop, *bounds)
            self.at, self.depth, stop = resume, depth, resume

    def bounds(self) -> tuple[int, int | None] | None:
        """How often the piece before may stand: (least, most); None where nothing is said."""
        if self.accept("*"):
            return 0, None
        if self.accept("+"):
            return 1, None
        if self.accept("?"):
            return 0, 1
        if self.peek() != "{":
            return None
        end = self.pattern.find("}", self.at)
        parts = self.pattern[self.at + 1 : end].split(",") if end > 0 else []
        if not 1 <= len(parts) <= 2 or not all(p.isascii() and p.isdigit() for p in parts if p):
            return None
        if not parts[0]:
            return None
        least = int(parts[0])
        most = least if len(parts) == 1 else int(parts[1]) if parts[1] else None
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise self.malformed(f"repetition {self.pattern[self.at : end + 1]}")
        self.at = end + 1
        return least, most

    def copies(self, start: int, stop: int, least: int, most: int | None) -> Fragment:
        """The piece that is written from ``start`` to ``stop``, ``least`` to ``most`` times."""
        machine = self.machine
        first, last = machine.empty()
        for count in range(least if most is None else most):
            begin, end = self.again(start, stop)
            machine.free[last].append(begin)
            if count >= least:
                machine.free[begin].append(end)
            last = end
        if most is None:
            begin, end = self.again(start, stop)
            machine.free[last].append(begin)
            machine.free[end].append(begin)
            final = machine.state()
            machine.free[last].append(final)
            machine.free[end].append(final)
            last = final
        return first, last

    def again(self, start: int, stop: int) -> Fragment:
        """A fresh copy of the piece from ``start`` to ``stop``, with an entry of its own."""
        inner = _Parser(self.pattern[:stop], self.where, start, self.depth)
        inner.machine = self.machine
        begin, end = inner.repeated() if self.has_suffix(start, stop) else inner.atom()
        entry, leave = self.machine.state(), self.machine.state()
        self.machine.free[entry].append(begin)
        self.machine.free[end].append(leave)
        return entry, leave

    def has_suffix(self, start: int, stop: int) -> bool:
        """Whether the piece is an atom that is repeated already: (a+)* without the group."""
        probe = _Parser(self.pattern[:stop], self.where, start, self.depth)
        probe.atom()
        return probe.at < stop

    def atom(self) -> Fragment:
        character = self.take()
        match character:
            case "(":
                if self.accept("?") and not self.accept(":"):
                    raise self.unsupported("(?" + self.peek())
                inner = self.alternatives()
                if not self.accept(")"):
                    raise self.malformed("a ( is not closed")
                return inner
            case "[":
                return self.machine.step(self.klass())
            case ".":
                return self.machine.step(lambda c: c != "\n")
            case "^" | "$":
                state = self.machine.state(character)
                return state, state
            case "\\":
                if self.peek() in ("b", "B"):
                    state = self.machine.state(self.take())
                    return state, state
                return self.machine.step(self.escape())
            case "*" | "+" | "?":
                raise self.malformed(f"nothing to repeat before {character}")
        return self.machine.step(lambda c: c == character)

    def escape(self) -> Test:
        character = self.take()
        if character in _CLASSES:
            return _CLASSES[character]
        if character in "DWS":
            test = _CLASSES[character.lower()]
            return lambda c: not test(c)
        if character in _CONTROLS:
            return lambda c: c == _CONTROLS[character]
        if character.isalnum():
            raise self.unsupported("\\" + character)
        return lambda c: c == character

    def klass(self) -> Test:
        """The inside of [ ]."""
        negated = self.accept("^")
        tests: list[Test] = []
        while not (tests and self.accept("]")):
            if self.pattern.startswith("[:", self.at):
                raise self.unsupported("[:")
            low = self.take()
            if low == "\\":
                follower = self.peek()
                test = self.escape()
                if follower.isalnum() and follower not in _CONTROLS:
                    tests.append(test)
                    continue
                low = _CONTROLS.get(follower, follower)
            high = low
            if self.peek() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
                self.take()
                high = self.take()
                if high == "\\":
                    follower = self.take()
                    high = _CONTROLS.get(follower, follower)
                if high < low:
                    raise self.malformed(f"range {low}-{high}")
            tests.append(_between(low, high))
        return lambda c: any(test(c) for test in tests) != negated

    def malformed(self, reason: str) -> ModelError:
        what = f"the regular expression {self.pattern[:200]!r} is malformed"
        return ModelError("WEFT-E0234", what, where=self.where, why=reason)

    def unsupported(self, what: str) -> UnsupportedError:
        return UnsupportedError("WEFT-E0235", f"{what!r} in a regular expression", where=self.where)


def _between(low: str, high: str) -> Test:
    return lambda c: low <= c <= high


_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_CLASSES: dict[str, Test] = {
    "d": lambda c: "0" <= c <= "9",
    "w": lambda c: c == "_" or (c.isascii() and c.isalnum()),
    "s": lambda c: c in " \t\n\r\f",
}
