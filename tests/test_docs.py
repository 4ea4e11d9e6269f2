"""What is there is documented, and what is documented is there.

`python -m tests.test_docs` writes docs/codes.md anew from the catalogue, docs/examples/ from the formats, and the
tables of `TABLES` from their declarations.
"""

import json
import os
import re
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from handoffaudit.cli.main import command
from handoffaudit.validation import formats, pipeline
from handoffaudit.validation.config import TypePolicy
from handoffaudit.validation.layers import CATALOGUE, History, Subject
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.text import pluralize
from handoffaudit.validation.tokenizers import default_counter
from handoffaudit.validation.verdict import Outcome
from tests.validation.formats.documents import render_examples

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BESIDE = [ROOT / "README.md", ROOT / "evals" / "README.md", ROOT / "handoffaudit" / "samples" / "README.md"]
PAGES = sorted([*DOCS.glob("*.md"), *BESIDE])
VARIABLE = re.compile(r'"(HANDOFFAUDIT_[A-Z_]+|DATABASE_URL|DATABASE_REPLICA_URL|REDIS_URL|XDG_DATA_HOME)"')

CODES_HEAD = """# Codes

Each finding has a code, a severity, its place in the document, the value seen, and what would make it pass. Errors
reject a handoff; findings marked *hold* hold it for a person; warnings and infos let it pass. No person can approve a
handoff with a finding marked *final*. In the product each code has a page with an example before and after, under Help,
Codes. `python -m tests.test_docs` writes this page from the catalogue in `handoffaudit/validation/`.

| code | severity | what, and why it matters | what to do |
| --- | --- | --- | --- |
"""


def codes_page() -> str:
    rows = []
    for entry in CATALOGUE.values():
        severity = "hold" if entry.holds else entry.severity.value
        remark = "" if entry.approvable else " (final)"
        what = f"**{entry.title}.** {entry.what} *{entry.why}*"
        rows.append(f"| `{entry.code}` | {severity}{remark} | {what} | {entry.hint} |\n")
    return CODES_HEAD + "".join(rows)


def event_rows() -> list[str]:
    from handoffaudit.handoffs.webhooks.subscriptions import EVENT_TEXTS

    return [f"| `{event}` | {text.meaning}.{text.note and f' {text.note}'} |" for event, text in EVENT_TEXTS.items()]


def event_field_rows() -> list[str]:
    from handoffaudit.handoffs.webhooks.subscriptions import EVENT_TEXTS

    return [f"| `{event}` | {text.fields} |" for event, text in EVENT_TEXTS.items()]


def retention_rows() -> list[str]:
    from handoffaudit.policy.retention import AS_SHIPPED, KIND_TEXTS, LEAST

    return [
        f"| `{row.name}` | **{KIND_TEXTS[row.name].title}.** {KIND_TEXTS[row.name].what} | "
        f"{pluralize(row.days, 'day') if row.days else 'forever'} | {pluralize(LEAST[row.name], 'day')} |"
        for row in AS_SHIPPED
    ]


# The generated tables, by page and head of the table.
TABLES: dict[tuple[str, str], Callable[[], list[str]]] = {
    ("webhooks.md", "| event | sent when |"): event_rows,
    ("webhooks.md", "| event | fields |"): event_field_rows,
    ("retention.md", "| kind | what is deleted, and what stays | kept by default | minimum |"): retention_rows,
}


def with_tables(page: str) -> str:
    """Return the text of a page with the rows of its generated tables."""
    text = (DOCS / page).read_text()
    for (name, head), rows in TABLES.items():
        if name == page:
            before, _, table = text.partition(f"{head}\n")
            line, after = table.partition("\n")[0], table.partition("\n\n")[2]
            text = "\n".join((f"{before}{head}", line, *rows(), "", after))
    return text


def leaves(group: click.Group, path: str) -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}
    for name in group.list_commands(click.Context(group)):
        one = group.get_command(click.Context(group), name)
        assert one is not None
        found |= leaves(one, f"{path} {name}") if isinstance(one, click.Group) else {f"{path} {name}": one}
    return found


def documented_commands() -> dict[str, set[str]]:
    sections = (DOCS / "commands.md").read_text().split("\n## ")[1:]
    return {one.partition("\n")[0]: set(re.findall(r"^- .*$", one, re.MULTILINE)) for one in sections}


