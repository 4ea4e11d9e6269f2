"""Tests of the visual language: only tokens.css defines colours, font sizes and weights."""

import re
from pathlib import Path

import pytest

CSS = Path(__file__).parents[2] / "static" / "css"
TOKENS = CSS / "tokens.css"
BUNDLE = CSS / "app.css"
SHEETS = sorted(path for path in CSS.glob("*.css") if path not in (TOKENS, BUNDLE))
PARTS = sorted(path for suffix in ("css", "js") for path in CSS.parent.rglob(f"*.{suffix}"))
MOST_LINES = 400
LONGEST_TEMPLATE_LINE = 160
# White space shows in this template, which the formatter leaves as it is.
UNFORMATTED = "entries.html"
TEMPLATES = CSS.parents[1] / "templates"
COLOUR = re.compile(r"#[0-9a-f]{3,8}\b|\b(?:rgba?|hsla?|oklch|oklab|lab|lch|light-dark)\(", re.IGNORECASE)
NAMED = re.compile(r":\s*[^;]*\b(?:white|black|red|green|blue|gr[ae]y|orange|yellow)\b(?!-)", re.IGNORECASE)
OF_TYPE = re.compile(r"(?:font-size|font-weight|font):[^;]*\d", re.IGNORECASE)


def rules(path: Path) -> str:
    return re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)


def test_there_are_sheets() -> None:
    assert len(SHEETS) > 10


def test_the_bundle_names_each_sheet_once_in_a_declared_layer() -> None:
    named = re.findall(r'^@import url\("(.+)"\) layer\((.+)\);$', rules(BUNDLE), flags=re.MULTILINE)
    assert sorted(name for name, _ in named) == sorted(path.name for path in [TOKENS, *SHEETS])
    declared = re.findall(r"^@layer (.+);$", rules(BUNDLE), flags=re.MULTILINE)
    assert [", ".join(dict.fromkeys(layer for _, layer in named))] == declared


@pytest.mark.parametrize("path", SHEETS, ids=lambda path: path.name)
def test_a_sheet_names_its_colours_sizes_and_weights_by_token(path: Path) -> None:
    lines = rules(path).splitlines()
    literal = [line.strip() for line in lines if COLOUR.search(line) or NAMED.search(line)]
    of_type = [line.strip() for line in lines if OF_TYPE.search(line) and re.search(r"\d", _bare(line))]
    assert literal == []
    assert of_type == []


def _bare(line: str) -> str:
    """Return the line without its tokens and without the line height beside a font size."""
    return re.sub(r"var\(--[a-z0-9-]+\)|/\s*[\d.]+", "", line)


@pytest.mark.parametrize("path", SHEETS, ids=lambda path: path.name)
def test_a_sheet_uses_only_tokens_that_there_are(path: Path) -> None:
    known = set(re.findall(r"(--[a-z0-9-]+):", TOKENS.read_text() + rules(path)))
    assert set(re.findall(r"var\((--[a-z0-9-]+)", rules(path))) <= known


def test_no_rule_stands_in_two_sheets() -> None:
    """A rule that two pages need belongs in one sheet that both pages load."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for path in SHEETS:
        inner = re.sub(r"(@(?:media|container)[^{]*)\{((?:[^{}]*\{[^{}]*\})*)\s*\}", _with_condition, rules(path))
        for selector, declared in re.findall(r"([^{};]+)\{([^{}]*)\}", inner):
            condition, _, plain = selector.rpartition("\\")
            found.setdefault((condition.strip(), " ".join(plain.split()), " ".join(declared.split())), set()).add(
                path.name
            )
    assert {rule: names for rule, names in found.items() if len(names) > 1} == {}


def _with_condition(block: re.Match[str]) -> str:
    return re.sub(r"([^{}]+)(\{[^{}]*\})", lambda rule: f"{block[1].strip()}\\{rule[1]}{rule[2]}", block[2])


@pytest.mark.parametrize("path", PARTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_sheet_or_script_is_short_enough_to_be_read_at_once(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES


def test_each_token_is_used() -> None:
    used = "".join(rules(path) for path in [TOKENS, *SHEETS])
    names = re.findall(r"^\s+(--[a-z0-9-]+):", TOKENS.read_text(), flags=re.MULTILINE)
    assert [name for name in dict.fromkeys(names) if f"var({name})" not in used] == []


def test_no_template_line_is_long() -> None:
    paths = [path for path in TEMPLATES.rglob("*.html") if path.name != UNFORMATTED]
    lines = [(path.name, line) for path in paths for line in path.read_text().splitlines()]
    assert len(lines) > 5000
    assert [(name, line.strip()) for name, line in lines if len(line) > LONGEST_TEMPLATE_LINE] == []


def test_a_long_word_breaks_on_every_page() -> None:
    """A name of an agent, a type or a trace may be one word of 200 letters."""
    (body,) = re.findall(r"^body \{(.*?)\}", rules(CSS / "base.css"), flags=re.MULTILINE | re.DOTALL)
    assert "overflow-wrap: anywhere;" in body
    undone = [path.name for path in SHEETS if re.search(r"overflow-wrap: (?!anywhere)|word-break: keep", rules(path))]
    assert undone == []


def test_each_table_scrolls_in_its_place() -> None:
    """A table is wider than a narrow screen. Outside a place that scrolls, its last columns are cut off.

    The shares of a trace have three narrow columns.
    """
    tables, scrolled = r"<table class=\"table(?! share-table)[\" ]", r"<[^>]*\btable-scroll\b[^>]*>\s*(?:{%[^%]*%}\s*)*"
    texts = {str(path.relative_to(TEMPLATES)): path.read_text() for path in TEMPLATES.rglob("*.html")}
    found = {name: len(re.findall(tables, text)) for name, text in texts.items()}
    assert sum(found.values()) > 10
    assert {name: number for name, number in found.items() if number} == {
        name: len(re.findall(scrolled + tables, texts[name])) for name, number in found.items() if number
    }
