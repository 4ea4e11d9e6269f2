"""How much is read of an answer: whoever answers could else fill the memory, with a few kilobytes where they are
compressed."""

from typing import Any, Final

from handoffaudit.llm import errors

LONGEST_BODY: Final = 4 * 1024 * 1024


async def read_bounded(response: Any) -> None:
    """Reads the body of a response of the SDK's HTTP client, unpacked. Raises `Unavailable` where it is too long."""
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > LONGEST_BODY:
            raise errors.too_long(LONGEST_BODY)
        parts.append(part)
    # Where the client itself keeps what it has read: else it would read again, and find nothing.
    response._content = b"".join(parts)  # noqa: SLF001
