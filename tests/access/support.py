"""Lists of all addresses of the product and of all rows that a request could change."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from django.apps import apps
from django.db import connection, transaction
from django.urls import URLPattern, URLResolver, get_resolver

from handoffaudit.api.app import api

# Each visit writes these columns, whether the request is allowed or not.
TOUCHED = {"last_login", "last_used_at"}
# The progress of background work: where no worker runs, any request may advance it.
OF_NOBODY = {"diagnostics.Watermark"}
# `{path:name}` takes slashes, which documents don't say.
_PLAIN = re.compile(r"\{\w+:")
APPS = ("accounts", "policy", "handoffs", "diagnostics")


def page_names() -> set[str]:
    """Return the names of all addresses except the API's operations."""
    return {name for name in _names(get_resolver().url_patterns) if not name.startswith("api:")}


def api_page_names() -> set[str]:
    """Return the names of the API addresses that are not operations: the documentation."""
    operations = {f"api:{operation.view_func.__name__}" for *_, operation in _operations()}
    return {name for name in _names(get_resolver().url_patterns) if name.startswith("api:")} - operations


def _names(patterns: list[Any], namespace: str = "") -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            inner = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            yield from _names(pattern.url_patterns, inner)
        elif isinstance(pattern, URLPattern):
            yield f"{namespace}{pattern.name or pattern.pattern}"


def api_operations() -> set[tuple[str, str]]:
    """Return each operation as `("GET", "/handoffs")`, documented or not."""
    return {(method, path) for path, method, _ in _operations()}


def scopes_of_api() -> dict[tuple[str, str], str]:
    """Return the scope of each operation that needs a key."""
    return {
        (method, path): auth.scope.value
        for path, method, operation in _operations()
        for auth in operation.auth_callbacks
    }


def _operations() -> Iterator[tuple[str, str, Any]]:
    # routers within routers are put in place with the addresses
    list(_names(get_resolver().url_patterns))
    for prefix, router in api._routers:
        for path, view in router.path_operations.items():
            for operation in view.operations:
                for method in operation.methods:
                    yield _PLAIN.sub("{", prefix + path), method, operation


@contextmanager
def nothing_changes() -> Iterator[None]:
    """Fail if a row of the product's own tables differs after the block; undo what the block wrote.

    SQLite counts the rows that a connection has written. While the count stays the same, the tables need not be read.
    """
    written, start = _count_written(), transaction.savepoint()
    assert start, "only a transaction can be undone"
    yield
    if written is not None and _count_written() == written:
        return
    after = everything()
    transaction.savepoint_rollback(start)
    assert after == everything()


def _count_written() -> int | None:
    return connection.connection.total_changes if connection.vendor == "sqlite" else None


def everything() -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of the product's own tables, as the database holds them."""
    with connection.cursor() as cursor:
        return {label: _rows(cursor, query) for label, query in _queries().items()}


@cache
def _queries() -> dict[str, str]:
    quote = connection.ops.quote_name
    queries = {}
    for name in APPS:
        for model in apps.get_app_config(name).get_models():
            if model._meta.label in OF_NOBODY:
                continue
            kept = [field.column for field in model._meta.concrete_fields if field.attname not in TOUCHED]
            table, key = model._meta.db_table, model._meta.pk.column
            queries[model._meta.label] = (
                f"SELECT {', '.join(map(quote, kept))} FROM {quote(table)} ORDER BY {quote(key)}"  # noqa: S608 -- our own
            )
    return queries


def _rows(cursor: Any, query: str) -> list[tuple[Any, ...]]:
    cursor.execute(query)
    return [tuple(bytes(one) if isinstance(one, memoryview) else one for one in row) for row in cursor.fetchall()]
