"""Guard pages around kernels' buffers: other programs than PolyBench's, and that they can tell."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.benchmarks.polybench_checks import ROOT, check_guarded
from tests.guarded_kernels import MUTANTS, unchanged


@pytest.mark.long
def test_no_access_of_other_programs_is_outside_its_buffer() -> None:
    check_guarded("programs")


@pytest.mark.long
def test_kernels_broken_on_purpose_are_caught() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "tests.guarded_kernels", "--mutants"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout.splitlines() == [
        f"{name}, {change.__name__}: {'ended with 0' if change is unchanged else 'killed'}"
        for name, change in MUTANTS
    ]
