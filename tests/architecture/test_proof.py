"""The room that has to be trusted: what it imports, and how large it is."""

from __future__ import annotations

import ast
import sys
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "polyhedral/proof").rglob("*.py"))
LAUNCHES = "gpu"  # a proof of its own, about loop IR: nothing else here uses it
MOST, MOST_OF_LAUNCHES = 2000, 425  # lines of code: neither empty nor comments nor docstrings


def code_lines(path: Path) -> int:
    tree = ast.parse(path.read_text())
    quiet = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and ast.get_docstring(node) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    blank = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
        tokenize.ENCODING, tokenize.ENDMARKER,
    }  # fmt: skip
    with path.open("rb") as file:
        return len(
            {
                line
                for token in tokenize.tokenize(file.readline)
                if token.type not in blank
                for line in range(token.start[0], token.end[0] + 1)
            }
            - quiet
        )


def test_it_is_small() -> None:
    assert FILES and sum(code_lines(f) for f in FILES if f.stem != LAUNCHES) <= MOST
    assert sum(code_lines(f) for f in FILES if f.stem == LAUNCHES) <= MOST_OF_LAUNCHES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_imports_isl_and_the_irs_alone(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module)):
                modules = [module]
            case _:
                continue
        for module in modules:
            inside = module.startswith(("weft.ir.", "weft.polyhedral.proof."))
            assert inside or module.split(".")[0] in {"islpy", *sys.stdlib_module_names}, module


def test_lines_are_counted(tmp_path: Path) -> None:
    text = '"""Says\nwhat."""\n\n# why\nX = (\n    1\n)\n\n\ndef f():\n    "What."\n    return 1\n'
    (tmp_path / "a.py").write_text(text)
    assert code_lines(tmp_path / "a.py") == 5
