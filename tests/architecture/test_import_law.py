"""The import law of docs/architecture.md, off the syntax trees (imports in functions included)."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parents[2]
OUTSIDE = ("frontend", "graph", "polyhedral", "codegen", "accel", "tuner", "benchmarks")
# From the bottom up. Rooms in one layer never import each other.
LAYERS = (
    ("ir",),
    ("polyhedral",),
    ("frontend", "graph", "codegen", "accel"),
    ("workers",),
    ("runtime",),
    ("driver",),
    ("verify",),
    ("host",),
    ("offload",),
    ("face",),
    ("tuner",),
    ("app",),
    ("benchmarks",),
)
UPWARD = {  # defended in docs/decisions/046-rooms-in-layers.md
    ("weft.app.cli", "weft.benchmarks.__main__"),
    ("weft.offload.accelerators", "weft.loop_kernel"),
}
IRS = (
    "weft.ir.scalar_ops",
    "weft.ir.scalar_expr",
    "weft.ir.tensor_expr",
    "weft.ir.operator_graph",
    "weft.ir.scop",
    "weft.ir.instruction",
    "weft.ir.schedule_tree",
    "weft.ir.loop_ir",
    "weft.ir.program",
)
# What the rooms that transform may use of each other: analyses and the one mapper of instructions.
SHARED = ("weft.polyhedral.analysis", "weft.polyhedral.map_instruction")


def modules() -> dict[str, Path]:
    """Module name -> file, for every source file of the package."""
    found = {}
    for path in sorted((ROOT / "weft").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[1] not in OUTSIDE:  # these are links: the files are found in the rooms themselves
            found[".".join(parts).removesuffix(".__init__")] = path
    for room in OUTSIDE:
        for path in sorted((ROOT / room).rglob("*.py")):
            parts = ("weft", *path.relative_to(ROOT).with_suffix("").parts)
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
    return {n for n in names if n.startswith("weft.")}


MODULES = modules()
ROOMS = {room for layer in LAYERS for room in layer}


@cache
def edges() -> dict[str, set[str]]:
    """Module name -> what it imports of this project, but for ``weft`` itself."""
    known = set(MODULES)
    return {name: imports(path, known) for name, path in MODULES.items()}


def room(module: str) -> str:
    if module == "weft.__main__":
        return "app"  # ``python -m weft``
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else "face"


def test_no_bare_room_imports() -> None:
    bare = re.compile(rf"^\s*(?:from|import) ({'|'.join(OUTSIDE)})\b", re.MULTILINE)
    for name, path in MODULES.items():
        found = bare.search(path.read_text())
        assert not found, f"{name} imports {found and found[1]}"


def test_no_import_cycles() -> None:
    graph = nx.DiGraph(
        (a, b) for a, targets in edges().items() for b in targets if b in MODULES and a != b
    )
    cycles = [sorted(c) for c in nx.strongly_connected_components(graph) if len(c) > 1]
    assert not cycles


def test_rooms_import_those_below() -> None:
    height = {room: number for number, layer in enumerate(LAYERS) for room in layer}
    upward = {
        (name, target)
        for name, targets in edges().items()
        for target in targets
        if room(name) != room(target) and height[room(name)] <= height[room(target)]
    }
    assert upward == UPWARD


def test_irs_import_only_earlier_irs() -> None:
    """Of those that are IRs; an IR may use what its own page is written with besides."""
    wrong = [
        f"{ir} imports {target}"
        for number, ir in enumerate(IRS)
        for target in edges()[ir] & set(IRS)
        if target not in IRS[:number]
    ]
    assert not wrong


def test_rooms_that_transform_share_analyses_alone() -> None:
    """Only the driver composes stages."""
    wrong = [
        f"{name} imports {target}"
        for name, targets in edges().items()
        if room(name) in ("frontend", "graph", "codegen", "accel")
        for target in targets
        if room(target) not in (room(name), "ir") and not target.startswith(SHARED)
    ]
    assert not wrong


def test_every_folder_says_what_is_in_it() -> None:
    for name, path in MODULES.items():
        if path.name == "__init__.py":
            assert ast.get_docstring(ast.parse(path.read_text())), name


def test_dimension_positions_stay_in_one_file() -> None:
    knowing = {name for name, path in MODULES.items() if "dim_type" in path.read_text()}
    assert knowing == {"weft.ir.named_isl"}


def test_no_machine_is_known_outside_of_its_file() -> None:
    """What is said of accelerators holds for all: the one that ships is data like any other."""
    named = re.compile(r"\bvta\b", re.IGNORECASE)
    below = {"ir", "polyhedral", "frontend", "graph", "codegen", "accel", "tuner"}
    files = {
        name: path
        for name, path in MODULES.items()
        if room(name) in below and path.parent.name != "machines"
    }
    assert files and not [name for name, path in files.items() if named.search(path.read_text())]
