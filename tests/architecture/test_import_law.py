"""The import law of docs/architecture.md, off the syntax trees (imports in functions included)."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parents[2]
ROOMS = ("frontend", "graph", "polyhedral", "codegen", "accel", "tuner")
IRS = (
    "weft.frontend.scalar_ops",
    "weft.frontend.scalar_expr",
    "weft.frontend.tensor_expr",
    "weft.graph.operator_graph",
    "weft.polyhedral.scop",
    "weft.polyhedral.instruction",
    "weft.polyhedral.schedule_tree",
    "weft.codegen.loop_ir",
    "weft.codegen.program",
)
BASE = ("weft.errors", "weft.dtypes")
# What any room may import besides IRs: their own interpreters, printers and arithmetic; analyses;
# machine records; the one mapper of instructions, a pure question; how imports are not interrupted.
SHARED_PREFIXES = (
    "weft.interrupts",
    "weft.frontend.scalar_",
    "weft.frontend.tensor_",
    "weft.frontend.build",
    "weft.frontend.limits",
    "weft.polyhedral.analysis",
    "weft.polyhedral.isl_context",
    "weft.polyhedral.named_isl",
    "weft.polyhedral.machine",
    "weft.polyhedral.map_instruction",
)


def modules() -> dict[str, Path]:
    """Module name -> file, for every source file of the package."""
    found = {}
    for folder in ("weft", *ROOMS, "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if folder == "weft" and path.parent != ROOT / "weft":
                continue  # the rooms' symlinks: the files are found in the rooms themselves
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = parts if folder == "weft" else ("weft", *parts)
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports(path: Path, known: set[str]) -> set[str]:
    """The modules of this project that ``path`` imports, wherever the statement stands."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                names.add(full if full in known else str(node.module))
    return {n for n in names if n == "weft" or n.startswith("weft.")}


MODULES = modules()


@cache
def edges() -> dict[str, set[str]]:
    """Module name -> what it imports of this project."""
    known = set(MODULES)
    return {name: imports(path, known) for name, path in MODULES.items()}


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else "weft"


def test_no_bare_room_imports() -> None:
    bare = re.compile(rf"^\s*(?:from|import) ({'|'.join(ROOMS)})\b", re.MULTILINE)
    for name, path in MODULES.items():
        found = bare.search(path.read_text())
        assert not found, f"{name} imports {found and found[1]}"


def test_no_import_cycles() -> None:
    graph = nx.DiGraph(
        (a, b) for a, targets in edges().items() for b in targets if b in MODULES and a != b
    )
    cycles = [sorted(c) for c in nx.strongly_connected_components(graph) if len(c) > 1]
    assert not cycles


def test_irs_import_only_earlier_irs() -> None:
    wrong = [
        f"{ir} imports {target}"
        for number, ir in enumerate(IRS)
        for target in edges()[ir]
        if target not in (*BASE, *IRS[:number], "weft")
    ]
    assert not wrong


def test_passes_import_their_room_and_irs() -> None:
    """Only files in weft/ compose stages."""
    wrong = [
        f"{name} imports {target}"
        for name, targets in edges().items()
        if room(name) != "weft" and name not in IRS
        for target in targets - {*BASE, *IRS}
        if room(target) != room(name) and not target.startswith(SHARED_PREFIXES)
    ]
    assert not wrong


def test_rooms_never_import_benchmarks_or_the_compiler() -> None:
    for name, targets in edges().items():
        if room(name) != "weft" and not name.startswith("weft.benchmarks"):
            bad = {t for t in targets if t.startswith("weft.benchmarks") or t == "weft.compiler"}
            assert not bad, f"{name} imports {bad}"


def test_dimension_positions_stay_in_one_file() -> None:
    knowing = {name for name, path in MODULES.items() if "dim_type" in path.read_text()}
    assert knowing == {"weft.polyhedral.named_isl"}


def test_no_machine_is_known_outside_of_its_file() -> None:
    """What is said of accelerators holds for all: the one that ships is data like any other."""
    named = re.compile(r"\bvta\b", re.IGNORECASE)
    files = [
        p for room in ROOMS for p in (ROOT / room).rglob("*.py") if p.parent.name != "machines"
    ]
    assert files and not [str(path) for path in files if named.search(path.read_text())]
