"""Documents name files that exist, and .ci/run finds the commands that README promises."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
ROOMS = ("weft", "frontend", "graph", "polyhedral", "codegen", "benchmarks", "tests", "examples")
FILES = {path for room in ROOMS for path in (ROOT / room).rglob("*.py")}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_exist(document):
    names = set(re.findall(r"[\w/]+\.py\b", document.read_text())) - {"__init__.py"}
    known = {"/".join(path.parts[-n:]) for path in FILES for n in (1, 2, 3, 4)}
    assert names <= known


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        assert target.startswith("https://") or (document.parent / target).exists(), target


def test_the_two_commands_of_readme():
    text = (ROOT / "README.md").read_text()
    assert "\npip install -e . && weft run resnet18\n" in text
    assert "\npip install -e '.[test]' && pytest\n" in text


def test_decisions_are_numbered_without_gaps():
    numbers = [int(path.name[:3]) for path in sorted((ROOT / "docs/decisions").glob("*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))
