"""Tests of the client of `import --url` against a server with scripted answers."""

import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from handoffaudit.cli import Stop, import_receivers
from handoffaudit.cli.import_files import Occurrences, make_item
from handoffaudit.cli.import_receivers import ServerReceiver

ITEMS = [
    make_item(at, line, Occurrences()) for at, line in enumerate([b'{"handoff_id": "a"}', b"not json", b'{"b": 2}'])
]
TAKEN = {
    "items": [{"status": 202, "issues": []}, {"status": 409, "title": "The id is taken", "detail": "Use another."}]
}
REJECTED = {"title": "Rejected", "issues": [{"code": "structure.json_parse"}]}


class Server(ThreadingHTTPServer):
    """A server with a script: the status, headers and body for each request in turn; None closes the connection."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[tuple[int, dict[str, str], object] | None] = []
        self.seen: list[tuple[str, str, bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, self.headers["Authorization"], body))
        answer = self.server.script.pop(0)
        if answer is None:
            self.close_connection = True
            return
        status, headers, said = answer
        data = json.dumps(said).encode() if not isinstance(said, bytes) else said
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds: list[float] = []
    here, sleep = threading.get_ident(), time.sleep

    def record(duration: float) -> None:
        # Threads that earlier tests left behind sleep, too.
        if threading.get_ident() == here:
            seconds.append(duration)
        else:
            sleep(duration)

    monkeypatch.setattr(import_receivers.time, "sleep", record)
    return seconds


def send(server: Server) -> list[tuple[int, tuple[str, ...], str]]:
    client = ServerReceiver(server.url, "secret")
    try:
        return [(answer.status, answer.codes, answer.why) for answer in client.send(ITEMS)]
    finally:
        client.close()


def test_documents_go_together_and_what_is_not_json_alone(server):
    server.script = [(200, {}, TAKEN), (422, {}, REJECTED)]
    assert send(server) == [(202, (), ""), (422, ("structure.json_parse",), ""), (409, (), "409 The id is taken")]
    (batch, key, lines), (single, _, raw) = server.seen
    assert batch == "/api/v1/handoffs/batch"
    assert key == "Bearer secret"
    assert lines.count(b"\n") == 1
    assert single == f"/api/v1/handoffs?handoff_id={ITEMS[1].handoff_id}"
    assert raw == b"not json"


@pytest.mark.parametrize("wrong", [b"5", b'"%s"' % (b"x" * 201), b'["a"]'])
def test_a_submission_with_a_wrong_id_is_sent_with_the_id_of_its_line(server, wrong):
    item = make_item(1, b'{"document": {}, "handoff_id": ' + wrong + b"}", Occurrences())
    server.script = [(422, {}, REJECTED)]
    client = ServerReceiver(server.url, "secret")
    assert [answer.status for answer in client.send([item])] == [422]
    client.close()
    assert item.handoff_id.startswith("import-")
    assert [(path, body) for path, _, body in server.seen] == [
        (f"/api/v1/handoffs?handoff_id={item.handoff_id}", item.sent)
    ]


def test_a_document_over_several_lines_is_one_line_of_the_batch(server):
    server.script = [(200, {}, {"items": [{"status": 202}]})]
    client = ServerReceiver(server.url, "secret")
    (answer,) = client.send([make_item(1, b'{\n  "handoff_id": "a",\n  "data": [\n    1\n  ]\n}', Occurrences())])
    client.close()
    assert answer.status == 202
    ((_, _, body),) = server.seen
    assert b"\n" not in body
    assert json.loads(body)["document"] == {"handoff_id": "a", "data": [1]}


def test_it_waits_as_long_as_the_server_asks(server, slept):
    server.script = [(429, {"Retry-After": "7"}, {}), (503, {}, b"busy"), (200, {}, TAKEN), (422, {}, REJECTED)]
    assert len(send(server)) == 3
    assert slept[0] == 7
    assert len(slept) == 2


def test_a_lost_connection_is_tried_again(server, slept):
    server.script = [None, None, (200, {}, TAKEN), (422, {}, REJECTED)]
    assert len(send(server)) == 3
    assert slept == [0.5, 1.0]
    assert server.seen[0] == server.seen[1] == server.seen[2]


def test_a_server_that_is_away_is_named_while_the_client_waits_and_is_given_up_in_the_end(slept, capsys):
    with pytest.raises(Stop, match=r"can't be reached .*: check it, then import again"):
        ServerReceiver("http://127.0.0.1:1", "secret").send(ITEMS)
    assert slept == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0]
    waiting = capsys.readouterr().err
    assert waiting.startswith("http://127.0.0.1:1 can't be reached (")
    assert waiting.endswith("): trying again for about a minute.\n")
    assert waiting.count("\n") == 1


@pytest.mark.usefixtures("slept")
def test_on_a_terminal_the_message_replaces_the_progress_bar(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with pytest.raises(Stop):
        ServerReceiver("http://127.0.0.1:1", "secret").send(ITEMS)
    assert capsys.readouterr().err.startswith("\r\x1b[Khttp://127.0.0.1:1 can't be reached (")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "refuses the key .401: No such key"),
        (403, "refuses the key"),
        (404, "is not a handoffaudit"),
        (500, "500: Oh"),
    ],
)
def test_what_another_try_would_not_mend_stops_it(server, status, said):
    title = {401: "No such key", 403: "Scope"}.get(status, "Oh")
    server.script = [(status, {}, {"title": title})]
    with pytest.raises(Stop, match=said) as stopped:
        send(server)
    assert stopped.value.code == 1


@pytest.mark.parametrize("url", ["http://h:99999", "http://u:p@h", "ftp://h", "h"])
def test_a_wrong_address_is_refused(url):
    with pytest.raises(Stop, match=r"address"):
        ServerReceiver(url, "secret")


@pytest.mark.parametrize("key", ["ha_secret\r", "ha_secret\n", "ha_sécret", "ha secret"])
def test_a_key_that_no_header_can_have_is_refused_without_being_named(key):
    with pytest.raises(Stop, match="HANDOFFAUDIT_KEY") as stopped:
        ServerReceiver("http://127.0.0.1:1", key)
    assert key.strip() not in stopped.value.message


def test_a_batch_that_is_too_large_for_the_server_is_halved(server):
    items = [make_item(at, b'{"a": %d}' % at, Occurrences()) for at in range(3)]
    one = {"status": 202, "issues": []}
    large = (413, {}, b"<html>Request Entity Too Large</html>")
    refused = (413, {}, {"title": "Too large", "detail": "Raise the limit."})
    server.script = [large, (200, {}, {"items": [one]}), large, (200, {}, {"items": [one]}), refused]
    client = ServerReceiver(server.url, "secret")
    answers = client.send(items)
    client.close()
    assert [answer.status for answer in answers] == [202, 202, 413]
    assert (answers[2].why, answers[2].remedy) == ("413 Too large", "Raise the limit.")
    assert [body.count(b"\n") + 1 for _, _, body in server.seen] == [3, 1, 2, 1, 1]
