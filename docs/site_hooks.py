"""Hooks of the docs site: the API reference from docs/openapi.json, and pages from outside of docs/."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
# Pages of the site by the file that they are made from.
OUTSIDE = {
    "evals/README.md": "evals.md",
    "benchmarks/README.md": "benchmarks.md",
    "benchmarks/results.md": "benchmark-results.md",
    "tests/upgrade/fixtures/README.md": "upgrade-fixtures.md",
    "handoffaudit/samples/README.md": "samples.md",
}

# mkdocstrings replaces each `:::` by the signatures and docstrings of the object.
PYTHON = """# Python reference

[Python client](client.md) and [Use handoffaudit as a library](library.md) show how to use these classes.

## Client

::: handoffaudit_client.client.Client
::: handoffaudit_client.async_client.AsyncClient
::: handoffaudit_client.verdict.Verdict
::: handoffaudit_client.verdict.Finding

## Library

::: handoffaudit.validation
    options:
      show_root_heading: false
      show_root_toc_entry: false
"""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    found = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    decisions = [f"- [{path.read_text().partition(chr(10))[0].lstrip('# ')}]({path.name})" for path in found]
    files.append(File.generated(config, "decisions/index.md", content="\n".join(["# Decisions\n", *decisions])))
    for source, page in OUTSIDE.items():
        text = (ROOT / source).read_text()
        # Their links lead to docs/, or to other files of the repository, which are not on the site.
        text = re.sub(r"\]\((?:\.\./)+docs/", "](", text)
        text = _link_pages(re.sub(r"\]\((?:\.\./)+", "](../", text))
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "reference-python.md", content=PYTHON))
    api = json.loads((ROOT / "docs" / "openapi.json").read_text())
    files.append(File.generated(config, "reference-api.md", content="\n".join(_api_page(api))))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links out of docs/ to the generated pages, and drop the words for tests behind the language of code."""
    markdown = re.sub(r"^(```\w+) \S+$", r"\1", markdown, flags=re.MULTILINE)
    return _link_pages(markdown.replace("[examples/](examples/)", "`docs/examples/`"))


def _link_pages(text: str) -> str:
    for source, page in OUTSIDE.items():
        text = text.replace(f"](../{source}", f"]({page}")
    return text


def _api_page(api: dict[str, Any]) -> Iterator[str]:
    yield "# API reference\n"
    yield "Each call takes `Authorization: Bearer KEY`. [API](api.md) explains errors, lists and scopes.\n"
    for path, operations in api["paths"].items():
        for method, operation in operations.items():
            yield f"## {method.upper()} {path}\n"
            yield f"{operation.get('summary', '')}. {operation.get('description', '')}\n"
            yield from _parameters(operation.get("parameters", []))
            yield from _bodies(operation)
    yield "## Objects\n"
    for name, schema in sorted(api["components"]["schemas"].items()):
        yield f"### {name}\n"
        yield f"{schema.get('description', '')}\n"
        yield from _fields(schema)


def _parameters(parameters: list[dict[str, Any]]) -> Iterator[str]:
    if parameters:
        yield "| parameter | in | meaning |"
        yield "| --- | --- | --- |"
        for one in parameters:
            name = f"`{one['name']}`" + (" (required)" if one.get("required") else "")
            yield f"| {name} | {one['in']} | {_cell(one.get('description', ''))} |"
        yield ""


def _bodies(operation: dict[str, Any]) -> Iterator[str]:
    for content in operation.get("requestBody", {}).get("content", {}).values():
        yield f"Body: {_type(content.get('schema', {}))}\n"
        break
    for status, answer in operation["responses"].items():
        for kind, content in answer.get("content", {}).items():
            yield f"- {status}: {_type(content.get('schema', {}))} (`{kind}`)"
    yield ""


def _fields(schema: dict[str, Any]) -> Iterator[str]:
    if schema.get("enum"):
        yield f"One of {', '.join(f'`{value}`' for value in schema['enum'])}.\n"
    if schema.get("properties"):
        required = schema.get("required", [])
        yield "| field | type | meaning |"
        yield "| --- | --- | --- |"
        for name, one in schema["properties"].items():
            shown = f"`{name}`" + (" (required)" if name in required else "")
            yield f"| {shown} | {_type(one)} | {_cell(one.get('description', ''))} |"
        yield ""


def _type(schema: dict[str, Any]) -> str:
    """Return a type in words, with links to objects."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    options = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if options:
        return " or ".join(dict.fromkeys(map(_type, options)))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any JSON"))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
