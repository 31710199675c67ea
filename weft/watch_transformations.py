"""Every state that a scheduler went through, as its named transformations returned them.

Python's profiling hook sees the returns, so that the scheduler has no code for it. A
transformation is the function of a module in ``polyhedral/transform`` that has the module's name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar

from weft.polyhedral.schedule_tree import Tree
from weft.polyhedral.scop import Scop
from weft.polyhedral.transform.scheduled import Scheduled

_ROOM = "weft.polyhedral.transform."
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class State:
    """What ``transformation`` made: a Scop in the order of ``tree``, None for its initial one."""

    transformation: str
    scop: Scop
    tree: Tree | None


def watch(action: Callable[[], T]) -> tuple[T, list[State]]:
    """The result of ``action``, and the states in the order in which they were made."""
    states: list[State] = []

    def seen(frame: FrameType, event: str, value: object) -> None:
        if event != "return":
            return
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(_ROOM) or frame.f_code.co_name != module[len(_ROOM) :]:
            return
        made = value[0] if isinstance(value, tuple) and value else value
        match made:
            case Scheduled(_, scop, tree):
                states.append(State(frame.f_code.co_name, scop, tree))
            case Scop():
                states.append(State(frame.f_code.co_name, made, None))

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        return action(), states
    finally:
        sys.setprofile(before if callable(before) else None)  # a C profiler cannot be put back
