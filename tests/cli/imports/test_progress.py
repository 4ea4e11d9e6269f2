import io

from handoffaudit.cli import terminal
from handoffaudit.cli.terminal import ProgressBar


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
