from __future__ import annotations

import logging
from pathlib import Path

import pytest

from weft.driver.options import Options
from weft.driver.passes import Passes, configure_logging, excerpt
from weft.ir.errors import BudgetError, InternalError, ModelError, WeftWarning


@pytest.fixture(autouse=True)
def quiet_loggers():
    """Leave the loggers as they were."""
    root = logging.getLogger("weft")
    before = (root.level, list(root.handlers), root.propagate)
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    root.propagate = before[2]
    for name in ("weft.fusion", "weft.tiling", "weft.scop"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_result_time_and_texts() -> None:
    passes = Passes(Options(), "model")
    assert passes.run("scop", lambda: [1, 2], show=str) == [1, 2]
    assert passes.run("loops", lambda: 3) == 3
    assert passes.run("scop", lambda: [4], show=str, verify=lambda r: None) == [4]
    assert passes.texts == {"scop": "[1, 2]\n[4]"}
    assert list(passes.seconds) == ["scop", "loops"]
    assert passes.runs == {"scop": 2, "loops": 1}
    assert all(seconds >= 0 for seconds in passes.seconds.values())


def test_no_text_is_made_that_nobody_wants() -> None:
    def never(_: object) -> str:
        raise AssertionError

    passes = Passes(Options(texts=False, print_after=("loops",)))
    passes.run("scop", lambda: 1, show=never)
    assert passes.texts == {}


def test_users_errors_pass_unchanged() -> None:
    passes = Passes(Options())
    passes.run("graph", lambda: "graph text", show=str)
    refusal = ModelError("WEFT-E0299", "what")

    def refuse() -> None:
        raise refusal

    with pytest.raises(ModelError) as caught:
        passes.run("scop", refuse)
    assert caught.value is refusal and not hasattr(refusal, "__notes__")
    assert passes.runs["scop"] == 1


@pytest.mark.parametrize(
    ("kind", "becomes"),
    [
        (MemoryError, BudgetError),
        (RecursionError, InternalError),
        (KeyboardInterrupt, KeyboardInterrupt),
    ],
)
def test_exhaustion_and_interrupts(kind: type[BaseException], becomes: type[BaseException]) -> None:
    def fail() -> None:
        raise kind

    with pytest.raises(becomes):
        Passes(Options()).run("scop", fail)


def test_a_crash_becomes_an_internal_error_with_the_ir_before() -> None:
    passes = Passes(Options(), "model")
    passes.run("graph", lambda: "the graph\nline 2", show=str)
    with pytest.raises(InternalError, match="stage scop failed: ZeroDivisionError") as caught:
        passes.run("scop", lambda: 1 // 0)
    assert caught.value.code == "WEFT-E0900" and caught.value.where == "model"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.__notes__ == ["the IR before, after graph:\nthe graph\nline 2"]


@pytest.mark.parametrize("texts", [True, False])
@pytest.mark.parametrize("error", [InternalError("WEFT-E0903", "bad"), AssertionError("bad")])
def test_a_refusing_verifier_shows_the_ir_on_both_sides(error: Exception, texts: bool) -> None:
    passes = Passes(Options(texts=texts, print_after=("graph",)))
    passes.run("graph", lambda: "before", show=str)

    def refuse(_: object) -> None:
        raise error

    with pytest.raises(InternalError, match="bad") as caught:
        passes.run("scop", lambda: "after", show=str, verify=refuse)
    notes = "\n".join(caught.value.__notes__)
    assert "after scop:\nafter" in notes and "before, after graph:\nbefore" in notes


def test_before_is_checked_first() -> None:
    def refuse() -> None:
        raise InternalError("WEFT-E0903", "bad input")

    def never() -> None:
        raise AssertionError

    with pytest.raises(InternalError, match="bad input"):
        Passes(Options()).run("scop", never, before=refuse)


def test_dump(tmp_path: Path) -> None:
    passes = Passes(Options(dump=str(tmp_path / "new" / "folder")), 'a "b"/../c\n')
    passes.run("graph", lambda: "x", show=str)
    passes.run("scop", lambda: "é", show=str)
    passes.run("scop", lambda: "z", show=str)
    files = sorted((tmp_path / "new" / "folder").iterdir())
    assert [f.name for f in files] == [
        "0000-a_b_.._c_-graph.txt",
        "0001-a_b_.._c_-scop.txt",
        "0002-a_b_.._c_-scop.txt",
    ]
    assert [f.read_text(encoding="utf-8") for f in files] == ["x", "é", "z"]


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    passes = Passes(Options(dump=str(tmp_path / "file")))
    with pytest.warns(WeftWarning, match="WEFT_DUMP"):
        assert passes.run("graph", lambda: 1, show=str) == 1


@pytest.mark.parametrize("names", [("scop",), ("all",)])
def test_print_after(names: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    passes = Passes(Options(print_after=names), "m")
    passes.run("scop", lambda: "text", show=str)
    passes.run("loops", lambda: "more", show=str)
    shown = capsys.readouterr()
    assert shown.out == ""
    extra = "---- m after loops\nmore\n" if names == ("all",) else ""
    assert shown.err == "---- m after scop\ntext\n" + extra


def test_topics(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # twice is not two handlers
        configure_logging(("+fusion", "tiling", "-scop"))
    for name in ("fusion", "tiling", "scop", "other"):
        logger = logging.getLogger(f"weft.{name}")
        logger.debug("debug %s", name)
        logger.info("info %s", name)
        logger.error("error %s", name)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "weft.fusion: debug fusion",
        "weft.fusion: info fusion",
        "weft.fusion: error fusion",
        "weft.tiling: info tiling",
        "weft.tiling: error tiling",
        "weft.scop: error scop",
        "weft.other: error other",
    ]


def test_all_topics_and_times(capsys: pytest.CaptureFixture[str]) -> None:
    Passes(Options(logs=("+all",)), "m").run("scop", lambda: 1)
    assert capsys.readouterr().err.startswith("weft.scop: m scop: ")


def test_without_topics_logging_is_left_alone() -> None:
    before = list(logging.getLogger("weft").handlers)
    Passes(Options())
    assert logging.getLogger("weft").handlers == before


def test_excerpt() -> None:
    assert excerpt("a\nb", 2) == "a\nb"
    assert excerpt("a\nb\nc", 2).startswith("a\nb\n… (3 lines in all")
