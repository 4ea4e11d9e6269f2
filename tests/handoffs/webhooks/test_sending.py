"""Tests of one request to receivers that misbehave in the ways that receivers do."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from handoffaudit.handoffs.webhooks import client
from handoffaudit.handoffs.webhooks.client import Answer, Sender
from tests.handoffs.webhooks.receiver import Receiver, drip, raw


def post(address: str, body: bytes = b"{}", **headers: str) -> Answer:
    with Sender() as sender:
        return sender.post(address, body, headers)


def test_it_arrives_to_the_byte(receiver: Receiver) -> None:
    answer = post(receiver.url + "?a=1", b'{"a": 1}', x_one="1")
    (request,) = receiver.requests
    assert (answer.status, answer.delivered) == (204, True)
    assert (request.path, request.body, request.headers["x_one"]) == ("/hook?a=1", b'{"a": 1}', "1")
    assert request.headers["host"] == f"127.0.0.1:{receiver.port}"


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    receiver.answers = [(302, {"Location": "http://169.254.169.254/latest"}, b"")]
    answer = post(receiver.url)
    assert not answer.delivered
    assert "redirects are not followed" in answer.error
    assert len(receiver.requests) == 1


def test_of_a_huge_answer_only_the_beginning_is_read(receiver: Receiver) -> None:
    receiver.answers = [(500, {}, b"x" * 20_000_000)]
    answer = post(receiver.url)
    assert answer.status == 500
    assert answer.text == "x" * (client.LONGEST_TEXT - 1) + "…"


def test_an_answer_that_cannot_be_stored_is_made_fit(receiver: Receiver) -> None:
    receiver.answers = [(500, {}, b"no\x00 \xff")]
    assert post(receiver.url).text == "no\ufffd \ufffd"


@pytest.mark.parametrize(
    "text", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 100 Continue\r\n\r\n"], ids=["a header", "early answers"]
)
def test_a_receiver_that_drips_is_left(text: bytes, local: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TOTAL_SECONDS", 0.5)
    with raw(drip(text, 0.01, 30)) as address:
        answer = post(address)
    assert (answer.status, answer.delivered) == (None, False)
    assert "No answer within" in answer.error or "connection broke" in answer.error


def test_a_receiver_that_says_nothing_is_left(local: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TOTAL_SECONDS", 0.3)
    over = threading.Event()
    with raw(lambda _: over.wait(30) and None) as address:
        answer = post(address)
        over.set()
    assert (answer.status, "No answer within" in answer.error) == (None, True)


def test_a_receiver_that_is_not_there(local: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    answer = post(f"http://127.0.0.1:{port}/")
    assert (answer.status, "No connection" in answer.error) == (None, True)


def test_a_receiver_that_hangs_up(local: None) -> None:
    with raw(lambda connection: connection.recv(10) and None) as address:
        assert not post(address).delivered


def test_no_proxy_of_the_environment_is_asked(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    assert post(receiver.url).delivered


def test_it_connects_to_what_was_checked_and_to_nothing_that_the_name_stands_for_later(
    receiver: Receiver, settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[str] = []

    def getaddrinfo(host, port, *args, **kwargs):
        name = host.decode() if isinstance(host, bytes) else host
        looked_up.append(name)
        # A name that changes its mind: good when it is checked, then the inside.
        to = {"hooks.internal": "127.0.0.1" if looked_up.count(name) == 1 else "127.0.0.99"}.get(name, name)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (to, port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert post(f"http://hooks.internal:{receiver.port}/hook").delivered
    assert looked_up.count("hooks.internal") == 1
    assert receiver.requests[0].headers["host"] == f"hooks.internal:{receiver.port}"


def test_the_next_address_is_tried_where_one_does_not_answer(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "resolve", _standing_for(["127.0.0.2", "127.0.0.1"]))
    assert post(receiver.url).delivered


def _standing_for(found: list[str]):
    from handoffaudit.handoffs.webhooks.client import Target, parse_address

    return lambda address: Target(parse_address(address), "127.0.0.1", tuple(found))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with the key and the self-signed certificate of hooks.internal."""
    folder = tmp_path_factory.mktemp("certificate")
    made = folder / "both.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "2", "-subj", "/CN=hooks.internal"),
            *("-addext", "subjectAltName=DNS:hooks.internal"),
        ],
        check=True,
        capture_output=True,
    )
    made.write_bytes((folder / "key.pem").read_bytes() + (folder / "cert.pem").read_bytes())
    return made


@pytest.fixture
def with_tls(certificate: Path, local: None) -> Iterator[int]:
    """Yield the port of a server that answers 200 behind TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def behave(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            read = b""
            while not read.endswith(b"{}"):
                read += secured.recv(65536)
            secured.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with raw(behave) as address:
        yield int(address.rstrip("/").rpartition(":")[2])


def test_the_certificate_must_be_of_the_name_and_not_of_the_number(
    with_tls: int, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = ssl.create_default_context(cafile=certificate)
    monkeypatch.setattr(client, "_trusted_roots", lambda: trusted)
    monkeypatch.setattr(socket, "getaddrinfo", _all_local)
    assert post(f"https://hooks.internal:{with_tls}/").status == 200
    answer = post(f"https://other.internal:{with_tls}/")
    assert (answer.status, "certificate is not valid" in answer.error) == (None, True)


def test_nobody_is_trusted_who_signs_for_himself(with_tls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", _all_local)
    assert "certificate cannot be verified" in post(f"https://hooks.internal:{with_tls}/").error


def _all_local(host, port, *args, **kwargs):
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        ("0", 0.0),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("9" * 40, None),
        ("Mon, 01 Jan 2024 00:00:00 GMT", 0.0),
        (f"Mon, 01 Jan {'9' * 20} 00:00:00 GMT", None),
    ],
)
def test_when_it_wants_to_be_asked_again(receiver: Receiver, value: str, seconds: float | None) -> None:
    receiver.answers = [(503, {"Retry-After": value}, b"")]
    assert post(receiver.url).retry_after == seconds
