"""Around every stage of the compiler: verify, time, log, dump, and show the IR when one fails.

    scop = passes.run("scop", lambda: lower(program), show=print_scop, verify=verify_scop)

A stage is a name and an action without arguments; it may run many times, once for each cluster.
"""

from __future__ import annotations

import logging
import re
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from weft.driver.options import Options
from weft.ir.errors import BudgetError, InternalError, WeftError, WeftWarning
from weft.ir.plan import Decisions, Value
from weft.runtime.files import folder_named

T = TypeVar("T")
EXCERPT = 60  # lines of an IR that an error quotes
_HANDLER = "weft-stderr"


class Passes:
    """The record of one compilation: seconds, runs and texts by stage, in order of first run."""

    def __init__(
        self, options: Options, name: str = "", plan: Mapping[str, Value] | None = None
    ) -> None:
        """``name``: of the program, in logs and file names. ``plan``: decisions that the user has
        taken."""
        configure_logging(options.logs)
        self.options = options
        self.name = name
        self.decisions = Decisions(plan)
        self.seconds: dict[str, float] = {}
        self.runs: dict[str, int] = {}
        self._texts: dict[str, list[str]] = {}
        self._dumped = 0
        self._latest = ("", "")  # stage and text of the IR seen last
        self._shown: tuple[object, object, str] = (None, None, "")  # an IR, what shows it, its text

    @property
    def texts(self) -> dict[str, str]:
        """The text after each stage; runs of one stage follow each other."""
        return {stage: "\n".join(parts) for stage, parts in self._texts.items()}

    def run(
        self,
        stage: str,
        action: Callable[[], T],
        *,
        show: Callable[[T], str] | None = None,
        verify: Callable[[T], object] | None = None,
        before: Callable[[], object] | None = None,
    ) -> T:
        """The result of ``action``, which ``verify`` has accepted.

        ``before`` verifies what the stage starts from. ``show`` gives the result's text. A
        ``MemoryError`` becomes a ``BudgetError`` (WEFT-E0572), another exception that is no
        ``WeftError`` an ``InternalError`` (WEFT-E0900). With an internal error comes an excerpt of
        the IR before the stage and, where the verifier refused it, after.
        """
        started = time.perf_counter()
        text = ""
        try:
            if before is not None:
                before()
            result = action()
            if show is not None and self._wants(stage):
                text = self._text(result, show)
            if verify is not None:
                try:
                    verify(result)
                except Exception as error:
                    text = text or (show(result) if show is not None else "")
                    self._explain(error, f"after {stage}", text)
                    raise
        except WeftError as error:
            if isinstance(error, InternalError):
                self._explain(error, *self._before())
            raise
        except MemoryError as error:
            raise BudgetError(
                "WEFT-E0572", f"memory ran out in stage {stage}", where=self.name, why=str(error)
            ) from None
        except Exception as error:
            raise self._failure(stage, error) from error
        finally:
            self._count(stage, time.perf_counter() - started)
        if text:
            self._keep(stage, text)
        return result

    def _text(self, result: T, show: Callable[[T], str]) -> str:
        """``result`` as ``show`` has it; a stage that changed nothing has the text before it."""
        if result is not self._shown[0] or show is not self._shown[1]:
            self._shown = result, show, show(result)
        return self._shown[2]

    def _failure(self, stage: str, error: Exception) -> InternalError:
        failure = InternalError(
            "WEFT-E0900",
            f"stage {stage} failed: {type(error).__name__}: {error}",
            where=self.name,
            hint="this is a bug in Weft: please report it, with the folder WEFT_DUMP=… writes",
        )
        for note in getattr(error, "__notes__", ()):
            failure.add_note(note)
        self._explain(failure, *self._before())
        return failure

    def _count(self, stage: str, seconds: float) -> None:
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
        self.runs[stage] = self.runs.get(stage, 0) + 1
        logging.getLogger(f"weft.{stage}").debug("%s %s: %.1f ms", self.name, stage, seconds * 1e3)

    def _wants(self, stage: str) -> bool:
        options = self.options
        return options.texts or options.dump is not None or self._prints(stage)

    def _prints(self, stage: str) -> bool:
        return stage in self.options.print_after or "all" in self.options.print_after

    def _keep(self, stage: str, text: str) -> None:
        self._latest = (stage, text)
        if self.options.texts:
            self._texts.setdefault(stage, []).append(text)
        if self._prints(stage):
            print(f"---- {self.name} after {stage}\n{text}", file=sys.stderr)
        if self.options.dump is not None:
            self._dump(folder_named(self.options.dump), stage, text)

    def _dump(self, folder: Path, stage: str, text: str) -> None:
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", self.name)[:80]
        parts = [f"{self._dumped:04}", *([plain] if plain else []), stage]
        self._dumped += 1
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / ("-".join(parts) + ".txt")).write_text(text, encoding="utf-8")
        except OSError as error:
            warnings.warn(f"WEFT_DUMP: {error}", WeftWarning, stacklevel=4)

    def _before(self) -> tuple[str, str]:
        stage, text = self._latest
        return (f"before, after {stage}", text)

    def _explain(self, error: Exception, when: str, text: str) -> None:
        if text:
            error.add_note(f"the IR {when}:\n{excerpt(text)}")


def excerpt(text: str, lines: int = EXCERPT) -> str:
    """The first ``lines`` lines of ``text``, and how many there are."""
    every = text.splitlines()
    if len(every) <= lines:
        return "\n".join(every)
    return "\n".join(
        [*every[:lines], f"… ({len(every)} lines in all; WEFT_DUMP=folder keeps them)"]
    )


def configure_logging(topics: Sequence[str]) -> None:
    """Let the logging ``topics`` through to standard error, as ``WEFT_LOGS`` describes.

    Without topics logging is left to the application.
    """
    if not topics:
        return
    root = logging.getLogger("weft")
    if not any(handler.name == _HANDLER for handler in root.handlers):
        handler = logging.StreamHandler()
        handler.name = _HANDLER
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        root.addHandler(handler)
        root.propagate = False
    levels = {"+": logging.DEBUG, "-": logging.ERROR}
    for topic in topics:
        level = levels.get(topic[0], logging.INFO)
        name = topic.lstrip("+-")
        logging.getLogger("weft" if name == "all" else f"weft.{name}").setLevel(level)
