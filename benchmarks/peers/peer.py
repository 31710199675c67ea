"""What a peer is: something that prepares a case, or says why it cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from weft.benchmarks.case import Case


class Unfit(Exception):
    """Why a peer does not run a case."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """``call`` runs the case once, with as little of Python as the peer allows; ``results`` are
    the outputs of the last call, in the model's order."""

    call: Callable[[], object]
    results: Callable[[], Sequence[np.ndarray]]

    def loop(self, times: int) -> None:
        """``call``, ``times`` times."""
        call = self.call
        for _ in range(times):
            call()


class Peer(Protocol):
    """``name`` is its column."""

    @property
    def name(self) -> str: ...

    def prepare(self, case: Case, threads: int) -> Prepared:
        """Raises ``Unfit``."""
        ...
