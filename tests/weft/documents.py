"""Documents whose Python runs: what a ``python`` block prints is the ``text`` block behind it.

The blocks of a document are one program. ``python -m tests.weft.documents docs/x.md`` writes the
texts anew; ``test_documents`` compares them. A text with a line that begins with ``~`` has measured
numbers in it: only its words count.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

from tests.weft.registered import forgotten

_BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n*```text\n(.*?)```\n)?", re.DOTALL)


def outputs(document: str) -> Iterator[tuple[str, str | None, str]]:
    """(code, its text in the document or None, what it prints) of each block."""
    names: dict[str, object] = {"__name__": "document"}
    with tempfile.TemporaryDirectory() as folder, forgotten():
        for number, match in enumerate(_BLOCK.finditer(document)):
            file = Path(folder) / f"block {number}"  # functions need a file to show their source
            file.write_text(match[1])
            printed = io.StringIO()
            with redirect_stdout(printed):
                exec(compile(match[1], str(file), "exec"), names)
            yield match[1], match[2], printed.getvalue()


def rewritten(document: str) -> str:
    """``document`` with every text as it is printed now."""
    printed = iter([text for _, _, text in outputs(document)])

    def block(match: re.Match[str]) -> str:
        text = next(printed)
        return f"```python\n{match[1]}```\n" + (f"\n```text\n{text}```\n" if text else "")

    return _BLOCK.sub(block, document)


def same(expected: str, found: str) -> bool:
    """Whether texts agree; of measured ones, all but the numbers."""
    if any(line.startswith("~") for line in expected.splitlines()):
        return _without_numbers(expected) == _without_numbers(found)
    return expected == found


def _without_numbers(text: str) -> str:
    return re.sub(r"\s*[\d.]+", " 0", text)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(rewritten(path.read_text()))
