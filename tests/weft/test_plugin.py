"""``examples/plugin``, a package of its own: its tests, with its entry points, in a process of its
own."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "examples" / "plugin"


def _installed(folder: Path, points: dict[str, dict[str, str]], name: str = "weft_example") -> None:
    """What an installer leaves in ``folder`` of a package's entry points."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = []
    for group, entries in points.items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def _run(command: list[str], *path: Path) -> str:
    folders = os.pathsep.join(map(str, (ROOT, *path)))
    environment = {**os.environ, "PYTHONPATH": folders, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=environment, check=False
    )
    return f"{done.stdout}{done.stderr}" if done.returncode else "passed"


def _tests() -> list[str]:
    quiet = ["-p", "no:cacheprovider", "-p", "no:xdist", "-c", os.devnull, "--rootdir", str(PLUGIN)]
    return ["-m", "pytest", "-q", *quiet, str(PLUGIN / "tests")]


@pytest.mark.long
def test_its_own_tests(tmp_path: Path) -> None:
    points = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]["entry-points"]
    assert len(points) == 8  # a handler is among the operators
    _installed(tmp_path, points)
    assert _run(_tests(), tmp_path, PLUGIN) == "passed"


@pytest.mark.long
def test_it_installs(tmp_path: Path) -> None:
    command = ["-m", "pip", "install", "--no-deps", "--quiet"]
    source = tmp_path / "source"  # building writes beside what is built
    subprocess.run(["cp", "-r", str(PLUGIN), str(source)], check=True)
    assert _run([*command, "--target", str(tmp_path / "site"), str(source)]) == "passed"
    assert _run(_tests(), tmp_path / "site") == "passed"


_ASKS = """
import sys, warnings
import weft
from weft.codegen.machines.named import target_names
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    names = target_names()
assert "good" in names and "broken" not in names, names
assert any("'broken'" in str(one.message) for one in caught), caught
assert "other" not in sys.modules  # another group's
"""


def test_a_package_that_is_broken_is_named_in_a_warning(tmp_path: Path) -> None:
    record = "import weft\ncpu = weft.Cpu(name='good', architecture=weft.X86_64, llvm='x86-64')\n"
    (tmp_path / "good.py").write_text(record)
    points = {"weft.targets": {"good": "good:cpu", "broken": "nowhere:cpu"}}
    _installed(tmp_path, {**points, "weft.passes": {"other": "other"}})
    (tmp_path / "other.py").write_text("")
    assert _run(["-c", _ASKS], tmp_path) == "passed"


_CONFLICT = """
import weft
x = weft.placeholder((3,), "float32", name="x")
y = weft.compute((3,), lambda i: x[i], name="y")
for again in range(2):
    try:
        weft.compile(y, options=weft.Options(passes=("same",)))
    except weft.CompileError as error:
        assert error.code == "WEFT-E0005", error
        assert "package first" in error.where and "package second" in error.where, error
    else:
        raise AssertionError("one of them was taken")
"""


def test_two_packages_with_one_name(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text("def same(graph):\n    return graph\n")
        _installed(tmp_path, {"weft.passes": {"same": f"{name}:same"}}, name)
    assert _run(["-c", _CONFLICT], tmp_path) == "passed"
