"""Progress on standard error: for what takes longer than a second, on a terminal only."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

PATIENCE = 1.0  # seconds that may pass in silence


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[str], None]]:
    """A bar that says ``what``; the function given back advances it and says how far things are.

    ``total``: steps in all, None where nobody knows.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[now]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(what, total=total, now="")
    timer = threading.Timer(PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda now: bar.update(task, advance=1 if total else 0, now=now)
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


@contextmanager
def compile_progress(what: str, *, watched: bool) -> Iterator[None]:
    """The stage that the compiler is in, as its own log says; none where the user reads the log."""
    with progress(what) as advance:
        logger = logging.getLogger("weft")
        if watched or not sys.stderr.isatty():
            yield
            return
        handler = _Stages(advance)
        level, propagate = logger.level, logger.propagate
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate


class _Stages(logging.Handler):
    def __init__(self, advance: Callable[[str], None]) -> None:
        super().__init__()
        self.advance = advance

    def emit(self, record: logging.LogRecord) -> None:
        self.advance(f"after {record.name.removeprefix('weft.')}")
