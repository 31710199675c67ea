"""Every example, and every Python block of README, runs; each checks its own results."""

import linecache
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))
BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.S | re.M)


def test_there_are_examples():
    assert len(EXAMPLES) >= 6 and len(BLOCKS) >= 1


@pytest.mark.parametrize("example", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_example(example, capsys):
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_readme(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_blocks("README.md", BLOCKS[: number + 1])


def test_the_page_on_loop_kernels(capsys):
    text = (ROOT / "docs" / "loop-kernels.md").read_text()
    run_blocks("loop-kernels.md", re.findall(r"^```python\n(.*?)^```", text, re.S | re.M))
    assert "WEFT-E0162" in capsys.readouterr().out


def run_blocks(document: str, blocks: list[str]) -> None:
    """Blocks may build on the ones before, as they do for a reader."""
    names: dict[str, object] = {"__name__": "document"}
    for k, block in enumerate(blocks):
        file = f"<{document} block {k}>"  # in Python's line cache, as the cells of notebooks are
        linecache.cache[file] = (len(block), None, block.splitlines(keepends=True), file)
        exec(compile(block, file, "exec"), names)
