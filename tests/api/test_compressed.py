"""Tests of requests with `Content-Encoding`: calls with a body, limits after unpacking, and broken streams."""

import gzip
import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from handoffaudit.handoffs.models import Handoff
from tests.api.support import problem
from tests.diagnostics.files.support import report
from tests.handoffs.hooks.support import after
from tests.handoffs.support import payload

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

pytestmark = pytest.mark.django_db

PACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd.compress}
RESULTS = [{"tool": "get_order", "call_id": "1", "at": "2026-02-15T00:15:00Z", "result": {"total": 54}}]


def send(api: httpx.Client, path: str, content: bytes, encoding: str, **more: Any) -> httpx.Response:
    headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
    return api.request(more.pop("method", "POST"), path, content=content, headers=headers, **more)


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "x-gzip", "GZIP", " zstd "])
def test_a_compressed_document_is_stored_as_it_was_before(api: httpx.Client, encoding: str) -> None:
    plain = json.dumps(payload(handoff_id="h"), indent=1).encode()
    pack = PACK[encoding.strip().lower().removeprefix("x-")]
    assert send(api, "/handoffs", pack(plain), encoding).status_code == 202
    assert bytes(Handoff.objects.get().body.original) == plain
    # The same document without compression is the same handoff.
    assert api.post("/handoffs", content=plain).status_code == 200


@pytest.mark.parametrize("encoding", PACK)
def test_every_call_with_a_body_takes_it_compressed(api: httpx.Client, encoding: str) -> None:
    def sent(path: str, body: Any, **more: Any) -> httpx.Response:
        return send(api, path, PACK[encoding](json.dumps(body).encode()), encoding, **more)

    assert sent("/handoffs/batch", [payload(), payload()]).json()["totals"] == {"202": 2}
    assert sent("/validate", payload()).json()["outcome"] == "accepted"
    assert sent("/repair", payload(confidence="0.8")).json()["status"] == "repaired"
    assert sent("/traces/t/tool-results", RESULTS).json()["totals"] == {"stored": 1}
    assert sent("/hooks/post-tool-use?timeout=0", after()).json()["handoff_id"]
    line = PACK[encoding](b"agent=planner phase=plan level=info\n")
    assert send(api, "/logs", line, encoding, params={"source": "a"}).json()["lines"] == 1
    assert sent("/handoff-files", report(None)).status_code == 201
    table = api.get("/strictness").json()
    saved = {"base_version": table["version"], "note": "compressed", "rows": table["rows"]}
    assert sent("/strictness", saved, method="PUT").status_code == 200


@pytest.mark.parametrize("encoding", PACK)
def test_the_limit_is_that_of_the_content(api: httpx.Client, settings, encoding: str) -> None:
    settings.MAX_BODY_BYTES = 100_000
    fits = json.dumps(payload(data={"text": "a" * 90_000})).encode()
    above = json.dumps(payload(data={"text": "a" * 101_000})).encode()
    assert send(api, "/handoffs", PACK[encoding](fits), encoding).status_code == 202
    found = problem(send(api, "/handoffs", PACK[encoding](above), encoding), 413)
    assert (found["title"], found["limit"]) == ("Body too large", 100_000)
    # The limit of a batch is higher, and a call that parses its body has the limit, too.
    assert send(api, "/handoffs/batch", PACK[encoding](b"[" + fits + b"," + fits + b"]"), encoding).status_code == 200
    results = json.dumps([RESULTS[0] | {"result": "a" * 101_000}]).encode()
    assert problem(send(api, "/traces/t/tool-results", PACK[encoding](results), encoding), 413)["limit"] == 100_000


def bomb(encoding: str) -> bytes:
    """Return 10 MB that open to 10 GB and more."""
    member = PACK[encoding](bytes(10_000_000))
    return member * (10_000_000 // len(member))


@pytest.mark.parametrize("encoding", PACK)
def test_a_bomb_costs_no_more_than_the_limit(api: httpx.Client, settings, encoding: str) -> None:
    settings.MAX_BATCH_BYTES = 12 * 1024 * 1024
    sent = bomb(encoding)
    assert len(sent) > 9_000_000
    tracemalloc.start()
    started = time.process_time()
    response = send(api, "/handoffs/batch", sent, encoding)
    took = time.process_time() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert problem(response, 413)["limit"] == settings.MAX_BATCH_BYTES
    assert peak < 4 * settings.MAX_BATCH_BYTES
    assert took < 5
    # A single document of this size is refused before it is read.
    problem(send(api, "/handoffs", sent, encoding), 413)


@pytest.mark.parametrize("encoding", PACK)
@pytest.mark.parametrize(
    "damage", [lambda packed: packed[:-3], lambda packed: packed + b"more", lambda _: b"no stream", lambda _: b"{}"]
)
def test_a_broken_stream_is_refused_with_the_remedy(
    api: httpx.Client, encoding: str, damage: Callable[[bytes], bytes]
) -> None:
    content = damage(PACK[encoding](json.dumps(payload()).encode()))
    for path in ("/handoffs", "/handoffs/batch", "/validate", "/traces/t/tool-results"):
        found = problem(send(api, path, content, encoding), 400)
        assert found["title"] == "Damaged compression"
        assert "without Content-Encoding" in found["detail"]
    assert not Handoff.objects.exists()


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "gzip,zstd", "x" * 300, "gzip\x00"])
def test_an_unknown_encoding_is_refused_with_the_known_ones(api: httpx.Client, encoding: str) -> None:
    for path in ("/handoffs", "/handoffs/batch", "/validate", "/traces/t/tool-results"):
        response = send(api, path, b"{}", encoding)
        found = problem(response, 415)
        assert "gzip, zstd" in found["detail"]
        assert len(found["detail"]) < 200
        assert response.headers["Accept-Encoding"] == "gzip, zstd"


def test_a_hook_event_in_an_unknown_encoding_is_answered(gate: httpx.Client) -> None:
    """An agent host ignores any status but 200."""
    shown = send(gate, "/hooks/post-tool-use", b"{}", "br").json()
    assert shown["status"] == "NOT_APPLICABLE"
    assert "Content-Encoding" in shown["reason"]


def test_an_empty_compressed_body_is_as_an_empty_body(api: httpx.Client) -> None:
    assert problem(send(api, "/handoffs/batch", gzip.compress(b""), "gzip"), 400)["title"] == "No body"
    assert problem(send(api, "/handoffs", gzip.compress(b""), "gzip"), 422)["state"] == "rejected"


def test_a_call_without_a_body_ignores_the_encoding(api: httpx.Client) -> None:
    assert api.get("/handoffs", headers={"Content-Encoding": "br"}).status_code == 200


def test_nothing_is_unpacked_without_a_key(api: httpx.Client) -> None:
    api.headers["Authorization"] = "Bearer ha_nobody"
    assert send(api, "/handoffs", b"no stream", "gzip").status_code == 401