def options_of(one: click.Command) -> set[str]:
    return {name for parameter in one.params if isinstance(parameter, click.Option) for name in parameter.opts}


def test_every_command_and_option_is_documented_and_no_other():
    there = {path: options_of(one) for path, one in leaves(command, "handoffaudit").items()}
    said = {
        path: {name for line in lines for name in re.findall(r"`(--[a-z-]+)`", line)}
        for path, lines in documented_commands().items()
    }
    assert said == there


def test_every_variable_is_documented_and_no_other():
    read = {name for path in (ROOT / "handoffaudit").rglob("*.py") for name in VARIABLE.findall(path.read_text())}
    for module in ("conftest.py", "scale.py"):
        read |= {name for name in VARIABLE.findall((ROOT / "tests" / module).read_text()) if "_TEST_" in name}
    said = re.findall(r"^\| `([A-Z_]+)` \|", (DOCS / "settings.md").read_text(), re.MULTILINE)
    assert sorted(said) == sorted(read)


def test_the_page_of_codes_is_the_catalogue():
    assert (DOCS / "codes.md").read_text() == codes_page()


@pytest.mark.parametrize("page", sorted({page for page, _ in TABLES}))
def test_the_tables_of_a_page_are_the_declarations(page: str) -> None:
    text = (DOCS / page).read_text()
    assert all(f"\n{head}\n" in text for name, head in TABLES if name == page)
    assert text == with_tables(page)


def test_every_call_of_the_api_is_documented_and_no_other():
    from handoffaudit.api.app import api

    paths = api.get_openapi_schema(path_prefix="/api/v1/")["paths"]
    there = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    said = re.findall(r"^\| `([A-Z]+ /\S+)` \|", (DOCS / "api.md").read_text(), re.MULTILINE)
    assert set(said) == there


def test_every_filter_of_the_list_is_documented():
    from handoffaudit.api.app import api

    parameters = api.get_openapi_schema(path_prefix="/api/v1/")["paths"]["/api/v1/handoffs"]["get"]["parameters"]
    row = next(line for line in (DOCS / "api.md").read_text().splitlines() if "`GET /api/v1/handoffs`" in line)
    assert set(re.findall(r"`([a-z_]+)`", row)) == {one["name"] for one in parameters} - {"cursor", "limit"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)\)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_the_readmes_first_handoff_is_accepted():
    document = re.search(r"-d '(\{.*?\})'", (ROOT / "README.md").read_text(), re.DOTALL)
    reading = formats.read(json.loads(document[1]), None, Envelope())
    subject = Subject(
        record=reading.record,
        policy=TypePolicy(handoff_type="*"),
        history=History(),
        received_at=datetime.now(UTC),
        counter=default_counter(),
    )
    verdict = pipeline.run(subject, validation_id="1", now=lambda: datetime.now(UTC), monotonic=time.monotonic)
    assert (verdict.outcome, verdict.issues) == (Outcome.ACCEPTED, ())


def test_the_readme_names_every_page():
    text = (ROOT / "README.md").read_text()
    # index.md is the first page of the docs site, as README.md is that of the repository.
    named = {page.name for page in DOCS.glob("*.md") if f"docs/{page.name}" in text}
    assert {page.name for page in DOCS.glob("*.md")} - named == {"index.md"}


def test_the_checks_have_ids_of_their_own():
    ids = re.findall(r'id="handoffaudit\.([EW]\d+)"', (ROOT / "handoffaudit" / "checks.py").read_text())
    assert len(ids) == len(set(ids)) > 0


@pytest.mark.parametrize(
    ("page", "label", "template"),
    [
        ("diagnostics.md", "vs previous period", "diagnostics/reasons.html"),
        ("handoff.md", "Only findings", "handoff/document.html"),
    ],
)
def test_a_label_in_the_docs_is_that_of_the_page(page: str, label: str, template: str) -> None:
    assert f"*{label}*" in (DOCS / page).read_text()
    assert label in (ROOT / "templates" / "dashboard" / template).read_text()


if __name__ == "__main__":
    import django

    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"HANDOFFAUDIT_DATA": folder, "DJANGO_SETTINGS_MODULE": "handoffaudit.settings"}
        django.setup()
        for name in sorted({page for page, _ in TABLES}):
            (DOCS / name).write_text(with_tables(name))
    (DOCS / "codes.md").write_text(codes_page())
    for name, text in render_examples().items():
        (DOCS / "examples" / f"{name}.json").write_text(text)
