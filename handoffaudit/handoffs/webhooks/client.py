"""HTTP client for webhooks: address checks, request signatures, and requests limited in time and size."""

import asyncio
import hashlib
import hmac
import ipaddress
import queue
import secrets
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from http import HTTPStatus

import httpx2
from django.conf import settings

from handoffaudit.accounts import Refused
from handoffaudit.validation.text import clean

SETTING = "HANDOFFAUDIT_WEBHOOK_PRIVATE"

LONGEST = 500

LOOKUP_SECONDS = 5.0

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NETWORK = ipaddress.ip_network

_WITH_IPV4_INSIDE = _NETWORK("64:ff9b::/96")

_GLOBAL_IPV6 = _NETWORK("2000::/3")

# Python versions disagree on whether some of these networks are public. Examples are 6to4, Teredo and other ranges that
# embed another address, and the ranges for documentation, benchmarks and old anycast.
_NOT_PUBLIC = tuple(
    _NETWORK(text)
    for text in (
        *("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
)


class BadAddress(Exception):
    """The error for an address that webhooks must not use. `wrong` gives the reason, `remedy` says what to write."""

    def __init__(self, wrong: str, remedy: str) -> None:
        super().__init__(f"{wrong}: {remedy}")
        self.wrong = wrong
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Target:
    """A webhook URL, its host name as sent over the wire, and the IP addresses that passed the checks."""

    url: httpx2.URL
    host: str
    addresses: tuple[str, ...]


def parse_address(address: str) -> httpx2.URL:
    """Return the address as a URL, without a DNS lookup. Raise `BadAddress`."""
    if not address or len(address) > LONGEST:
        raise BadAddress(f"An address is needed, of at most {LONGEST} characters", "write it as https://host/path.")
    if not address.isprintable() or " " in address or "\\" in address:
        raise BadAddress("The address has spaces or other characters that are not allowed", "remove them.")
    try:
        url = httpx2.URL(address)
        port = url.port
    except (httpx2.InvalidURL, ValueError) as error:
        raise BadAddress(f"This is not a web address ({error})", "write it as https://host/path.") from error
    if url.scheme not in ("http", "https") or not url.raw_host:
        raise BadAddress("Only web addresses are allowed", "write it as https://host/path.")
    if url.userinfo:
        raise BadAddress("The address contains a name or a password", "remove them; requests are signed instead.")
    if url.fragment:
        raise BadAddress("The address contains a #", "remove the # and the text after it, which is never sent.")
    if port is not None and not 0 < port <= 65535:
        raise BadAddress(f"{port} is not a port", "use a port from 1 to 65535.")
    return url


# A test of a webhook or a lookup of a name occupies one of the web server's 32 threads for up to ten seconds.
MOST_WAITS_OF_TENANT = 2
MOST_WAITS = 8

_waits: Counter[int] = Counter()
_waits_lock = threading.Lock()


class Busy(Refused):
    """The error for a request that would wait for a receiver while too many requests wait for receivers."""

    def __init__(self) -> None:
        super().__init__("Too many webhooks are tested or saved at this moment", remedy="try again in ten seconds.")


@contextmanager
def take_place(tenant_id: int) -> Iterator[None]:
    """Count a request of the web server that waits for a receiver or a name server; raise `Busy` if too many wait."""
    with _waits_lock:
        if _waits[tenant_id] >= MOST_WAITS_OF_TENANT or _waits.total() >= MOST_WAITS:
            raise Busy
        _waits[tenant_id] += 1
    try:
        yield
    finally:
        with _waits_lock:
            _waits[tenant_id] -= 1


def resolve(address: str) -> Target:
    """Return the URL with the current IP addresses of its host name.

    Connect to these IP addresses without another DNS lookup. Otherwise, a name could pass the checks with one IP
    address and then lead to another. Raise `BadAddress`.
    """
    url = parse_address(address)
    host = url.raw_host.decode("ascii").rstrip(".").lower()
    found = look_up(host, url.port or (443 if url.scheme == "https" else 80))
    allowed = [_is_allowed(one, host) for one in found]
    for text, one, is_allowed in zip(found, map(_address, found), allowed, strict=True):
        if not is_allowed and not _is_public(one):
            raise BadAddress(
                f"{text if host.strip('[]') == text else f'{host} is {text}, which'} is not a public address",
                f"if the address is correct, an operator can allow it with {SETTING}={text}.",
            )
    if url.scheme == "http" and not all(allowed):
        raise BadAddress(
            "http:// would send events unencrypted",
            f"write https://, or ask an operator to allow {host} with {SETTING}.",
        )
    return Target(url, host, tuple(found))


def look_up(host: str, port: int) -> list[str]:
    """Return the IP addresses of a host name or of an IP address in any spelling.

    Raise `BadAddress` if the lookup fails or takes longer than `LOOKUP_SECONDS`.
    """
    answers: queue.SimpleQueue[list[str] | OSError | UnicodeError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            answers.put(error)
        else:
            answers.put(list(dict.fromkeys(str(one[4][0]) for one in found)))

    # If the name server does not answer, the lookup blocks its thread for half a minute. So each lookup runs in a
    # daemon thread of its own.
    threading.Thread(target=ask, name="look-up", daemon=True).start()
    try:
        answer = answers.get(timeout=LOOKUP_SECONDS)
    except queue.Empty:
        answer = OSError("the name server does not answer")
    if not isinstance(answer, list) or not answer:
        why = answer.strerror if isinstance(answer, OSError) and answer.strerror else answer
        raise BadAddress(f"{host} is not found ({why})", "check the spelling.")
    return answer


def _address(text: str) -> Address:
    """Return the address that receives the packets: the IPv4 address in an IPv6 address, or the address itself."""
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
    """Return whether the setting allows the address or its host name.

    The value `true` does not allow link-local, multicast and unspecified addresses, because 169.254.169.254, for
    example, returns cloud credentials. Such an address is allowed only if the setting lists it or its host name.
    """
    private, address = settings.WEBHOOK_PRIVATE, _address(text)
    if host in private.hosts or any(address in network for network in private.networks):
        return True
    return private.everything and not (address.is_link_local or address.is_multicast or address.is_unspecified)


SIGNATURE_HEADER = "Handoffaudit-Signature"


def new_secret() -> str:
    """Return 32 random bytes in hex."""
    return secrets.token_hex(32)


def sign(secret: str, body: bytes, at: int) -> str:
    """Return the signature header `t=…,v1=…` of a request sent at `at`, in seconds since 1970.

    `v1` is the HMAC-SHA256 of the time, a dot, and the body.
    """
    signed = hmac.new(secret.encode(), b"%d." % at + body, hashlib.sha256)
    return f"t={at},v1={signed.hexdigest()}"


TOTAL_SECONDS = 10.0

_NO_ANSWER = f"No answer within {TOTAL_SECONDS:g} s: the receiver must answer before it works on the event."

CONNECT_SECONDS = 5.0

MOST_READ = 4096

MOST_ADDRESSES = 4

LONGEST_TEXT = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one request.

    `status` is None if no HTTP answer came, and for mails. `text` is the start of the answer. `error` says why the
    request does not count as delivered and what to do, and is empty for a delivered request. `retry_after` is the pause
    in seconds that the receiver requests.
    """

    status: int | None
    ms: float
    text: str = ""
    error: str = ""
    retry_after: float | None = None

    @property
    def delivered(self) -> bool:
        return not self.error

    @property
    def gone(self) -> bool:
        return self.status == HTTPStatus.GONE


class Sender:
    """A client that sends requests one after another, on one event loop."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def __enter__(self) -> "Sender":
        self._runner.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()

    def post(self, address: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send one request and return its result. Failures of the receiver or the network never raise."""
        began = time.monotonic()
        try:
            target = resolve(address)
        except BadAddress as error:
            return Answer(None, _ms(began), error=str(error))
        try:
            # The limit is for the whole request, because a timeout for single reads would start again with each byte of
            # a slow receiver.
            left = max(0.1, began + TOTAL_SECONDS - time.monotonic())
            return self._runner.run(asyncio.wait_for(_post(target, body, headers, began), left))
        except TimeoutError:
            return Answer(None, _ms(began), error=_NO_ANSWER)
        except httpx2.HTTPError as error:
            return Answer(None, _ms(began), error=_describe_error(error))


async def _post(target: Target, body: bytes, headers: Mapping[str, str], began: float) -> Answer:
    limits = httpx2.Timeout(TOTAL_SECONDS, connect=CONNECT_SECONDS)
    async with httpx2.AsyncClient(
        verify=_trusted_roots(), timeout=limits, follow_redirects=False, trust_env=False, http2=False
    ) as client:
        response = await _connect(client, target, body, headers)
        try:
            text = await _read_beginning(response)
        finally:
            await response.aclose()
    status = response.status_code
    return Answer(
        status, _ms(began), text, _describe_refusal(response), _retry_after(response.headers.get("retry-after", ""))
    )


async def _connect(
    client: httpx2.AsyncClient, target: Target, body: bytes, headers: Mapping[str, str]
) -> httpx2.Response:
    """Return the response of the first IP address of the target that accepts a connection."""
    name = target.url.netloc.decode("ascii")
    for left, address in reversed(list(enumerate(reversed(target.addresses[:MOST_ADDRESSES])))):
        request = client.build_request(
            "POST",
            target.url.copy_with(host=address),
            content=body,
            headers={**headers, "Host": name, "Accept-Encoding": "identity"},
            extensions={"sni_hostname": target.host},
        )
        try:
            return await client.send(request, stream=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            if not left:
                raise
    raise AssertionError("a target has an address")


async def _read_beginning(response: httpx2.Response) -> str:
    read = b""
    # A connection that breaks after the status still counts as an answer.
    with suppress(httpx2.TransportError):
        async for part in response.aiter_raw(MOST_READ):
            read += part
            if len(read) >= MOST_READ:
                break
    return clean(read[:MOST_READ].decode("utf-8", "replace"), LONGEST_TEXT)


def _describe_refusal(response: httpx2.Response) -> str:
    status = response.status_code
    if 200 <= status < 300:
        return ""
    if 300 <= status < 400:
        where = clean(response.headers.get("location", "elsewhere"), 100)
        return (
            f"The receiver answered {status} with a redirect to {where}: redirects are not followed. Enter the address "
            "of the redirect."
        )
    if status == HTTPStatus.GONE:
        return "The receiver answered 410 Gone, so the webhook is paused. Switch it on again if that was an error."
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return (
            f"The receiver answered {status}: check that the receiver has the current secret, and that its clock is "
            "correct."
        )
    if status == HTTPStatus.NOT_FOUND:
        return "The receiver answered 404: check the path of the address."
    return f"The receiver answered {status}: check its log. Only a status from 200 to 299 counts as delivered."


def _describe_error(error: httpx2.HTTPError) -> str:
    text = clean(str(error) or type(error).__name__, 150)
    if "CERTIFICATE_VERIFY_FAILED" in text or "certificate verify failed" in text:
        return f"The certificate cannot be verified ({text}): renew or replace the certificate."
    if isinstance(error, httpx2.ConnectTimeout):
        return f"No connection within {CONNECT_SECONDS:g} s: check the host name, the port and the firewall."
    if isinstance(error, httpx2.ConnectError):
        return f"No connection ({text}): check the host name and the port, and that the receiver runs."
    if isinstance(error, httpx2.TimeoutException):
        return _NO_ANSWER
    return f"The connection broke ({text}): check the log of the receiver."


def _retry_after(value: str) -> float | None:
    if value.isascii() and value.isdigit() and len(value) < 10:
        return float(value)
    try:
        at = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return max(0.0, ((at if at.tzinfo else at.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds())


def _ms(began: float) -> float:
    return (time.monotonic() - began) * 1000


@cache
def _trusted_roots() -> ssl.SSLContext:
    """Return a TLS context with the certificate authorities that this machine trusts."""
    return ssl.create_default_context()
