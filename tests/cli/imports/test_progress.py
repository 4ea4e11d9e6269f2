import io
import sys
import threading

import pytest

from handoffaudit.cli import terminal
from handoffaudit.cli.terminal import ProgressBar, ProgressLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar_that_ends_full():
    out = Terminal()
    shown = ProgressBar(100, out=out)
    shown.update(5, 50)
    shown.finish(10)
    half, full = out.getvalue().split("\r\x1b[K")[1:]
    assert half.startswith("█" * 14 + "░" * 14 + "  50 % · 5 documents")
    assert half.endswith(" left")
    assert full.startswith("█" * 28 + " 100 % · 10 documents")
    assert full.endswith("\n")


def test_a_file_gets_plain_lines_now_and_then(monkeypatch):
    monkeypatch.setattr(terminal, "BAR_LINE_SECONDS", 0.0)
    out = io.StringIO()
    ProgressBar(100, out=out).update(5, 50)
    assert out.getvalue().startswith(" 50 % · 5 documents")
    assert "\x1b" not in out.getvalue()


def test_without_a_size_only_the_count_is_shown():
    out = Terminal()
    ProgressBar(0, out=out).update(5, 50)
    assert "%" not in out.getvalue()
    assert "5 documents" in out.getvalue()


def test_a_statement_that_takes_minutes_has_a_line_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(terminal, "TICK_SECONDS", 0.001)
    monkeypatch.setattr(sys, "stderr", out := Terminal())
    seen = threading.Event()

    def describe() -> str:
        seen.set()
        return "checking the copy"

    with ProgressLine().during(describe):
        assert seen.wait(10)
    assert out.getvalue().startswith("\r\x1b[Kchecking the copy · 0:00")
    assert out.getvalue().endswith("\r\x1b[K")


def test_a_quick_block_shows_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLine().during(lambda: "checking the copy"):
        pass
    assert capsys.readouterr().err == ""
