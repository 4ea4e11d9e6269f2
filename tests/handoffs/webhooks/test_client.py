"""Tests of the addresses that webhooks may and may not reach."""

import socket
import threading
from ipaddress import ip_network

import pytest

from handoffaudit.env import PrivateTargets
from handoffaudit.handoffs.webhooks import client
from handoffaudit.handoffs.webhooks.client import BadAddress, parse_address, resolve


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Return the addresses of fake host names.

    The real resolver looks up other hosts, which must be numeric, so that no network is needed.
    """
    known: dict[str, list[str]] = {}
    real = socket.getaddrinfo

    def getaddrinfo(host, port, *args, **kwargs):
        if host in known:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in known[host]]
        return real(host, port, *args, flags=socket.AI_NUMERICHOST, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return known


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.1", "127.255.1.2", "0x7f000001", "2130706433", "0", "0.0.0.0"),  # noqa: S104
        *("10.0.0.1", "10.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
        *("192.0.0.8", "198.18.0.1", "192.0.2.1", "203.0.113.9", "224.0.0.1", "224.0.1.1", "240.0.0.1"),
        *("255.255.255.255", "[::1]", "[::]", "[fe80::1]", "[fc00::1]", "[fd12:3456::1]", "[ff02::1]", "[fec0::1]"),
        *("[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]", "[::ffff:a9fe:a9fe]", "[64:ff9b::7f00:1]", "[64:ff9b::a00:1]"),
        *("[64:ff9b:1::1]", "[2002:7f00:1::1]", "[2001:0:1::1]", "[2001:db8::1]", "[::127.0.0.1]", "[100::1]"),
    ],
)
def test_what_is_not_public_is_refused_in_every_spelling(host: str, names: dict[str, list[str]]) -> None:
    with pytest.raises(BadAddress, match="not a public address"):
        resolve(f"https://{host}/")


@pytest.mark.parametrize("host", ["8.8.8.8", "[2606:4700::1111]", "[64:ff9b::808:808]", "[::ffff:8.8.8.8]"])
def test_what_is_public_is_not(host: str, names: dict[str, list[str]]) -> None:
    assert resolve(f"https://{host}/x").addresses == (host.strip("[]"),)


def test_every_address_of_a_name_counts(names: dict[str, list[str]]) -> None:
    names["hooks.example"] = ["8.8.8.8", "10.0.0.7"]
    with pytest.raises(BadAddress, match=r"hooks\.example is 10\.0\.0\.7"):
        resolve("https://hooks.example/")
    names["hooks.example"] = ["8.8.8.8", "2606:4700::1111"]
    assert resolve("https://hooks.example/").addresses == ("8.8.8.8", "2606:4700::1111")


def test_a_name_is_looked_up_as_it_goes_over_the_wire(names: dict[str, list[str]]) -> None:
    names["xn--hk-fka.example"] = ["8.8.8.8"]
    assert resolve("https://HÖK.example./").host == "xn--hk-fka.example"


def test_what_the_setting_names_may_be_sent_to(names: dict[str, list[str]], settings) -> None:
    names |= {"hooks.internal": ["10.0.0.7"], "other.internal": ["10.9.0.7"]}
    settings.WEBHOOK_PRIVATE = PrivateTargets(
        hosts=frozenset({"hooks.internal"}), networks=(ip_network("10.2.0.0/16"),)
    )
    assert resolve("http://hooks.internal:8080/").addresses == ("10.0.0.7",)
    assert resolve("https://10.2.3.4/").addresses == ("10.2.3.4",)
    with pytest.raises(BadAddress, match="HANDOFFAUDIT_WEBHOOK_PRIVATE"):
        resolve("https://other.internal/")


def test_all_of_the_inside_may_be_allowed_but_not_what_knows_the_secrets_of_a_cloud(
    names: dict[str, list[str]], settings
) -> None:
    settings.WEBHOOK_PRIVATE = PrivateTargets(everything=True)
    assert resolve("http://127.0.0.1:9000/").addresses == ("127.0.0.1",)
    for host in ("169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "0.0.0.0", "224.0.0.1"):  # noqa: S104
        with pytest.raises(BadAddress, match="not a public address"):
            resolve(f"http://{host}/")


def test_nothing_goes_out_unencrypted_to_the_world(names: dict[str, list[str]]) -> None:
    with pytest.raises(BadAddress, match="unencrypted"):
        resolve("http://8.8.8.8/")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("", "is needed"),
        ("https://" + "x" * 500, "at most 500"),
        ("hooks.example/x", "Only web addresses"),
        ("ftp://hooks.example/", "Only web addresses"),
        ("file:///etc/passwd", "Only web addresses"),
        ("https:///x", "Only web addresses"),
        ("https://ada:secret@hooks.example/", "a name or a password"),
        ("https://8.8.8.8@10.0.0.1/", "a name or a password"),
        ("https://hooks.example\\@10.0.0.1/", "not allowed"),
        ("https://hooks.example/a b", "not allowed"),
        ("https://hooks.example/\r\nX: y", "not allowed"),
        ("https://hooks.example/#part", "#"),
        ("https://hooks.example:0/", "not a port"),
        ("https://hooks.example:99999/", "port"),
        ("https://hooks.example:x/", "not a web address"),
        ("https://[::1/", "not a web address"),
        ("https://0177.0.0.1/", "not a web address"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_with_the_remedy(address: str, why: str) -> None:
    with pytest.raises(BadAddress, match=why):
        parse_address(address)


def test_a_name_that_is_not_found_says_so(names: dict[str, list[str]]) -> None:
    with pytest.raises(BadAddress, match=r"nobody\.example is not found"):
        resolve("https://nobody.example/")
    names["empty.example"] = []
    with pytest.raises(BadAddress, match="not found"):
        resolve("https://empty.example/")


def test_a_name_server_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    monkeypatch.setattr(client, "LOOKUP_SECONDS", 0.05)

    def getaddrinfo(*_, **__):
        never.wait(60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(BadAddress, match="does not answer"):
        resolve("https://hooks.example/")
    never.set()
