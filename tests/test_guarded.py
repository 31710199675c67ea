"""No compiled program touches memory outside its own: see ``guarded``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="mprotect")


def guarded(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.guarded", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
@POSIX
def test_no_case_touches_a_guard_page() -> None:
    finished = guarded()
    cases = finished.stdout.splitlines() or ["nothing"]
    assert finished.returncode == 0, f"in case {cases[-1]}: {finished.stderr[-2000:]}"
    assert cases[-1] == "done"


@POSIX
def test_guard_pages_kill() -> None:
    finished = guarded("--overrun")
    assert finished.stdout == "0.0\n" and finished.returncode < 0
