"""Documents name files that exist, and .ci/run finds the commands that README promises."""

import re
from pathlib import Path

import pytest

from weft.codegen.optimise_kernel import PASSES

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
ROOMS = (
    "weft", "frontend", "graph", "polyhedral", "codegen", "accel", "tuner", "benchmarks", "tests",
    "examples",
)  # fmt: skip
FILES = {path for room in ROOMS for path in (ROOT / room).rglob("*.py")}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_exist(document):
    names = set(re.findall(r"[\w/]+\.py\b", document.read_text())) - {"__init__.py"}
    known = {"/".join(path.parts[-n:]) for path in FILES for n in (1, 2, 3, 4)}
    assert names <= known


def test_the_page_is_short_and_names_every_pass():
    """The table of passes over loops in its order; a way in is read in one sitting."""
    page = (ROOT / "docs/architecture.md").read_text()
    table = page.split("| pass | what it does |\n|---|---|\n")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert rows == [name for name, _ in PASSES]
    assert len(page.splitlines()) <= 120


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    prose = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)\)", prose):
        assert target.startswith("https://") or (document.parent / target).exists(), target


def test_the_two_commands_of_readme():
    text = (ROOT / "README.md").read_text()
    assert "\npip install -e . && weft run resnet18\n" in text
    assert "\npip install -e '.[test]' && pytest\n" in text


def test_decisions_are_numbered_without_gaps():
    numbers = [int(path.name[:3]) for path in sorted((ROOT / "docs/decisions").glob("*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))
