"""Tests that each request has an id in its answer, in problem documents and in log lines."""

import io
import json
import logging
import re
import threading
from collections.abc import Iterator

import httpx
import pytest
import structlog

from handoffaudit.handoffs import notify, queries
from handoffaudit.observability import begin_request, clear_ids, current_id
from handoffaudit.wsgi import application
from tests.api.support import client, problem

pytestmark = pytest.mark.django_db

MADE = re.compile(r"[0-9a-f]{32}")


@pytest.fixture(autouse=True)
def _own_context() -> Iterator[None]:
    clear_ids()
    yield
    clear_ids()


def id_of(given: str | None, path: str = "http://testserver/healthz") -> str:
    with client(None) as opened:
        answer = opened.get(path, headers={} if given is None else {"X-Request-ID": given})
    (found,) = answer.headers.get_list("X-Request-ID")
    return found


@pytest.mark.parametrize("given", ["a", "4bf92f3577b34da6a3ce929d0e0e4736", "A-b_c.9", "x" * 64])
def test_a_valid_id_of_the_sender_is_kept(given: str) -> None:
    assert id_of(given) == given


@pytest.mark.parametrize("given", [None, "", "x" * 65, "x" * 5000, "a b", 'a"b', "a,b", "a\tb", "{}", "../x", "a%0ab"])
def test_another_id_is_replaced(given: str | None) -> None:
    assert MADE.fullmatch(id_of(given))


@pytest.mark.parametrize("given", ["a\nX-Evil: 1", "a\r\nb", "ä", "\x00"])
def test_an_id_that_a_server_lets_through_unchecked_is_replaced(given: str) -> None:
    assert MADE.fullmatch(begin_request({"HTTP_X_REQUEST_ID": given}))


@pytest.mark.parametrize("path", ["/", "/nothing", "/api/v1/handoffs", "/api/v1/nothing", "/login/", "/metrics"])
def test_every_answer_has_an_id(path: str) -> None:
    assert id_of("mine", f"http://testserver{path}") == "mine"


def test_problem_documents_name_the_request(api: httpx.Client) -> None:
    headers = {"X-Request-ID": "mine"}
    assert problem(api.get("/nothing", headers=headers), 404)["request_id"] == "mine"
    assert problem(api.post("/handoffs", content=b"", headers=headers), 422)["request_id"] == "mine"
    with client("wrong") as stranger:
        assert problem(stranger.get("/handoffs", headers=headers), 401)["request_id"] == "mine"


def test_a_refusal_before_django_names_the_request() -> None:
    with client(None) as opened:
        answer = opened.post("http://testserver/login/", content=b"x" * 2_000_000, headers={"X-Request-ID": "mine"})
    assert answer.status_code == 413
    assert (answer.json()["request_id"], answer.headers["X-Request-ID"]) == ("mine", "mine")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Let the handler of the product write its lines to a text, too."""
    root = logging.getLogger()
    (product,) = [one for one in root.handlers if isinstance(one.formatter, structlog.stdlib.ProcessorFormatter)]
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(product.formatter)
    root.addHandler(handler)
    yield text
    root.removeHandler(handler)


def test_log_lines_of_the_product_and_of_libraries_name_the_request(
    api: httpx.Client, lines: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        logging.getLogger("some.library").warning("a line of a library")
        raise RuntimeError("a bug")

    monkeypatch.setattr(queries, "list_handoffs", broken)
    document = problem(api.get("/handoffs", headers={"X-Request-ID": "mine"}), 500)
    assert document["request_id"] == "mine"
    found = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert {line["event"] for line in found} >= {"a line of a library", "the API failed"}
    assert {line["request_id"] for line in found} == {"mine"}


def test_requests_of_threads_do_not_mix() -> None:
    seen: dict[str, set[str]] = {}
    at_once = threading.Barrier(4)

    def ask(name: str) -> None:
        at_once.wait()
        for _ in range(50):
            begin_request({"HTTP_X_REQUEST_ID": name})
            seen.setdefault(name, set()).add(current_id())

    threads = [threading.Thread(target=ask, args=[f"thread-{at}"]) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {f"thread-{at}": {f"thread-{at}"} for at in range(4)}


def test_a_message_for_many_requests_names_the_last_ones() -> None:
    waker = notify._Waker("tests.none")
    waker._thread = threading.current_thread()
    for at in range(1000):
        begin_request({"HTTP_X_REQUEST_ID": f"id-{at}"})
        waker.ask()
    assert waker._take_ids() == [f"id-{at}" for at in range(990, 1000)]
    assert waker._take_ids() == []


def test_the_application_adds_one_header() -> None:
    got: list[list[tuple[str, str]]] = []
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/healthz",
        "SERVER_NAME": "testserver",
        "SERVER_PORT": "80",
        "wsgi.input": io.BytesIO(),
        "wsgi.url_scheme": "http",
        "wsgi.errors": io.StringIO(),
    }
    body = application(environ, lambda _status, headers, *_: got.append(headers))
    assert b"ok" in b"".join(body)
    assert [name for name, _ in got[0]].count("X-Request-ID") == 1
