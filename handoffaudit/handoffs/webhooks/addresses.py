"""Where requests may go: web addresses whose every network address is public, or is allowed by a setting."""

import ipaddress
import queue
import socket
import threading
from dataclasses import dataclass

import httpx2
from django.conf import settings

SETTING = "HANDOFFAUDIT_WEBHOOK_PRIVATE"
LONGEST = 500
LOOKUP_SECONDS = 5.0

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NETWORK = ipaddress.ip_network
_WITH_IPV4_INSIDE = _NETWORK("64:ff9b::/96")
_GLOBAL_IPV6 = _NETWORK("2000::/3")
# Not reachable for everybody, whatever version of Python says what of them: 6to4, Teredo and others that stand for
# another address, documentation, benchmarks, old anycast.
_NOT_PUBLIC = tuple(
    _NETWORK(text)
    for text in (
        *("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
)


class BadAddress(Exception):
    """An address that nothing is sent to: what is wrong with it, and what would do."""

    def __init__(self, wrong: str, remedy: str) -> None:
        super().__init__(f"{wrong}: {remedy}")
        self.wrong = wrong
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Target:
    """A web address, its name (as it goes over the wire), and the network addresses that were found good for it."""

    url: httpx2.URL
    host: str
    addresses: tuple[str, ...]


def parsed(address: str) -> httpx2.URL:
    """The address as it will be used. Raises `BadAddress`; no name is looked up."""
    if not address or len(address) > LONGEST:
        raise BadAddress(f"An address is needed, of at most {LONGEST} characters", "write it as https://host/path.")
    if not address.isprintable() or " " in address or "\\" in address:
        raise BadAddress("The address has spaces or signs that do not belong into one", "take them out.")
    try:
        url = httpx2.URL(address)
        port = url.port
    except (httpx2.InvalidURL, ValueError) as error:
        raise BadAddress(f"This is no web address ({error})", "write it as https://host/path.") from error
    if url.scheme not in ("http", "https") or not url.raw_host:
        raise BadAddress("Only web addresses are sent to", "write it as https://host/path.")
    if url.userinfo:
        raise BadAddress("The address has a name or a password in it", "take them out; requests are signed instead.")
    if url.fragment:
        raise BadAddress("The address has a # in it", "take it out; what follows is never sent.")
    if port is not None and not 0 < port <= 65535:
        raise BadAddress(f"{port} is no port", "use one from 1 to 65535.")
    return url


def checked(address: str) -> Target:
    """The address with what its name stands for now: connect to that and look up nothing again, or a name that changes
    its mind leads elsewhere. Raises `BadAddress`."""
    url = parsed(address)
    host = url.raw_host.decode("ascii").rstrip(".").lower()
    found = look_up(host, url.port or (443 if url.scheme == "https" else 80))
    allowed = [_is_allowed(one, host) for one in found]
    for text, one, is_allowed in zip(found, map(_address, found), allowed, strict=True):
        if not is_allowed and not _is_public(one):
            raise BadAddress(
                f"{text if host.strip('[]') == text else f'{host} is {text}, which'} is not a public address",
                f"if it is meant, an operator can allow it with {SETTING}={text}.",
            )
    if url.scheme == "http" and not all(allowed):
        raise BadAddress(
            "http:// would send it unencrypted", f"write https://, or have an operator allow {host} with {SETTING}."
        )
    return Target(url, host, tuple(found))


def look_up(host: str, port: int) -> list[str]:
    """The network addresses of a name, odd spellings of numbers included. Raises `BadAddress`."""
    answers: queue.SimpleQueue[list[str] | OSError | UnicodeError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            answers.put(error)
        else:
            answers.put(list(dict.fromkeys(str(one[4][0]) for one in found)))

    # A name server that does not answer keeps a thread for half a minute, and it has to be one that nobody waits for.
    threading.Thread(target=ask, name="look-up", daemon=True).start()
    try:
        answer = answers.get(timeout=LOOKUP_SECONDS)
    except queue.Empty:
        answer = OSError("the name server does not answer")
    if not isinstance(answer, list) or not answer:
        why = answer.strerror if isinstance(answer, OSError) and answer.strerror else answer
        raise BadAddress(f"{host} is not found ({why})", "check how it is written.")
    return answer


def _address(text: str) -> Address:
    """The address that packets go to in the end: IPv6 may wrap one of IPv4."""
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return address.ipv4_mapped
        if address in _WITH_IPV4_INSIDE:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _is_public(address: Address) -> bool:
    if any(address in network for network in _NOT_PUBLIC) or address.is_multicast:
        return False
    return address.is_global and (address.version == 4 or address in _GLOBAL_IPV6)


def _is_allowed(text: str, host: str) -> bool:
    """Whether the setting names it. What only this machine or its link knows (169.254.169.254 gives out credentials of
    a cloud) has to be named itself; `true` does not allow it."""
    private, address = settings.WEBHOOK_PRIVATE, _address(text)
    if host in private.hosts or any(address in network for network in private.networks):
        return True
    return private.everything and not (address.is_link_local or address.is_multicast or address.is_unspecified)
