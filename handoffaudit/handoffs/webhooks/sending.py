"""One request to a receiver: bounded in time and size, to the addresses that were checked and nowhere else."""

import asyncio
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from http import HTTPStatus

import httpx2

from handoffaudit.handoffs.webhooks.addresses import BadAddress, Target, checked
from handoffaudit.validation.text import clean

TOTAL_SECONDS = 10.0
CONNECT_SECONDS = 5.0
MOST_READ = 4096
MOST_ADDRESSES = 4
LONGEST_TEXT = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a request. `status`: None where none came; `text`: how the answer begins; `error`: why it does not
    count as delivered, with a remedy, empty where it does. `retry_after`: seconds that the receiver asks for."""

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
    """Sends requests to one receiver, one after another."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def __enter__(self) -> "Sender":
        self._runner.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()

    def post(self, address: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Never raises for what the receiver or the network does."""
        began = time.monotonic()
        try:
            target = checked(address)
        except BadAddress as error:
            return Answer(None, _ms(began), error=str(error))
        try:
            # What comes drop by drop must end, too: limits for single reads would begin anew with each drop.
            left = max(0.1, began + TOTAL_SECONDS - time.monotonic())
            return self._runner.run(asyncio.wait_for(_post(target, body, headers, began), left))
        except TimeoutError:
            return Answer(None, _ms(began), error=f"No answer within {TOTAL_SECONDS:g} s: answer first, then work.")
        except httpx2.HTTPError as error:
            return Answer(None, _ms(began), error=_told(error))


async def _post(target: Target, body: bytes, headers: Mapping[str, str], began: float) -> Answer:
    limits = httpx2.Timeout(TOTAL_SECONDS, connect=CONNECT_SECONDS)
    async with httpx2.AsyncClient(
        verify=_trusted(), timeout=limits, follow_redirects=False, trust_env=False, http2=False
    ) as client:
        response = await _connected(client, target, body, headers)
        try:
            text = await _beginning(response)
        finally:
            await response.aclose()
    status = response.status_code
    return Answer(status, _ms(began), text, _refusal(response), _retry_after(response.headers.get("retry-after", "")))


async def _connected(
    client: httpx2.AsyncClient, target: Target, body: bytes, headers: Mapping[str, str]
) -> httpx2.Response:
    """The first of the target's addresses that can be reached."""
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


async def _beginning(response: httpx2.Response) -> str:
    read = b""
    # What breaks off after the status is an answer all the same.
    with suppress(httpx2.TransportError):
        async for part in response.aiter_raw(MOST_READ):
            read += part
            if len(read) >= MOST_READ:
                break
    return clean(read[:MOST_READ].decode("utf-8", "replace"), LONGEST_TEXT)


def _refusal(response: httpx2.Response) -> str:
    status = response.status_code
    if 200 <= status < 300:
        return ""
    if 300 <= status < 400:
        where = clean(response.headers.get("location", "elsewhere"), 100)
        return (
            f"It answered {status} and points to {where}: redirects are not followed. Enter the address it points to."
        )
    if status == HTTPStatus.GONE:
        return "It answered 410 Gone: nothing more is sent to it. Switch it on again if that was an error."
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return f"It answered {status}: check that it knows the secret of now, and that its clock is right."
    if status == HTTPStatus.NOT_FOUND:
        return "It answered 404: check the path of the address."
    return f"It answered {status}: its own log should say why. Anything from 200 to 299 counts as delivered."


def _told(error: httpx2.HTTPError) -> str:
    text = clean(str(error) or type(error).__name__, 150)
    if "CERTIFICATE_VERIFY_FAILED" in text or "certificate verify failed" in text:
        return f"Its certificate is not good for this name ({text}): mend the certificate."
    if isinstance(error, httpx2.ConnectTimeout):
        return f"No connection within {CONNECT_SECONDS:g} s: check its name, its port and its firewall."
    if isinstance(error, httpx2.ConnectError):
        return f"No connection ({text}): check its name and port, and that it runs."
    if isinstance(error, httpx2.TimeoutException):
        return f"No answer within {TOTAL_SECONDS:g} s: answer first, then work."
    return f"The connection broke ({text}): its own log should say why."


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
def _trusted() -> ssl.SSLContext:
    """Who this machine trusts."""
    return ssl.create_default_context()
